"""From an intent and what is known already to the next tool calls.

Calls only tools that are on offer, four at most in a round and three rounds at most, and never the same call
twice. It answers nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidecar.llmgateway.contract import ToolDescriptor
from sidecar.llmgateway.offline.intent import Edit, Intent, PathRef
from sidecar.llmgateway.offline.results import Finding, best_hits, is_definition

__all__ = ["MAX_CALLS", "MAX_ROUNDS", "Offer", "Planned", "next_calls"]

MAX_CALLS: Final = 4
MAX_ROUNDS: Final = 3
_CONTEXT_LINES: Final = 8

_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "path": ("path", "file_path", "filePath", "file"),
    "pattern": ("pattern", "query", "name", "glob"),
    "command": ("command", "cmd"),
    "content": ("content", "text"),
    "old_text": ("old_text", "old_string", "oldText", "old"),
    "new_text": ("new_text", "new_string", "newText", "new"),
}
"""How tools of different makers spell one argument; the first one is ours."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A tool call to make."""

    name: str
    input: dict[str, Any]


class Offer:
    """The tools on offer, and how each spells its arguments."""

    def __init__(self, tools: Iterable[ToolDescriptor]) -> None:
        self._arguments = {tool.name: _properties(tool) for tool in tools}

    def has(self, name: str) -> bool:
        """Whether the tool *name* is on offer."""
        return name in self._arguments

    def takes(self, name: str, *arguments: str) -> bool:
        """Whether the schema of *name* has all of *arguments*."""
        return set(arguments) <= self._arguments.get(name, frozenset())

    def calls(self, name: str, **arguments: Any) -> Iterator[Planned]:
        """Yield the call when *name* is on offer, else nothing."""
        if self.has(name):
            yield Planned(name, {self._spelling(name, key): value for key, value in arguments.items()})

    def _spelling(self, tool: str, argument: str) -> str:
        spellings = _SPELLINGS.get(argument, (argument,))
        return next((each for each in spellings if each in self._arguments[tool]), spellings[0])


def _properties(tool: ToolDescriptor) -> frozenset[str]:
    properties = tool.parameters.get("properties")
    return frozenset(properties) if isinstance(properties, Mapping) else frozenset()


def next_calls(intent: Intent, rounds: Sequence[Sequence[Finding]], offer: Offer) -> tuple[Planned, ...]:
    """Return the calls to make after *rounds*, the findings of each round so far; empty: answer now."""
    if len(rounds) >= MAX_ROUNDS:
        return ()
    known = [finding for findings in rounds for finding in findings]
    planned = _follow_up(intent, known, offer) if rounds else _opening(intent, offer)
    fresh: list[Planned] = []
    for call in planned:
        if call not in fresh and not any(finding.is_of(call.name, call.input) for finding in known):
            fresh.append(call)
    return tuple(fresh[:MAX_CALLS])


def _opening(intent: Intent, offer: Offer) -> Iterator[Planned]:
    if intent.write is not None:
        yield from offer.calls("write", path=intent.write.path, content=intent.write.text)
    elif intent.edit is not None:
        looked = list(offer.calls("read", path=intent.edit.path))
        yield from looked or _edit(intent.edit, offer)
    elif intent.todo:
        entries = [{"content": item, "status": "pending"} for item in intent.todo]
        yield from offer.calls("todo", entries=entries)
    else:
        for command in intent.commands:
            yield from offer.calls("bash", command=command)
        for ref in intent.paths:
            yield from _look_at(ref, offer)
        for term in intent.terms:
            yield from offer.calls("grep", pattern=_literally(term))
        if not (intent.commands or intent.paths or intent.terms or intent.is_small_talk or intent.remember):
            yield from _look_around(intent, offer)


def _look_at(ref: PathRef, offer: Offer) -> Iterator[Planned]:
    if ref.path.endswith("/"):
        yield from offer.calls("ls", path=ref.path)
    elif ref.line is not None and offer.takes("read", "offset", "limit"):
        start = max(1, ref.line - _CONTEXT_LINES)
        yield from offer.calls("read", path=ref.path, offset=start, limit=2 * _CONTEXT_LINES + 1)
    else:
        yield from offer.calls("read", path=ref.path)


def _look_around(intent: Intent, offer: Offer) -> Iterator[Planned]:
    listed = list(offer.calls("ls")) or list(offer.calls("find", pattern="*"))
    yield from listed
    for word in intent.words:
        yield from offer.calls("grep", pattern=_loosely(word))


def _follow_up(intent: Intent, known: Sequence[Finding], offer: Offer) -> Iterator[Planned]:
    if intent.edit is not None:
        if not any(finding.is_error for finding in known):
            yield from _edit(intent.edit, offer)
        return
    if intent.write is not None or intent.todo or (intent.commands and not intent.paths and not intent.terms):
        return
    yield from _look_elsewhere(known, offer)
    if not any(finding.hits for finding in known):
        for word in intent.looser_words:
            yield from offer.calls("grep", pattern=_loosely(word))
    elif offer.takes("read", "offset", "limit"):
        yield from _open_definition(intent, known, offer)


def _edit(edit: Edit, offer: Offer) -> Iterator[Planned]:
    yield from offer.calls("edit", path=edit.path, old_text=edit.old, new_text=edit.new)


def _look_elsewhere(known: Sequence[Finding], offer: Offer) -> Iterator[Planned]:
    """Look for a file that was not where the prompt said, and read it where it was found."""
    for finding in known:
        name = finding.file_name
        if name is None:
            continue
        if finding.tool == "read" and finding.is_error:
            listed = [] if "." in name else list(offer.calls("ls", path=finding.path))
            found = listed or list(offer.calls("find", pattern=name))
            yield from found or offer.calls("glob", pattern=f"**/{name}")
        if finding.tool in ("find", "glob") and not finding.is_error:
            paths = [line for line in finding.lines if f"/{line}".replace("\\", "/").endswith(f"/{name}")]
            for path in paths[:1]:
                yield from offer.calls("read", path=path)


def _open_definition(intent: Intent, known: Sequence[Finding], offer: Offer) -> Iterator[Planned]:
    """Read on from the best definition among the lines found."""
    for hit in best_hits(known, intent.terms, limit=1):
        if hit.tool == "grep" and is_definition(hit.text):
            yield from offer.calls("read", path=hit.path, offset=hit.line, limit=2 * _CONTEXT_LINES)


def _literally(text: str) -> str:
    """Return a pattern that matches *text* as it stands, in every common dialect."""
    return re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", text)


def _loosely(word: str) -> str:
    """Return a pattern for *word* with or without a capital, in every common dialect."""
    first = word[0]
    has_case = first.upper() != first.lower()
    return f"[{first.upper()}{first.lower()}]{word[1:]}" if has_case else word
