"""What a finished tool call came to: files read and changed, commands with their outcome, errors.

A call counts once its result is known, so that a failed edit is no modification. Tools are recognised by the
names that coding agents give them; an unknown tool is kept as a call with its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from sidecar.llmgateway.contract import ToolCallBlock
from sidecar.window_budget.paths import path_argument
from sidecar.window_budget.summarize.facts import Fact, FactKind, telling_line
from sidecar.window_budget.text import compact_json, one_line

__all__ = [
    "FileRange",
    "ReadRecord",
    "WriteRecord",
    "facts_of_call",
    "facts_of_shell",
    "read_of",
    "writes_of",
]

COMMAND_CHARS = 160
GIST_CHARS = 40
GIST_LINES = 60
OUTCOME_CHARS = 400
"""How far into a body, from either end, an exit code is looked for."""

_READERS = frozenset({"read", "view", "read_file", "readfile", "open_file", "fs_read"})
_WRITERS = frozenset({"write", "write_file", "create", "create_file", "writefile"})
_EDITORS = frozenset(
    {
        "edit",
        "multiedit",
        "edit_file",
        "apply_edit",
        "replace",
        "str_replace",
        "insert",
        "notebookedit",
        "patch",
    }
)
_EDITOR_WITH_VIEW = frozenset({"str_replace_editor", "str_replace_based_edit_tool", "file_editor", "editor"})
_PATCHERS = frozenset({"apply_patch", "patch", "exec"})
_SHELLS = frozenset(
    {
        "bash",
        "shell",
        "exec",
        "exec_command",
        "shell_command",
        "run_shell_command",
        "execute_bash",
        "run_in_terminal",
        "terminal",
        "local_shell_call",
    }
)
_QUIET = frozenset(
    {
        "grep",
        "find",
        "ls",
        "glob",
        "rg",
        "grep_search",
        "list_dir",
        "find_file",
        "websearch",
        "todo",
        "todowrite",
        "todoread",
        "think",
        "wait",
        "write_stdin",
        "update_plan",
    }
)
"""Tools whose calls nobody misses; their errors still count."""

_OLD_TEXTS = ("old_string", "oldText", "oldString", "old_str", "old_text", "old")
_NEW_TEXTS = ("new_string", "newText", "newString", "new_str", "new_text", "new")

_PATCHED = re.compile(r"\*\*\* (?:Update|Add|Delete) File: ([^\n\\\"'`]{1,300})")
_EXIT_CODE = re.compile(
    r"(?:exit(?:ed with)?(?: code| status)?|returncode|exit_code|exitcode)\"?\W{1,3}(-?\d{1,9})",
    re.IGNORECASE,
)
_LOOKING = re.compile(
    r"\s*(?:cd \S+ *(?:&&|;) *)?"
    r"(?:ls|cat|head|tail|sed -n|grep|rg|find|pwd|wc|nl|which|echo|git (?:status|log|diff|show))\b"
)


@dataclass(frozen=True, slots=True)
class FileRange:
    """A part of a file as a read names it: *limit* lines from line *offset*, None for start and end."""

    path: str
    offset: int | None = None
    limit: int | None = None

    @property
    def label(self) -> str:
        """The range in words, for a person and a model; empty for the whole file."""
        if self.offset is None and self.limit is None:
            return ""
        if self.limit is None:
            return f" (from line {self.offset})"
        first = self.offset or 1
        return f" (lines {first}-{first + self.limit - 1})"


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A successful read: what was read, by which tool, and where its result stands."""

    index: int
    tool: str
    file: FileRange


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """A successful change of the file at *path*; *is_whole* when the call carries all of its new text."""

    index: int
    path: str
    is_whole: bool


def read_of(call: ToolCallBlock, index: int) -> ReadRecord | None:
    """Return what *call* read, or None when it is no read of a file.

    A tool that is not known and takes a path counts as a reader of its own name.
    """
    path = path_argument(call.input)
    tool = _plain(call.name)
    is_view = tool in _EDITOR_WITH_VIEW and _is_view(call.input)
    if path is None or (tool in _NO_READERS and not is_view):
        return None
    return ReadRecord(
        index, call.name, FileRange(path, _lines(call.input, "offset"), _lines(call.input, "limit"))
    )


def writes_of(call: ToolCallBlock, index: int) -> Iterator[WriteRecord]:
    """Yield the files that *call*, having succeeded, changed."""
    tool = _plain(call.name)
    path = path_argument(call.input)
    if path is not None and tool in _WRITERS:
        yield WriteRecord(index, path, is_whole=True)
    elif path is not None and (tool in _EDITORS or (tool in _EDITOR_WITH_VIEW and not _is_view(call.input))):
        yield WriteRecord(index, path, is_whole=False)
    elif tool in _PATCHERS:
        for found in _PATCHED.finditer(compact_json(call.input)):
            yield WriteRecord(index, found.group(1).strip(), is_whole=False)


def facts_of_call(call: ToolCallBlock, body: str, index: int, *, is_error: bool) -> Iterator[Fact]:
    """Yield what *call* and its result *body*, which stands at *index*, came to."""
    tool = _plain(call.name)
    command = _command(call.input) if tool in _SHELLS else None
    code = _exit_code(body) if command is not None else None
    failed = is_error or bool(code)
    if failed:
        is_search = command is not None and _is_looking(command)
        yield Fact(FactKind.ERROR, f"{_subject(call, command)}: {telling_line(body)}", index, is_search)
    if command is not None:
        outcome = f" [exit {code}]" if code is not None else " [failed]" if failed else ""
        yield Fact(FactKind.COMMAND, command + outcome, index, is_minor=not failed and _is_looking(command))
    if failed:
        return
    read = read_of(call, index)
    if read is not None and tool in _KNOWN:
        yield Fact(FactKind.READ, read.file.path, index)
    for write in writes_of(call, index):
        yield Fact(FactKind.MODIFIED, write.path + _gist(call.input, is_whole=write.is_whole), index)
    if tool not in _KNOWN:
        yield Fact(
            FactKind.COMMAND, one_line(f"{call.name} {compact_json(call.input)}", COMMAND_CHARS), index
        )


def facts_of_shell(command: str, output: str, exit_code: int | None, index: int) -> Iterator[Fact]:
    """Yield what a command of the user's own came to."""
    line = one_line(command, COMMAND_CHARS)
    yield Fact(FactKind.COMMAND, line + (f" [exit {exit_code}]" if exit_code is not None else ""), index)
    if exit_code:
        yield Fact(FactKind.ERROR, f"{one_line(command, GIST_CHARS)}: {telling_line(output)}", index)


_KNOWN = _READERS | _WRITERS | _EDITORS | _EDITOR_WITH_VIEW | _PATCHERS | _SHELLS | _QUIET


_NO_READERS = _KNOWN - _READERS


def _plain(name: str) -> str:
    return name.rpartition("__")[2].rpartition(".")[2].casefold()


def _is_view(arguments: Any) -> bool:
    return isinstance(arguments, Mapping) and arguments.get("command") == "view"


def _lines(arguments: Any, name: str) -> int | None:
    value = arguments.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _command(arguments: Any) -> str | None:
    """Return the command line among a shell tool's arguments, or None when it has none."""
    if not isinstance(arguments, Mapping):
        return None
    value = next((arguments[name] for name in ("command", "cmd") if name in arguments), None)
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    return one_line(value, COMMAND_CHARS) if isinstance(value, str) and value.strip() else None


def _is_looking(command: str) -> bool:
    return bool(_LOOKING.match(command))


def _exit_code(body: str) -> int | None:
    found = _EXIT_CODE.search(body[:OUTCOME_CHARS]) or _EXIT_CODE.search(body[-OUTCOME_CHARS:])
    return int(found.group(1)) if found else None


def _subject(call: ToolCallBlock, command: str | None) -> str:
    subject = command or path_argument(call.input)
    if subject is None:
        return call.name
    return one_line(subject, GIST_CHARS) if command else f"{call.name} {subject}"


def _gist(arguments: Any, *, is_whole: bool) -> str:
    """Return what an edit did in a few words: the first line that differs, as it was and as it is."""
    if is_whole or not isinstance(arguments, Mapping):
        return ""
    old, new = _text(arguments, _OLD_TEXTS), _text(arguments, _NEW_TEXTS)
    for was, now in zip_longest(old.splitlines()[:GIST_LINES], new.splitlines()[:GIST_LINES], fillvalue=""):
        if was.strip() != now.strip():
            return f": {one_line(was, GIST_CHARS)} -> {one_line(now, GIST_CHARS)}"
    return ""


def _text(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((arguments[name] for name in names if isinstance(arguments.get(name), str)), "")
