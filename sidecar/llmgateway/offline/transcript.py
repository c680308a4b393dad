"""A transcript inside a prompt as entries: the ways this project's engines write conversations out as text.

Nothing is interpreted: an entry is who spoke, about which tool, and what was said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

__all__ = ["Entry", "EntryKind", "read_transcript", "split_transcript"]

EntryKind: TypeAlias = Literal["user", "agent", "call", "result", "error", "shell", "digest", "other"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing said or done; *name* is the tool's, or the command line of a ``shell`` entry."""

    kind: EntryKind
    text: str
    name: str = ""


_Dialect: TypeAlias = Sequence[tuple[EntryKind, re.Pattern[str]]]


def _dialect(*forms: tuple[EntryKind, str]) -> _Dialect:
    return tuple((kind, re.compile(pattern)) for kind, pattern in forms)


# Each pattern matches the first line of an entry; its groups are `name` and `text`, both optional. What
# follows belongs to the entry until a line matches again.
_ARROWS: Final = _dialect(
    ("user", r"» you: ?(?P<text>.*)"),
    ("error", r"» agent!err: ?(?P<text>.*)"),
    ("call", r"» agent\.call (?P<name>[^:]*): ?(?P<text>.*)"),
    ("other", r"» agent\.plan: ?(?P<text>.*)"),
    ("agent", r"» agent: ?(?P<text>.*)"),
    ("error", r"» tool!err \((?P<name>[^)]*)\): ?(?P<text>.*)"),
    ("result", r"» tool \((?P<name>[^)]*)\): ?(?P<text>.*)"),
    ("shell", r"» shell\$ (?P<name>.*) \[exit (?P<text>[^\]]*)\]"),
    ("digest", r"» digest: ?(?P<text>.*)"),
    ("other", r"» note \([^)]*\): ?(?P<text>.*)"),
)
_BRACKETS: Final = _dialect(
    ("call", r"\[Assistant tool calls\]: ?(?P<text>.*)"),
    ("other", r"\[Assistant thinking\]: ?(?P<text>.*)"),
    ("user", r"\[(?:User|user)\b[^\]]*\]: ?(?P<text>.*)"),
    ("agent", r"\[(?:Assistant|assistant)\b[^\]]*\]: ?(?P<text>.*)"),
    ("error", r"\[Tool result error\]: ?(?P<text>.*)"),
    ("result", r"\[Tool result\]: ?(?P<text>.*)"),
    ("digest", r"\[Previous summary\]: ?(?P<text>.*)"),
)
_ROLES: Final = _dialect(
    ("user", r"user:"),
    ("agent", r"assistant:"),
    ("other", r"tool:"),
    ("call", r"tool_call (?P<name>[^(]*)\((?P<text>.*)\)"),
    ("error", r"tool_result \(error\) -> (?P<text>.*)"),
    ("result", r"tool_result -> (?P<text>.*)"),
)
_DIALECTS: Final = (_ARROWS, _BRACKETS, _ROLES)
_DIGEST_MARKS: Final = (
    "[condensed earlier context]",
    "[session digest",
    "[branch digest",
    "[Conversation summary",
    "<context-summary>",
)
"""How turns begin that an earlier compaction wrote."""
_RESTORED_MARK: Final = "[Restored file after compaction]"
_INNER_CALL: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)\((?P<text>.*?)\)(?:; |\Z)", re.S)


def split_transcript(text: str) -> tuple[str, str] | None:
    """Return what stands before the transcript in *text*, and the transcript; None when there is none."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if any(_opening(line.rstrip(), dialect) for dialect in _DIALECTS):
            return "\n".join(lines[:index]), "\n".join(lines[index:])
    return None


def read_transcript(text: str) -> tuple[Entry, ...]:
    """Return the entries of *text*; what is no transcript is one ``digest`` entry.

    >>> read_transcript("» you: fix it\\n» agent.call read: {}")
    (Entry(kind='user', text='fix it', name=''), Entry(kind='call', text='{}', name='read'))
    """
    dialect = _dialect_of(text)
    if dialect is None:
        return (Entry("digest", text.strip()),) if text.strip() else ()
    return tuple(_refined(_entries(text, dialect)))


def _dialect_of(text: str) -> _Dialect | None:
    first = text.lstrip().split("\n", 1)[0].rstrip()
    return next((dialect for dialect in _DIALECTS if _opening(first, dialect)), None)


def _opening(line: str, dialect: _Dialect) -> Entry | None:
    for kind, pattern in dialect:
        match = pattern.fullmatch(line)
        if match is not None:
            groups = match.groupdict()
            return Entry(kind, groups.get("text") or "", groups.get("name") or "")
    return None


def _entries(text: str, dialect: _Dialect) -> Iterator[Entry]:
    opened = Entry("other", "")
    lines: list[str] = []
    for line in text.strip().split("\n"):
        entry = _opening(line.rstrip(), dialect)
        if entry is None:
            lines.append(line)
            continue
        yield Entry(opened.kind, "\n".join(lines).strip(), opened.name)
        opened, lines = entry, [entry.text]
    yield Entry(opened.kind, "\n".join(lines).strip(), opened.name)


def _refined(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Tell digests and restored files from prompts, and the calls of one line apart; drop what is empty."""
    for entry in entries:
        if entry.kind == "call" and not entry.name:
            for match in _INNER_CALL.finditer(entry.text):
                yield Entry("call", match["text"], match["name"])
        elif entry.kind == "user" and entry.text.startswith(_DIGEST_MARKS):
            yield Entry("digest", entry.text.partition("\n")[2])
        elif entry.kind == "user" and entry.text.startswith(_RESTORED_MARK):
            yield Entry("other", entry.text)
        elif entry.text or entry.name:
            yield entry
