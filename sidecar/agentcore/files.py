"""The files that condensed messages read and changed: found in tool calls, carried from summary to summary.

Pure: paths are text, no file is looked at. Which tool reads, writes or runs is an argument, a table of
:class:`~sidecar.agentcore.messages.ToolEffect`. The lists go from summary to summary; the sections in a
summary's text are written anew each time and never left inside the text that a model is asked to update.

Shell commands are read modestly: redirections, tee, sed -i, touch, rm, mv, cp. Variables, globs, bodies of
here-documents and the effects of a called script are not followed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from sidecar._internal.values import Value
from sidecar.agentcore.estimate import byte_length
from sidecar.agentcore.messages import AgentMessage, CompactionSummary, Message, ToolEffect

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
_MAY_WRITE = re.compile(r">|\b(?:tee|sed|touch|rm|mv|cp)\b")
_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_NOT_PLAIN = frozenset("$*?`<>|()\n")
_MAX_LINE = 2000
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
        paths: Sequence[str] = (value,)
        if effect.kind in ("runs", "patches"):
            paths = find_changed_paths(value) if effect.kind == "runs" else _PATCHED.findall(value)
        used = read if effect.kind == "reads" else modified
        for path in filter(None, paths):
            used.pop(path, None)
            used[path] = None
    changed = set(list(modified)[-_MAX_LISTED:])
    return FileLists.of(set([path for path in read if path not in modified][-_MAX_LISTED:]), changed)


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


def find_changed_paths(command: str) -> tuple[str, ...]:
    """Return the paths that a shell *command* writes, moves or removes, in order of appearance.

    >>> find_changed_paths("cd src && sed -i s/a/b/ x.py; make 2>&1 | tee build.log > /dev/null")
    ('x.py', 'build.log')
    """
    paths: dict[str, None] = {}
    here_document_end = ""
    for line in command.split("\n"):
        if here_document_end:
            here_document_end = "" if line.strip() == here_document_end else here_document_end
            continue
        here_document = _HERE_DOCUMENT.search(line)
        here_document_end = here_document[2] if here_document else ""
        if len(line) <= _MAX_LINE and _MAY_WRITE.search(line):
            for words in split_commands(line):
                for word in find_output_words(words):
                    is_special = word.isdigit() or word.startswith(("-", "&", "/dev/"))
                    if word and not is_special and _NOT_PLAIN.isdisjoint(word):
                        paths[word] = None
    return tuple(paths)


def split_commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a pipe or a list; redirections stay among the words."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if set(word) <= set(";|&()"):
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:
        return  # An open quote: the command goes on in a way this reader does not follow.
    yield words


def find_output_words(words: list[str]) -> Iterator[str]:
    """Yield the words of one simple command that name a file it writes."""
    plain: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in (">", ">>", ">|"):
            yield next(rest, "")
        elif word in ("<", "<<", "<<<", ">&", "<&"):
            next(rest, None)
        else:
            plain.append(word)
    name, operands = (plain[0], [w for w in plain[1:] if not w.startswith("-")]) if plain else ("", [])
    if name in ("tee", "touch", "rm", "mv"):
        yield from operands
    elif name == "cp":
        yield from operands[-1:]
    elif name == "sed" and any(w.startswith(("-i", "--in-place")) for w in plain):
        yield from operands[1:]
