"""Lookups: the tool calls that a prompt is worth, their results as lines, and the answer that cites them.

A plan calls only tools that are offered, four at most in a round and three rounds at most, and never the same
call twice. Results are read tolerantly, for the tools of different makers. A line is ranked by how many of
the wanted words it holds; nothing judges its meaning.

The answer quotes and counts; it draws no conclusions, because the model behind it cannot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import ToolCallBlock, ToolDescriptor, ToolResultBlock
from sidecar.llmgateway.offline.intent import Intent

MAX_CALLS: Final = 4
MAX_ROUNDS: Final = 3
_CONTEXT_LINES: Final = 8
_MAX_LINES: Final = 20_000

_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "path": ("path", "file_path", "filePath", "file"),
    "pattern": ("pattern", "query", "name", "glob"),
    "name": ("name", "pattern", "query", "glob"),
    "command": ("command", "cmd"),
    "content": ("content", "text"),
    "old_text": ("old_text", "old_string", "oldText", "old"),
    "new_text": ("new_text", "new_string", "newText", "new"),
}
"""The names of one argument in tools of different makers; the first one is ours."""

_NUMBERED: Final = re.compile(r"\s*(\d{1,9})(?:\t|→|: |\| )(.*)")
_GREPPED: Final = re.compile(r"((?:[A-Za-z]:)?[^:\n]+):(\d{1,9}):\s?(.*)")
_DEFINITION: Final = re.compile(
    r"\s*(?:export |default |public |private |static |async |pub |abstract |final )*"
    r"(?:def|class|fn|func|function|const|let|var|type|struct|enum|interface|trait|impl|module|macro_rules!)\b"
    r"|\s*[A-Z][A-Z0-9_]+\s*(?::[^=]+)?=\s"
)

STATEMENT: Final = (
    "I am offline-1, the built-in model without network: I find and cite lines, I do not reason about them."
)
"""The end of every answer."""

_HELP: Final = (
    "Name a file and I read it; put a word in backticks and I search for it. I also do this:\n\n"
    "```\nrun `COMMAND`\nwrite PATH: TEXT\nedit PATH: replace `A` with `B`\n```\n\n"
    "For real answers, configure a model with a key."
)
_BY_NAMES: Final = (
    "I understand sentences in English alone. In any language I find the files, symbols and words of the "
    "project that a question names."
)
_MAX_CITED: Final = 12
_MAX_LISTED: Final = 20
_MAX_OUTPUT_LINES: Final = 20
_MAX_LINE_CHARS: Final = 160
_MAX_REASON_CHARS: Final = 1000
"""The reason of a failure stands behind the whole path of a file."""
_MARKUP: Final = re.compile(r"[`*\\]|(?<!\w)_|_(?!\w)|\]\(|<[A-Za-z/!?]|~~|&#?\w+;")
"""What Markdown would not show as it is; an underscore inside a word it does."""


class CitedLine(Value):
    """One line of one file, and the tool that returned it."""

    path: str
    line: int
    text: str
    tool: str


class Lookup(Value, kw_only=True):
    """One tool call and its result; *path* is the file of the call, None when it names none."""

    tool: str
    input: Any
    text: str
    is_error: bool
    path: str | None
    cited: tuple[CitedLine, ...]

    @classmethod
    def of(cls, call: ToolCallBlock, result: ToolResultBlock) -> Lookup:
        """Return *call* with its *result*."""
        text, path, is_error = _as_text(result.output), _argument(call.input, "path"), bool(result.is_error)
        cited: tuple[CitedLine, ...] = ()
        lines = [line.rstrip("\r") for line in text.split("\n")[:_MAX_LINES]]
        if is_error or call.name in ("bash", "write", "edit"):
            pass
        elif call.name == "read" and path is not None:
            numbered = filter(None, map(_NUMBERED.fullmatch, lines))
            cited = tuple(CitedLine(path, int(match[1]), match[2], call.name) for match in numbered)
        else:
            grepped = filter(None, map(_GREPPED.fullmatch, lines))
            cited = tuple(
                CitedLine(match[1].strip(), int(match[2]), match[3], call.name) for match in grepped
            )
        return cls(tool=call.name, input=call.input, text=text, is_error=is_error, path=path, cited=cited)

    @property
    def lines(self) -> list[str]:
        """The lines of the result that are not blank."""
        return [line.strip() for line in self.text.split("\n")[:_MAX_LINES] if line.strip()]

    @property
    def file_name(self) -> str | None:
        """The name of the file that was read, or searched by a pattern."""
        sought = self.path or _argument(self.input, "pattern")
        return sought.replace("\\", "/").rstrip("/").rpartition("/")[2] if sought else None


def best_lines(lookups: Iterable[Lookup], terms: Sequence[str], *, limit: int) -> list[CitedLine]:
    """Return the best lines: those with most *terms* first, definitions before uses.

    Args:
        lookups: the lookups so far; a line of several of them counts once.
        terms: the wanted words; a line without any of them is left out, unless there are no terms at all.
        limit: how many lines at most.
    """
    wanted = [term.lower() for term in terms]
    ranked: list[tuple[float, int, CitedLine]] = []
    seen: set[tuple[str, int]] = set()
    for line in (line for lookup in lookups for line in lookup.cited):
        n_found = sum(term in line.text.lower() for term in wanted)
        if (line.path, line.line) in seen or not line.text.strip() or (wanted and not n_found):
            continue
        seen.add((line.path, line.line))
        score = n_found + (1.5 if is_definition(line.text) else 0.5)
        ranked.append((-score, len(ranked), line))
    return [line for _, _, line in sorted(ranked)[:limit]]


def is_definition(text: str) -> bool:
    """Whether a line of code seems to define something."""
    return _DEFINITION.match(text) is not None


class PlannedCall(Value):
    """A tool call to make."""

    name: str
    input: dict[str, Any]


class OfferedTools:
    """The tools that the model may call, with the names of their arguments."""

    def __init__(self, tools: Iterable[ToolDescriptor]) -> None:
        self._arguments: dict[str, frozenset[str]] = {}
        for tool in tools:
            properties = tool.parameters.get("properties")
            known = frozenset(properties) if isinstance(properties, Mapping) else frozenset()
            self._arguments[tool.name] = known

    def takes(self, name: str, *arguments: str) -> bool:
        """Whether the schema of the tool *name* has all of *arguments*."""
        return set(arguments) <= self._arguments.get(name, frozenset())

    def calls(self, name: str, /, **arguments: Any) -> Iterator[PlannedCall]:
        """Yield the call of the tool *name*, with its spelling of *arguments*; nothing without that tool."""
        known = self._arguments.get(name)
        if known is None:
            return
        named = {}
        for argument, value in arguments.items():
            spellings = _SPELLINGS.get(argument, (argument,))
            named[next((each for each in spellings if each in known), spellings[0])] = value
        yield PlannedCall(name, named)


def plan_calls(
    intent: Intent, rounds: Sequence[Sequence[Lookup]], tools: OfferedTools
) -> tuple[PlannedCall, ...]:
    """Return the calls of the next round, none when it is time to answer.

    Args:
        intent: the intent of the prompt.
        rounds: the lookups of each round so far, oldest first.
        tools: the tools that may be called.
    """
    if len(rounds) >= MAX_ROUNDS:
        return ()
    known = [lookup for lookups in rounds for lookup in lookups]
    return new_calls(follow_up(intent, known, tools) if rounds else first_round(intent, tools), known)


def new_calls(planned: Iterable[PlannedCall], known: Sequence[Lookup]) -> tuple[PlannedCall, ...]:
    """Return the first of the *planned* calls, each once and none that was made before."""
    fresh: list[PlannedCall] = []
    for call in planned:
        is_made = any((lookup.tool, lookup.input) == (call.name, call.input) for lookup in known)
        if call not in fresh and not is_made:
            fresh.append(call)
    return tuple(fresh[:MAX_CALLS])


def first_round(intent: Intent, tools: OfferedTools) -> Iterator[PlannedCall]:
    """Yield the calls for *intent* before anything is known."""
    if intent.write is not None:
        yield from tools.calls("write", path=intent.write.path, content=intent.write.text)
    elif intent.edit is not None:
        looked = list(tools.calls("read", path=intent.edit.path))
        yield from looked or _edit(intent, tools)
    elif intent.todo:
        entries = [{"content": item, "status": "pending"} for item in intent.todo]
        yield from tools.calls("todo", entries=entries)
    else:
        for command in intent.commands:
            yield from tools.calls("bash", command=command)
        for ref in intent.paths:
            if ref.path.endswith("/"):
                yield from tools.calls("ls", path=ref.path)
            elif ref.line is not None and tools.takes("read", "offset", "limit"):
                start = max(1, ref.line - _CONTEXT_LINES)
                yield from tools.calls("read", path=ref.path, offset=start, limit=2 * _CONTEXT_LINES + 1)
            else:
                yield from tools.calls("read", path=ref.path)
        for term in intent.terms:
            yield from tools.calls("grep", pattern=re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", term))
        if not (intent.commands or intent.paths or intent.terms or intent.is_small_talk or intent.remember):
            yield from list(tools.calls("ls")) or tools.calls("find", pattern="*")
            for word in intent.words:
                yield from tools.calls("grep", pattern=_any_case(word))


def follow_up(intent: Intent, known: Sequence[Lookup], tools: OfferedTools) -> Iterator[PlannedCall]:
    """Yield the calls for *intent* after the lookups *known*."""
    if intent.edit is not None:
        if not any(lookup.is_error for lookup in known):
            yield from _edit(intent, tools)
        return
    if intent.write is not None or intent.todo or (intent.commands and not intent.paths and not intent.terms):
        return
    yield from search_missing_files(known, tools)
    if not any(lookup.cited for lookup in known):
        for word in intent.looser_words:
            yield from tools.calls("grep", pattern=_any_case(word))
    elif tools.takes("read", "offset", "limit"):
        # Read on from the best definition among the lines.
        for line in best_lines(known, intent.terms, limit=1):
            if line.tool == "grep" and is_definition(line.text):
                yield from tools.calls("read", path=line.path, offset=line.line, limit=2 * _CONTEXT_LINES)


def _edit(intent: Intent, tools: OfferedTools) -> Iterator[PlannedCall]:
    if (edit := intent.edit) is not None:
        yield from tools.calls("edit", path=edit.path, old_text=edit.old, new_text=edit.new)


def search_missing_files(known: Sequence[Lookup], tools: OfferedTools) -> Iterator[PlannedCall]:
    """Yield searches for files that are not at the path in the prompt, and a read of each that was found."""
    for lookup in known:
        name = lookup.file_name
        if name is None:
            continue
        if lookup.tool == "read" and lookup.is_error:
            listed = [] if "." in name else list(tools.calls("ls", path=lookup.path))
            found = listed or list(tools.calls("find", pattern=name))
            yield from found or tools.calls("glob", pattern=f"**/{name}")
        if lookup.tool in ("find", "glob") and not lookup.is_error:
            paths = [line for line in lookup.lines if f"/{line}".replace("\\", "/").endswith(f"/{name}")]
            for path in paths[:1]:
                yield from tools.calls("read", path=path)


def _any_case(word: str) -> str:
    """Return a pattern for *word* with or without a capital, in every common dialect."""
    first = word[0]
    has_case = first.upper() != first.lower()
    return f"[{first.upper()}{first.lower()}]{word[1:]}" if has_case else word


def _argument(value: Any, name: str) -> str | None:
    if not isinstance(value, Mapping):
        return None
    return next((value[each] for each in _SPELLINGS[name] if isinstance(value.get(each), str)), None)


def _as_text(output: Any) -> str:
    """Return the text in the JSON value of a tool's result."""
    match output:
        case None:
            return ""
        case str():
            return output
        case list() | tuple():
            return "\n".join(_as_text(each) for each in output)
        case {"text": text} | {"content": text} | {"output": text} | {"stdout": text}:
            return _as_text(text)
        case _:
            return json.dumps(output, ensure_ascii=False, default=str)


def announce(intent: Intent) -> str:
    """Return one line about the first calls, to go before them."""
    if intent.write is not None:
        return f"Writing {intent.write.path}."
    if intent.todo:
        return f"Noting {len(intent.todo)} things to do."
    if intent.edit is not None:
        return f"Looking at {intent.edit.path} before the edit."
    aims = [f"running `{command}`" for command in intent.commands]
    aims += [f"reading {ref.path}" for ref in intent.paths]
    aims += [f"searching for `{term}`" for term in intent.terms or intent.words]
    text = ", ".join(aims) or "looking around"
    return f"{text[0].upper()}{text[1:]}."


def answer(intent: Intent, lookups: Sequence[Lookup], *, has_tools: bool) -> str:
    """Return the answer to *intent* after *lookups*, bounded, ending with :data:`STATEMENT`."""
    if intent.remember is not None:
        return f"Noted, and it stays in this conversation: {_clip(intent.remember)}\n\n{STATEMENT}"
    if intent.is_small_talk and not lookups:
        return f"{STATEMENT} {_HELP}"
    parts = [describe_effect(each) for each in lookups if each.tool in ("bash", "write", "edit", "todo")]
    if cited := cite_lines(intent, lookups):
        parts.append(cited)
    elif listed := list_entries(lookups):
        parts.append(f"{listed}\n\n{_BY_NAMES}" if intent.terms or intent.words else listed)
    for failed in (each for each in lookups if each.is_error):
        call = f"{failed.tool} {failed.path}" if failed.path else failed.tool
        reason = _clip(next(iter(failed.lines), "no reason was given"), _MAX_REASON_CHARS)
        parts.append(f"{call} failed: {reason}")
    shown = [part for part in parts if part]
    if shown:
        return "\n\n".join((*shown, STATEMENT))
    if not has_tools:
        nothing = "No tool that I could use for this was offered to me, so I looked nothing up."
    else:
        sought = ", ".join(f"`{term}`" for term in intent.terms or intent.words)
        about = f" for {sought}" if sought else ""
        nothing = f"I found nothing{about} in {len(lookups)} lookups. {_HELP}"
    return f"{nothing}\n\n{STATEMENT}"


def describe_effect(lookup: Lookup) -> str:
    """Return the result of a call that changes something; failed ones are reported elsewhere."""
    if lookup.is_error:
        return ""
    if lookup.tool != "bash":
        return _clip(next(iter(lookup.lines), f"{lookup.tool} {lookup.path or ''}: done"))
    lines = lookup.text.rstrip().split("\n")
    left_out = len(lines) - _MAX_OUTPUT_LINES
    shown = [f"... {left_out} lines before", *lines[-_MAX_OUTPUT_LINES:]] if left_out > 0 else lines
    command = lookup.input.get("command", "") if isinstance(lookup.input, dict) else ""
    body = "\n".join(_clip(line) for line in shown)
    return f"`{_clip(command)}` answered:\n\n```\n{body}\n```"


def cite_lines(intent: Intent, lookups: Sequence[Lookup]) -> str:
    """Return the best lines of *lookups* for *intent*, cited; empty without any."""
    sought = intent.terms or intent.words
    found = best_lines(lookups, sought, limit=_MAX_CITED)
    if not found and not intent.paths:
        sought = intent.looser_words
        found = best_lines(lookups, sought, limit=_MAX_CITED)
    elif not found:
        outline = [line for lookup in lookups for line in lookup.cited if line.text.strip()]
        marked = [line for line in outline if is_definition(line.text) or line.text.startswith("#")]
        found = (marked or outline)[:_MAX_CITED]
    if not found:
        return ""
    # Not all words of a question: in another language most of them stand in no file.
    shown = "\n".join(line.text for line in found).lower()
    about = ", ".join(f"`{term}`" for term in sought if term.lower() in shown) or "the files you named"
    cited = [f"- `{line.path}:{line.line}` {as_is(line.text.strip())}" for line in found]
    return "\n".join((f"Found for {about}:", "", *cited))


def list_entries(lookups: Sequence[Lookup]) -> str:
    """Return the entries of the folders that were listed; empty without any."""
    listing = [each for each in lookups if each.tool in ("ls", "find", "glob") and not each.is_error]
    # A search without a result repeats its pattern.
    entries = [line for lookup in listing for line in lookup.lines if "*" not in line and line != "./"]
    if not entries:
        return ""
    shown = [f"- {as_is(entry)}" for entry in entries[:_MAX_LISTED]]
    if len(entries) > _MAX_LISTED:
        shown.append(f"- ... and {len(entries) - _MAX_LISTED} more")
    return "\n".join(("I found no matching line. Here is the listing:", "", *shown))


def as_is(text: str) -> str:
    """Return the beginning of *text*, as code where Markdown would change it."""
    shown = _clip(text)
    if _MARKUP.search(shown) is None:
        return shown
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    gap = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{gap}{shown}{gap}{fence}"


def _clip(text: str, limit: int = _MAX_LINE_CHARS) -> str:
    one_line = " ".join(text.split("\n"))
    return one_line if len(one_line) <= limit else f"{one_line[: limit - 3]}..."
