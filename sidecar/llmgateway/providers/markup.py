"""Markup in prose: reasoning and tool calls that a server passes on as the text of an answer. Pure.

A server that does not know the template of a model leaves the marks of the template in the text: reasoning in
``<think>`` at the beginning, calls in ``<tool_call>``, ``<function=...>``, ``<invoke ...>`` or after
``[TOOL_CALLS]`` at the beginning of a line, between the special tokens of Llama, Phi, Kimi and DeepSeek
anywhere, and as the JSON object that is a whole answer. Shown as text they are noise, and the calls are never
run. Only a call of a tool that was offered is one, and none in a block of code: text that quotes such a mark
is more often about it.

The models of gpt-oss divide an answer into messages, each behind a header. ``<|channel|>analysis<|message|>``
begins reasoning, the channel ``final`` the answer, and a header with ``to=functions.ls`` a call. A token that
ends an answer is dropped where it does. A template that begins the reasoning itself leaves ``</think>``: the
text before it was reasoning, unless the mark stands in code or in the middle of a line.

Text is passed on as it comes; only an end that may be the beginning of a mark is held back, at most as long
as the longest mark or header. A call is held back until its end, and is text when it cannot be read.

Example: ``"ok\\n<tool_"``, ``'call>{"name": "ls", "arguments": {}}</tool_call>'`` gives the text ``"ok\\n"``
with the first piece, and with the second one a call of ``ls``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import Emission
from sidecar.llmgateway.providers.adapter import ModelCall
from sidecar.llmgateway.providers.assembly import Assembly, Emissions, require_text
from sidecar.llmgateway.providers.fields import CHAT_MARK
from sidecar.llmgateway.providers.windows import is_local

CALL_LIST_MARK: Final = "[TOOL_CALLS]"
IN_TEXT: Final = f"{CHAT_MARK}text"
"""The signature of reasoning that stood in the text; it does not go back, as its template says."""

_THINK: Final = "<think>"
_END_OF_THINKING: Final = "</think>"
_FUNCTION_MARK: Final = "<function="
_INVOCATION_MARK: Final = "<invoke name="
_BARE_MARK: Final = "{"
_BARE: Final = re.compile(r"\{\s*\"(?:name|type)\"\s*:")
_BARE_CHARS: Final = 24
"""So many characters tell whether an answer begins as a call without a mark does."""
_BARE_KEYS: Final = frozenset({"type", "id", "name", "arguments", "parameters"})
_END_OF_CALL: Final = "</tool_call>"
_CALL_MARKS: Final = {
    "<tool_call>": re.compile(_END_OF_CALL),
    _FUNCTION_MARK: re.compile("</function>"),
    "<function_calls>": re.compile("</function_calls>"),
    "<minimax:tool_call>": re.compile("</minimax:tool_call>"),
    _INVOCATION_MARK: re.compile("</invoke>"),
    "<|tool_call|>": re.compile(r"<\|/tool_call\|>"),
    "<|tool_calls_section_begin|>": re.compile(r"<\|tool_calls_section_end\|>"),
    "<｜tool▁calls▁begin｜>": re.compile("<｜tool▁calls▁end｜>"),
    "<|python_tag|>": re.compile(r"(?!)"),
    CALL_LIST_MARK: re.compile(r"(?!)"),
}
"""The marks of calls and their ends; calls without one go on up to the end of the answer."""

_HEADER_MARKS: Final = ("<|start|>", "<|channel|>")
_END_OF_HEADER: Final = "<|message|>"
_HEADER_LIMIT: Final = re.compile(r"\n|.{200}")
_HEADER: Final = re.compile(
    r"(?:<\|start\|>)?(?:assistant)?\s*(?:to=([^\s<]+))?\s*<\|channel\|>\s*(analysis|commentary|final)"
    r"(?:\s+to=([^\s<]+))?\s*(?:<\|constrain\|>)?\s*\w*\s*<\|message\|>"
)
"""The header of a message of gpt-oss; the recipient of a call stands before the channel or behind it."""

_ENDS: Final = {
    **_CALL_MARKS,
    _BARE_MARK: re.compile(r"(?!)"),
    _THINK: re.compile(_END_OF_THINKING),
    _END_OF_HEADER: re.compile(r"<\|(?:end|return|call)\|>|(?=<\|(?:start|channel)\|>)"),
}
"""The ends of all that is not text for the user, by the mark before it."""

_ANSWER_ENDS: Final = (
    "<|return|>",
    "<|end|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<｜end▁of▁sentence｜>",
)
"""The tokens that end an answer in the templates of gpt-oss, Qwen, Llama and DeepSeek."""

_BEGINNING: Final = re.compile(r"(?P<margin>^[^\S\n]*)(?=[<\[])|(?=<(?:[|｜/]|\Z))", re.MULTILINE)
"""A place where a mark may begin, at the beginning of a line or anywhere."""

_FENCE: Final = re.compile(r"(?:[-*+>]\s++|\d{1,9}[.)]\s++|\s++)*(`{3,}+|~{3,}+)(.*)")
_INDENTED: Final = re.compile(r"(?: {4}|\t)\s*\Z")
_LINE_CHARS: Final = 200
_FUNCTION: Final = re.compile(r"<function=([^>\s]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER: Final = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_INVOCATION: Final = re.compile(r"<invoke name=\"([^\">]+)\">(.*?)(?:</invoke>|\Z)", re.DOTALL)
_ARGUMENT: Final = re.compile(r"<parameter name=\"([^\">]+)\"[^>]*>\n?(.*?)\n?</parameter>", re.DOTALL)
_KEYED: Final = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>\n?(.*?)\n?</arg_value>", re.DOTALL)
_SECTION: Final = re.compile(
    r"<[|｜]tool[_▁]call[_▁]begin[|｜]>\s*(?:function<｜tool▁sep｜>)?(?:functions\.)?([\w.-]+?)(?::\d+)?\s*"
    r"(?:<\|tool_call_argument_begin\|>|<｜tool▁sep｜>)?\s*(?:```json)?\s*(\{.*?\})\s*(?:```)?\s*"
    r"<[|｜]tool[_▁]call[_▁]end[|｜]>",
    re.DOTALL,
)
"""A call between the special tokens of Kimi and DeepSeek."""

_NAMED: Final = re.compile(r"\s*([\w.-]+)\s*(?:\[ARGS\])?\s*(\{.*)", re.DOTALL)

_MAX_CALL_CHARS: Final = 250_000
_MAX_END_CHARS: Final = 32


class MarkedCall(Value):
    """A call in the text; *arguments* is JSON text."""

    name: str
    arguments: str


class Prose(Value):
    """Text for the user, or with *is_thinking* the reasoning before it."""

    text: str
    is_thinking: bool = False


class EndOfThinking(Value):
    """The text before it was reasoning, unless the answer already has reasoning of its own."""


Piece: TypeAlias = Prose | MarkedCall | EndOfThinking


class Header(Value):
    """The kind of a message of gpt-oss: a call of *recipient*, else reasoning or text for the user."""

    recipient: str | None
    is_for_user: bool


class MarkupReader:
    """Takes the text of one answer apart; calls of the *tools* only are calls."""

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._marks = (*(_CALL_MARKS if tools else ()), *_HEADER_MARKS, *_ANSWER_ENDS, _END_OF_THINKING)
        self._held = ""
        self._open: str | None = None
        self._n_searched = 0
        self._recipient: str | None = None
        self._is_first = True
        self._skips_blank = False
        self._skips_end = False
        self._line = ""
        self._n_ticks = 0
        self._fence = ""

    def read(self, delta: str) -> Iterator[Piece]:
        """Yield the pieces that *delta* completes."""
        waits = self._open or self._held or self._is_first or self._skips_blank or self._skips_end
        if delta and not waits and "<" not in delta and "[" not in delta:
            yield self._pass_on(delta)
            return
        self._held += delta
        before = None
        while self._held and (self._open, self._held) != before:
            before = mark, _ = self._open, self._held
            if mark is None:
                yield from self._read_text()
                continue
            if mark not in _ENDS:
                yield from self._judge(mark)
                continue
            found = _ENDS[mark].search(self._held, self._n_searched)
            self._n_searched = 0 if found else max(0, len(self._held) - _MAX_END_CHARS)
            if found is not None:
                inside, self._held = self._held[: found.start()], self._held[found.end() :]
                self._open, self._line, self._skips_blank = None, "", self._is_reasoning(mark)
                yield from self._take_apart(mark, inside, found[0])
            elif self._is_reasoning(mark):
                ends = (_END_OF_THINKING,) if mark == _THINK else (*_HEADER_MARKS, *_ANSWER_ENDS)
                inside, self._held = split_before_mark(self._held, *ends)
                self._n_searched = 0
                yield from self._take_apart(mark, inside)
            elif len(self._held) > _MAX_CALL_CHARS:
                text, self._open, self._held, self._n_searched = f"{mark}{self._held}", None, "", 0
                yield self._pass_on(text)

    def finish(self) -> Iterator[Piece]:
        """Yield the pieces that were held back."""
        held, mark, self._held, self._open = self._held, self._open, "", None
        if mark == _END_OF_THINKING:
            yield from self._judge(mark)
        elif mark in _ENDS:
            yield from self._take_apart(mark, held)
        elif held and mark not in _ANSWER_ENDS:
            yield Prose(f"{mark or ''}{held}")

    def _read_text(self) -> Iterator[Piece]:
        """Pass text on up to the next mark, or to the possible beginning of one."""
        if self._skips_blank:
            self._held = self._held.lstrip("\n")
            self._skips_blank = not self._held
        if self._skips_end:
            # A model that left out the beginning of the mark around a function writes its end all the same.
            start = self._held.lstrip()
            if _END_OF_CALL.startswith(start) and start != _END_OF_CALL:
                return
            self._skips_end = False
            if start.startswith(_END_OF_CALL):
                self._held = start.removeprefix(_END_OF_CALL)
        if self._is_first:
            start = self._held.lstrip()
            if not start or (_THINK.startswith(start) and start != _THINK):
                return
            may_be_call = bool(self._tools) and start.startswith(_BARE_MARK)
            if may_be_call and len(start) < _BARE_CHARS and not _BARE.match(start):
                return
            self._is_first = False
            if start.startswith(_THINK):
                self._open, self._held = _THINK, start.removeprefix(_THINK)
                return
            if may_be_call and _BARE.match(start):
                self._open, self._held = _BARE_MARK, start.removeprefix(_BARE_MARK)
                return
        end, mark = find_mark(self._held, self._marks, at_line_start=not self._line.strip())
        text, rest = self._held[:end], self._held[end:]
        if text:
            yield self._pass_on(text)
        if mark in _CALL_MARKS and self._is_in_code():
            self._held = rest.removeprefix(mark)
            yield self._pass_on(mark)
            return
        self._open, self._held = mark, rest.removeprefix(mark) if mark else rest

    def _judge(self, mark: str) -> Iterator[Piece]:
        """Tell a mark that divides the answer from text about the mark, by the text around it."""
        rest, dividers = self._held.lstrip(), (*_HEADER_MARKS, *_ANSWER_ENDS)
        header = read_header(f"{mark}{self._held}") if mark in _HEADER_MARKS else None
        if mark in _HEADER_MARKS:
            if header is None and _END_OF_HEADER not in rest and not _HEADER_LIMIT.search(rest):
                return
            is_divider = header is not None and (header.recipient is None or not self._is_in_code())
        elif mark in _ANSWER_ENDS:
            is_divider = rest.startswith(dividers)
            if not is_divider and any(each.startswith(rest) for each in dividers):
                return
        else:
            starts_line = not self._line.strip()
            is_divider = not self._is_in_code() and (starts_line or self._held[:1] in ("", "\r", "\n"))
        self._open = None
        if not is_divider:
            yield self._pass_on(mark)
        elif header is not None:
            self._fence = ""
            self._recipient, self._held = header.recipient, self._held.partition(_END_OF_HEADER)[2]
            if header.is_for_user and self._line.strip():
                self._held = f"\n\n{self._held}"
            self._open = None if header.is_for_user else _END_OF_HEADER
        elif mark in _ANSWER_ENDS:
            self._held = rest
        else:
            self._line, self._skips_blank = "", True
            yield EndOfThinking()

    def _is_reasoning(self, mark: str) -> bool:
        return mark == _THINK or (mark == _END_OF_HEADER and self._recipient is None)

    def _take_apart(self, mark: str, inside: str, end: str = "") -> Iterator[Piece]:
        """Yield the *inside* of a mark; as text where it is neither reasoning nor calls."""
        if self._is_reasoning(mark):
            if inside:
                yield Prose(inside, is_thinking=True)
        elif mark == _END_OF_HEADER and self._recipient is not None and self._tools:
            yield MarkedCall(self._recipient.removeprefix("functions."), inside.strip() or "{}")
        else:
            is_part = mark in (_FUNCTION_MARK, _INVOCATION_MARK, _BARE_MARK)
            calls = read_calls(f"{mark}{inside}" if is_part else inside)
            if not all(call.name in self._tools for call in calls):
                calls = ()
            if mark == _BARE_MARK and calls and not is_bare_call(f"{mark}{inside}"):
                calls = ()
            self._skips_end = bool(calls) and mark == _FUNCTION_MARK
            yield from calls or (Prose(f"{mark}{inside}{end}"),)

    def _pass_on(self, text: str) -> Prose:
        """Return *text*, and note how its last line begins, and the block of code that it is in."""
        for n, part in enumerate(text.split("\n")):
            if n:
                self.end_line()
            self._line += part[: max(0, _LINE_CHARS - len(self._line))]
            self._n_ticks += part.count("`")
        return Prose(text)

    def end_line(self) -> None:
        """Begin or end a block of code with the line that ends."""
        found = _FENCE.match(self._line)
        if found is not None and not self._fence:
            self._fence = found[1]
        elif found is not None and found[1].startswith(self._fence) and not found[2].strip():
            self._fence = ""
        self._line, self._n_ticks = "", 0

    def _is_in_code(self) -> bool:
        """Whether the text so far ends in a block of code or in code within a line."""
        return bool(self._fence) or self._n_ticks % 2 == 1 or _INDENTED.match(self._line) is not None


def is_bare_call(text: str) -> bool:
    """Whether a JSON object has the members of a call, and no other ones.

    >>> is_bare_call('{"name": "ls", "parameters": {}}'), is_bare_call('{"name": "ls", "version": 1}')
    (True, False)
    """
    members = json.loads(text).keys()
    return members <= _BARE_KEYS and not members.isdisjoint(("arguments", "parameters"))


class MarkedAssembly(Assembly):
    """An answer with reasoning and calls of *tools* in its text; ``finish`` adds the end of the text."""

    def __init__(self, tools: Collection[str]) -> None:
        super().__init__()
        self._markup = MarkupReader(tools)

    def add_text(self, delta: object) -> Emissions:
        """Add *delta* up to the possible beginning of a mark."""
        return self._add(self._markup.read(require_text(delta, "a piece of text")))

    def finish(self, model: str) -> Emissions:
        """Return the emissions of the text that was held back, and the last ones."""
        held = self._add(self._markup.finish())
        return (*held, *super().finish(model))

    def _add(self, pieces: Iterable[Piece]) -> Emissions:
        emissions: list[Emission] = []
        for piece in pieces:
            match piece:
                case Prose(text=text, is_thinking=True):
                    emissions += self.add_thinking(text, IN_TEXT)
                case Prose(text=text):
                    emissions += super().add_text(text)
                case MarkedCall(name=name, arguments=arguments):
                    emissions += self.add_call(None, name, arguments)
                case EndOfThinking():
                    self.turn_text_into_thinking(IN_TEXT)
        return emissions


def assembly_of(call: ModelCall, *, has_markup: bool = False) -> Assembly:
    """Return the assembly for the answer to *call*.

    With *has_markup*, and for servers that are local or need no key, its text is read for marks: hosted
    services know the templates of their models.
    """
    endpoint = call.endpoint
    if has_markup or is_local(endpoint.base_url) or not endpoint.provider.needs_key:
        return MarkedAssembly([tool.name for tool in call.conversation.tools or ()])
    return Assembly()


def find_mark(text: str, marks: Sequence[str], *, at_line_start: bool) -> tuple[int, str | None]:
    """Return the length of *text* before the first of *marks* at the beginning of a line, and that mark.

    Special tokens and ends of reasoning count anywhere. The mark is None when there is none, or when the text
    ends before it is complete.

    >>> find_mark("a <tool_call>", ["<tool_call>"], at_line_start=True)
    (13, None)
    >>> find_mark("a\\n<tool_", ["<tool_call>"], at_line_start=False)
    (2, None)
    """
    tokens = [mark for mark in marks if mark[1] in "|｜/"]
    for found in _BEGINNING.finditer(text):
        at = found.end()
        starts_line = found["margin"] is not None and (found.start() > 0 or at_line_start)
        for mark in marks if starts_line else tokens:
            if text.startswith(mark, at):
                return at, mark
            if len(text) - at < len(mark) and mark.startswith(text[at:]):
                return at, None
    return len(text), None


def read_header(text: str) -> Header | None:
    """Return the header at the beginning of *text*, None when there is no whole one.

    >>> read_header("<|channel|>analysis<|message|>The user")
    Header(recipient=None, is_for_user=False)
    >>> read_header("<|start|>assistant to=functions.ls<|channel|>commentary json<|message|>")
    Header(recipient='functions.ls', is_for_user=False)
    """
    found = _HEADER.match(text)
    if found is None:
        return None
    recipient = found[1] or found[3]
    return Header(recipient, is_for_user=recipient is None and found[2] != "analysis")


def split_before_mark(text: str, *marks: str) -> tuple[str, str]:
    """Return *text* in two parts, the second of which may be the beginning of one of *marks*.

    >>> split_before_mark("so</th", "</think>", "<|end|>")
    ('so', '</th')
    """
    n_held = max(n for mark in marks for n in range(len(mark)) if text.endswith(mark[:n]))
    return text[: len(text) - n_held], text[len(text) - n_held :]


def read_calls(text: str) -> tuple[MarkedCall, ...]:
    """Return the calls in *text*, the inside of a mark; none when it is not written as calls.

    >>> read_calls('{"name": "ls", "arguments": {"path": "."}}')
    (MarkedCall(name='ls', arguments='{"path": "."}'),)
    >>> read_calls("<function=ls><parameter=path>\\n.\\n</parameter></function>")
    (MarkedCall(name='ls', arguments='{"path": "."}'),)
    >>> read_calls('<invoke name="ls"><parameter name="path">.</parameter></invoke>')
    (MarkedCall(name='ls', arguments='{"path": "."}'),)
    """
    if functions := _FUNCTION.findall(text):
        return tuple(
            MarkedCall(
                name,
                inside.strip()
                if inside.lstrip().startswith("{")
                else json.dumps(dict(_PARAMETER.findall(inside))),
            )
            for name, inside in functions
        )
    if invocations := _INVOCATION.findall(text):
        return tuple(
            MarkedCall(name, json.dumps(dict(_ARGUMENT.findall(inside)))) for name, inside in invocations
        )
    if keyed := _KEYED.findall(text):
        return (MarkedCall(text.partition("<")[0].strip(), json.dumps(dict(keyed))),)
    if sections := _SECTION.findall(text):
        return tuple(MarkedCall(name, arguments) for name, arguments in sections)
    calls: list[MarkedCall] = []
    try:
        for value in find_calls(text):
            name, arguments = value["name"], value.get("arguments", value.get("parameters", {}))
            calls.append(MarkedCall(name, arguments if isinstance(arguments, str) else json.dumps(arguments)))
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return ()
    return tuple(calls)


def find_calls(text: str) -> Iterator[Any]:
    """Yield the JSON objects of calls: one, a list of them, or each behind its name.

    >>> list(find_calls('ls[ARGS]{"path": "."}'))
    [{'name': 'ls', 'arguments': {'path': '.'}}]
    """
    if text.lstrip().startswith(("{", "[")):
        value = json.loads(text)
        yield from value if isinstance(value, list) else (value,)
        return
    rest, decoder = text, json.JSONDecoder()
    while rest.strip():
        named = _NAMED.match(rest.replace(CALL_LIST_MARK, "", 1))
        if named is None:
            raise ValueError("a call begins with its name")
        arguments, end = decoder.raw_decode(named[2])
        yield {"name": named[1], "arguments": arguments}
        rest = named[2][end:]
