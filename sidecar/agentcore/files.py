"""The files that condensed messages read and changed: found in tool calls, carried from summary to summary.

Pure: paths are text, no file is looked at. Which tool reads, writes or runs is an argument, a table of
:class:`~sidecar.agentcore.messages.ToolEffect`. The lists go from summary to summary; the sections in a
summary's text are written anew each time and never left inside the text that a model is asked to update.

Of a shell command the files count that its line names; the effects of a called script are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sidecar._internal.values import Value
from sidecar.agentcore.estimate import byte_length
from sidecar.agentcore.messages import AgentMessage, CompactionSummary, Message, ToolEffect
from sidecar.text.touches import use_of_line

TOOL_EFFECTS: Mapping[str, ToolEffect] = {
    "read": ToolEffect("reads", ("file_path", "path")),
    "write": ToolEffect("writes", ("file_path", "path")),
    "edit": ToolEffect("writes", ("file_path", "path")),
    "bash": ToolEffect("runs", ("command", "cmd")),
}
"""The tools that the library knows when its caller names none."""

_SECTION = re.compile(r"\n*^<(read|modified)-files>\n(.*?)\n?^</\1-files>$", re.MULTILINE | re.DOTALL)
_MORE = re.compile(r"\(\+\d+ more\)")

_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
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


def file_lists(
    messages: Sequence[AgentMessage], effects: Mapping[str, ToolEffect] = TOOL_EFFECTS
) -> FileLists:
    """Return the files that *messages* read and changed, the lists of earlier summaries included.

    The calls of tools named in *effects* count, unless their result is an error. Of more than 500 files of a
    kind the newest are listed: each summary carries the lists of all before it.

    >>> from sidecar.agentcore.messages import call_block
    >>> file_lists([Message("assistant", (call_block("1", "edit", '{"path": "a.py"}'),))])
    FileLists(read=(), modified=('a.py',))
    """
    # In the order of their last use.
    read: dict[str, None] = {}
    modified: dict[str, None] = {}
    calls: list[tuple[ToolEffect, str] | None] = []
    places: dict[str, int] = {}
    for message in messages:
        if isinstance(message, CompactionSummary):
            listed = split_sections(message.summary)[1]
            read |= dict.fromkeys((*message.read_files, *listed.read))
            modified |= dict.fromkeys((*message.modified_files, *listed.modified))
        elif isinstance(message, Message):
            if message.is_error and message.tool_call_id in places:
                calls[places[message.tool_call_id]] = None
            for call in message.tool_calls():
                places.pop(call.id, None)
                effect = effects.get(call.name)
                if effect is not None:
                    arguments = call.arguments() or {}
                    given = (arguments.get(name) for name in effect.arguments)
                    places[call.id] = len(calls)
                    calls.append((effect, next((value for value in given if isinstance(value, str)), "")))
    for effect, value in filter(None, calls):
        shown, changed = list[str](), list[str]()
        if effect.kind == "runs":
            touches = use_of_line(value).touches
            shown = [touch.path for touch in touches if touch.kind == "read"]
            changed = [path for touch in touches for path in touch.changed_paths]
        elif effect.kind == "patches":
            changed = _PATCHED.findall(value)
        else:
            (shown if effect.kind == "reads" else changed).append(value)
        for used, paths in ((read, shown), (modified, changed)):
            for path in filter(None, paths):
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
