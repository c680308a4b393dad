"""Which files the condensed messages read and changed (fact A12, failures B-A4 and B-A11).

Pure: paths are text, no file is looked at. The lists go from summary to summary; the sections in a
summary's text are written anew each time and never left inside the text that a model is asked to update.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sidecar.agentcore.messages import AgentMessage, CompactionSummary, Message, ToolCall
from sidecar.agentcore.shell import changed_paths
from sidecar.agentcore.text import byte_length

__all__ = ["FileLists", "file_lists", "render_sections", "split_sections"]

_PATH_KEYS = ("file_path", "path")
_COMMAND_KEYS = ("command", "cmd")
_SECTION = re.compile(r"\n*^<(read|modified)-files>\n(.*?)\n?^</\1-files>$", re.MULTILINE | re.DOTALL)
_MORE = re.compile(r"\(\+\d+ more\)")


@dataclass(frozen=True, slots=True)
class FileLists:
    """Paths as the tools were given them, sorted and unique; a modified file is not among the read ones."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()

    def united(self, other: FileLists) -> FileLists:
        """Return both lists as one.

        >>> FileLists(read=("a", "b")).united(FileLists(modified=("b",)))
        FileLists(read=('a',), modified=('b',))
        """
        return _lists({*self.read, *other.read}, {*self.modified, *other.modified})


def file_lists(messages: Sequence[AgentMessage]) -> FileLists:
    """Return the files that *messages* read and changed, those of earlier summaries among them included.

    ``read``, ``write`` and ``edit`` calls count, and what a ``bash`` command plainly writes. A call whose
    result is an error read or changed nothing.

    >>> from sidecar.agentcore.messages import call_block
    >>> file_lists([Message("assistant", (call_block("1", "edit", '{"path": "a.py"}'),))])
    FileLists(read=(), modified=('a.py',))
    """
    failed = _failed_calls(messages)
    read: set[str] = set()
    modified: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, CompactionSummary):
            told = split_sections(message.summary)[1]
            read.update(message.read_files, told.read)
            modified.update(message.modified_files, told.modified)
        elif isinstance(message, Message):
            for call in message.tool_calls():
                if (index, call.id) not in failed:
                    (read if call.name == "read" else modified).update(_paths(call))
    return _lists(read, modified)


def render_sections(files: FileLists, limit: int) -> str:
    """Return the sections to append to a summary, within about *limit* bytes; empty lists have none.

    Where the limit is reached a last line says how many paths are missing; modified files go first.

    >>> render_sections(FileLists(read=("a.py", "b.py")), 100)
    '\\n\\n<read-files>\\na.py\\nb.py\\n</read-files>'
    """
    shown_modified, rest = _within(files.modified, limit)
    shown_read, _ = _within(files.read, rest)
    return _section("read", shown_read) + _section("modified", shown_modified)


def split_sections(text: str) -> tuple[str, FileLists]:
    """Return *text* without its file sections, and the lists they held.

    >>> split_sections("done\\n\\n<read-files>\\na.py\\n</read-files>")
    ('done', FileLists(read=('a.py',), modified=()))
    """
    found: dict[str, set[str]] = {"read": set(), "modified": set()}
    for kind, lines in _SECTION.findall(text):
        found[kind].update(line for line in lines.split("\n") if line and not _MORE.fullmatch(line))
    return _SECTION.sub("", text), _lists(found["read"], found["modified"])


def _lists(read: set[str], modified: set[str]) -> FileLists:
    return FileLists(tuple(sorted(read - modified)), tuple(sorted(modified)))


def _paths(call: ToolCall) -> Iterable[str]:
    if call.name not in ("read", "write", "edit", "bash"):
        return ()
    try:
        arguments = json.loads(call.args)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(arguments, dict):
        return ()
    keys = _COMMAND_KEYS if call.name == "bash" else _PATH_KEYS
    value = next((arguments[key] for key in keys if isinstance(arguments.get(key), str)), "")
    if call.name == "bash":
        return changed_paths(value)
    return (value,) if value else ()


def _failed_calls(messages: Sequence[AgentMessage]) -> set[tuple[int, str]]:
    """Return (index of the asking message, call id) of each call whose result is an error."""
    asked: dict[str, int] = {}
    failed: set[tuple[int, str]] = set()
    for index, message in enumerate(messages):
        if not isinstance(message, Message):
            continue
        asked.update((call.id, index) for call in message.tool_calls())
        call_id = message.tool_call_id
        if call_id in asked and message.is_error:
            failed.add((asked[call_id], call_id))
    return failed


def _within(paths: Sequence[str], limit: int) -> tuple[list[str], int]:
    """Return the lines for *paths* that fit in *limit* bytes, and what is left of it."""
    lines: list[str] = []
    for path in paths:
        line = path.replace("\n", "\\n")
        if byte_length(line) + 1 > limit:
            return [*lines, f"(+{len(paths) - len(lines)} more)"], 0
        lines.append(line)
        limit -= byte_length(line) + 1
    return lines, limit


def _section(kind: str, lines: Sequence[str]) -> str:
    return "\n\n" + "\n".join((f"<{kind}-files>", *lines, f"</{kind}-files>")) if lines else ""
