"""Markup in prose: reasoning and tool calls that a server passes on as the text of an answer. Pure.

A server that does not know the template of a model leaves the marks of the template in the text: reasoning in
``<think>`` at the beginning, calls in ``<tool_call>``, ``<function=...>`` or after ``[TOOL_CALLS]`` at the
beginning of a line, and between the special tokens of Llama, Kimi and DeepSeek anywhere. Shown as text they
are noise, and the calls are never run. Only a call of a tool that was offered is one: text that quotes such a
mark is more often about it.

Text is passed on as it comes; only an end that may be the beginning of a mark is held back, at most as long
as the longest mark. A call is held back until its end, and is text when it cannot be read.

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
from sidecar.llmgateway.providers.assembly import Assembly
from sidecar.llmgateway.providers.fields import CHAT_MARK

IN_TEXT: Final = f"{CHAT_MARK}text"
"""The signature of reasoning that stood in the text; it does not go back, as its template says."""

_THINK: Final = "<think>"
_CALLS: Final = "[TOOL_CALLS]"
_FUNCTION_MARK: Final = "<function="
_END_OF_CALL: Final = "</tool_call>"
_ENDS: Final = {
    _THINK: "</think>",
    "<tool_call>": _END_OF_CALL,
    _FUNCTION_MARK: "</function>",
    "<|tool_calls_section_begin|>": "<|tool_calls_section_end|>",
    "<｜tool▁calls▁begin｜>": "<｜tool▁calls▁end｜>",
    "<|python_tag|>": "",
    _CALLS: "",
}
"""The marks and their ends; calls without one go on up to the end of the answer."""

_MAX_CALL_CHARS: Final = 1_000_000
_FUNCTION: Final = re.compile(r"<function=([^>\s]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER: Final = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_KEYED: Final = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>\n?(.*?)\n?</arg_value>", re.DOTALL)
_SECTION: Final = re.compile(
    r"<[|｜]tool[_▁]call[_▁]begin[|｜]>\s*(?:function<｜tool▁sep｜>)?(?:functions\.)?([\w.-]+?)(?::\d+)?\s*"
    r"(?:<\|tool_call_argument_begin\|>|<｜tool▁sep｜>)?\s*(?:```json)?\s*(\{.*?\})\s*(?:```)?\s*"
    r"<[|｜]tool[_▁]call[_▁]end[|｜]>",
    re.DOTALL,
)
"""A call between the special tokens of Kimi and DeepSeek."""

_NAMED: Final = re.compile(r"\s*([\w.-]+)\s*(?:\[ARGS\])?\s*(\{.*)", re.DOTALL)


class Prose(Value):
    """Text for the user, or with *is_thinking* the reasoning before it."""

    text: str
    is_thinking: bool = False


class MarkedCall(Value):
    """A call in the text; *arguments* is JSON text."""

    name: str
    arguments: str


Piece: TypeAlias = Prose | MarkedCall


class MarkupReader:
    """Takes the text of one answer apart; calls of the *tools* only are calls."""

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._marks = [mark for mark in _ENDS if mark != _THINK] if tools else []
        self._held = ""
        self._open: str | None = None
        self._is_first = True
        self._skips_blank = False
        self._skips_end = False
        self._at_line_start = True

    def read(self, delta: str) -> Iterator[Piece]:
        """Yield the pieces that *delta* completes."""
        self._held += delta
        before = None
        while self._held and self._held != before:
            before = self._held
            if self._open is None:
                yield from self._read_text()
                continue
            mark, end_mark = self._open, _ENDS[self._open]
            inside, end, rest = self._held.partition(end_mark) if end_mark else (self._held, "", "")
            if mark == _THINK:
                # Reasoning is passed on, a call is held until its end; a list of calls ends with the answer.
                if end:
                    self._open, self._held, self._skips_blank = None, rest, True
                else:
                    inside, self._held = split_before_mark(inside, end_mark)
                if inside:
                    yield Prose(inside, is_thinking=True)
            elif end:
                self._open, self._held, self._at_line_start = None, rest, True
                calls = self._calls_in(mark, inside)
                self._skips_end = bool(calls) and mark == _FUNCTION_MARK
                yield from calls or (Prose(f"{mark}{inside}{end}"),)
            elif len(self._held) > _MAX_CALL_CHARS:
                text, self._open, self._held = f"{mark}{self._held}", None, ""
                yield Prose(text)

    def finish(self) -> Iterator[Piece]:
        """Yield the pieces that were held back."""
        held, mark, self._held, self._open = self._held, self._open, "", None
        if mark is not None and mark != _THINK:
            yield from self._calls_in(mark, held) or (Prose(f"{mark}{held}"),)
        elif held:
            yield Prose(held, is_thinking=mark == _THINK)

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
            self._is_first = False
            if start.startswith(_THINK):
                self._open, self._held = _THINK, start.removeprefix(_THINK)
                return
        end, mark = find_mark(self._held, self._marks, at_line_start=self._at_line_start)
        text, rest = self._held[:end], self._held[end:]
        if text:
            self._at_line_start = text.rstrip(" \t").endswith("\n")
            yield Prose(text)
        self._open, self._held = mark, rest.removeprefix(mark) if mark else rest

    def _calls_in(self, mark: str, text: str) -> tuple[MarkedCall, ...]:
        calls = read_calls(f"{mark}{text}" if mark == _FUNCTION_MARK else text)
        return calls if all(call.name in self._tools for call in calls) else ()


class MarkedText:
    """Adds the text of an answer to *assembly*, with the reasoning and calls of *tools* that stand in it."""

    def __init__(self, assembly: Assembly, tools: Collection[str]) -> None:
        self._assembly = assembly
        self._markup = MarkupReader(tools)
        self._n_calls = 0

    def add(self, delta: str) -> list[Emission]:
        """Add *delta* up to the possible beginning of a mark."""
        return self._add(self._markup.read(delta))

    def finish(self) -> list[Emission]:
        """Add the end of the text; a second call adds nothing."""
        return self._add(self._markup.finish())

    def _add(self, pieces: Iterable[Piece]) -> list[Emission]:
        emissions: list[Emission] = []
        for piece in pieces:
            match piece:
                case Prose(text=text, is_thinking=True):
                    emissions += self._assembly.add_thinking(text, IN_TEXT)
                case Prose(text=text):
                    emissions += self._assembly.add_text(text)
                case MarkedCall(name=name, arguments=arguments):
                    self._n_calls += 1
                    key = "marked", self._n_calls
                    emissions += self._assembly.open_call(key, None, name)
                    emissions += self._assembly.add_arguments(key, arguments)
        return emissions


def find_mark(text: str, marks: Sequence[str], *, at_line_start: bool) -> tuple[int, str | None]:
    """Return the length of *text* before the first of *marks* at the beginning of a line, and that mark.

    Special tokens count anywhere. The mark is None when there is none, or when the text ends before it is
    complete.

    >>> find_mark("a <tool_call>", ["<tool_call>"], at_line_start=True)
    (13, None)
    >>> find_mark("a\\n<tool_", ["<tool_call>"], at_line_start=False)
    (2, None)
    """
    for found in re.finditer(r"[<\[]", text):
        at = found.start()
        _, newline, line = text[:at].rpartition("\n")
        starts_line = not line.strip() and (bool(newline) or at_line_start)
        for mark in marks if starts_line else [mark for mark in marks if mark[1] in "|｜"]:
            if text.startswith(mark, at):
                return at, mark
            if mark.startswith(text[at:]):
                return at, None
    return len(text), None


def split_before_mark(text: str, mark: str) -> tuple[str, str]:
    """Return *text* in two parts, the second of which may be the beginning of *mark*.

    >>> split_before_mark("so</th", "</think>")
    ('so', '</th')
    """
    n_held = next(n for n in range(len(mark) - 1, -1, -1) if text.endswith(mark[:n]))
    return text[: len(text) - n_held], text[len(text) - n_held :]


def read_calls(text: str) -> tuple[MarkedCall, ...]:
    """Return the calls in *text*, the inside of a mark; none when it is not written as calls.

    >>> read_calls('{"name": "ls", "arguments": {"path": "."}}')
    (MarkedCall(name='ls', arguments='{"path": "."}'),)
    >>> read_calls("<function=ls><parameter=path>\\n.\\n</parameter></function>")
    (MarkedCall(name='ls', arguments='{"path": "."}'),)
    """
    if functions := _FUNCTION.findall(text):
        return tuple(
            MarkedCall(name, json.dumps(dict(_PARAMETER.findall(inside)))) for name, inside in functions
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
        named = _NAMED.match(rest.replace(_CALLS, "", 1))
        if named is None:
            raise ValueError("a call begins with its name")
        arguments, end = decoder.raw_decode(named[2])
        yield {"name": named[1], "arguments": arguments}
        rest = named[2][end:]
