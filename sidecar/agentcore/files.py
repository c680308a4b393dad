"""The files that condensed messages read and changed: found in tool calls, carried from summary to summary.

Pure: paths are text, no file is looked at. The effects of a tool are looked up by its name with a function of
the caller; the files of a call are told by :mod:`sidecar.text`. The lists go from summary to summary; the
sections in a summary's text are written anew each time and never left inside the text that a model is asked
to update.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from sidecar._internal.values import Value
from sidecar.agentcore.estimate import byte_length
from sidecar.agentcore.messages import AgentMessage, CompactionSummary, Message, ToolCall
from sidecar.text.calls import ToolEffects, touches_of_call

EffectsOf: TypeAlias = Callable[[str], ToolEffects | None]
"""Returns the effects of a tool by its name, None where its calls do not count."""

_FILE = ("file_path", "path")
OWN_TOOLS: Final[EffectsOf] = {
    "read": ToolEffects("reads", _FILE),
    "write": ToolEffects("writes", _FILE),
    "edit": ToolEffects("edits", _FILE),
    "bash": ToolEffects("runs", ("command", "cmd")),
}.get
"""The tools that the library knows when its caller names none."""

_SECTION = re.compile(r"\n*^<(read|modified)-files>\n(.*?)\n?^</\1-files>$", re.MULTILINE | re.DOTALL)
_MORE = re.compile(r"\(\+\d+ more\)")

_MAX_LISTED = 500


class FileLists(Value):
    """Paths as the tools were given them, sorted and unique; a modified file is not among the read ones."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()

    @classmethod
    def of(cls, read: set[str], modified: set[str]) -> FileLists:
        """Return the lists of two sets of paths.

        >>> FileLists.of({"a", "b"}, {"b"})
        FileLists(read=('a',), modified=('b',))
        """
        return cls(tuple(sorted(read - modified)), tuple(sorted(modified)))


def file_lists(messages: Sequence[AgentMessage], effects_of: EffectsOf = OWN_TOOLS) -> FileLists:
    """Return the files that *messages* read and changed, the lists of earlier summaries included.

    The calls of tools with effects count, those without a result too. Of more than 500 files of a kind the
    newest are listed: each summary carries the lists of all before it.

    >>> from sidecar.agentcore.messages import call_block
    >>> file_lists([Message("assistant", (call_block("1", "edit", '{"path": "a.py"}'),))])
    FileLists(read=(), modified=('a.py',))
    """
    # In the order of their last use.
    read: dict[str, None] = {}
    modified: dict[str, None] = {}
    calls: list[tuple[ToolCall, Message | None]] = []
    places: dict[str, int] = {}
    for message in messages:
        if isinstance(message, CompactionSummary):
            listed = split_sections(message.summary)[1]
            read |= dict.fromkeys((*message.read_files, *listed.read))
            modified |= dict.fromkeys((*message.modified_files, *listed.modified))
        elif isinstance(message, Message):
            if message.tool_call_id in places:
                place = places.pop(message.tool_call_id)
                calls[place] = (calls[place][0], message)
            for call in message.tool_calls():
                places[call.id] = len(calls)
                calls.append((call, None))
    for call, result in calls:
        if (effects := effects_of(call.name)) is None:
            continue
        is_error, body = (result.is_error, result.text_content()) if result else (False, "")
        for touch in touches_of_call(call.name, call.arguments(), body, effects, is_error=is_error):
            is_read = touch.kind == "read"
            for path in (touch.path,) if is_read else touch.changed_paths:
                used = read if is_read else modified
                used.pop(path, None)
                used[path] = None
    newest = set(list(modified)[-_MAX_LISTED:])
    return FileLists.of(set([path for path in read if path not in modified][-_MAX_LISTED:]), newest)


def render_sections(files: FileLists, limit: int) -> str:
    """Return the sections to append to a summary, within about *limit* bytes; empty lists have none.

    Where the limit is reached a last line gives the number of missing paths; modified files go first.

    >>> render_sections(FileLists(read=("a.py", "b.py")), 100)
    '\\n\\n<read-files>\\na.py\\nb.py\\n</read-files>'
    """
    sections: list[str] = []
    for kind, paths in (("modified", files.modified), ("read", files.read)):
        lines: list[str] = []
        for path in paths:
            line = path.replace("\n", "\\n")
            if byte_length(line) + 1 > limit:
                lines.append(f"(+{len(paths) - len(lines)} more)")
                limit = 0
                break
            lines.append(line)
            limit -= byte_length(line) + 1
        if lines:
            sections.insert(0, "\n\n" + "\n".join((f"<{kind}-files>", *lines, f"</{kind}-files>")))
    return "".join(sections)


def split_sections(text: str) -> tuple[str, FileLists]:
    """Return *text* without its file sections, and the lists they held.

    >>> split_sections("done\\n\\n<read-files>\\na.py\\n</read-files>")
    ('done', FileLists(read=('a.py',), modified=()))
    """
    found: dict[str, set[str]] = {"read": set(), "modified": set()}
    for kind, lines in _SECTION.findall(text):
        found[kind].update(line for line in lines.split("\n") if line and not _MORE.fullmatch(line))
    return _SECTION.sub("", text), FileLists.of(found["read"], found["modified"])
