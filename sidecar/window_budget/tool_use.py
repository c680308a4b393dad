"""Tool calls as facts: files read and changed, commands with their outcome, errors.

A call counts once its result is known, so that a failed edit is no modification. The effect of a tool stands
in a table of :class:`CallEffect`; the library's default, :data:`TOOL_EFFECTS`, has the names that coding
agents give their tools, and a host hands in a table of its own. A tool that is in no table is kept as a call
with its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice, zip_longest
from types import MappingProxyType
from typing import Any, Final

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import ToolCallBlock
from sidecar.text.touches import LineUse, use_of_line
from sidecar.window_budget.contract import CallEffect, CallEffects
from sidecar.window_budget.facts import Fact, FactKind, ends_of
from sidecar.window_budget.failures import error_line, reported_failure
from sidecar.window_budget.text import compact_json, one_line
from sidecar.window_budget.tool_shapes import (
    guess_effect,
    unwrap_command,
    unwrap_output,
    words_of,
)

COMMAND_CHARS = 160
EXCERPT_CHARS = 40
EXCERPT_LINES = 60
SEARCH_CHARS = 100
OUTCOME_CHARS = 400
"""How far into a body, from either end, an exit code is looked for."""

_UNDECLARED = CallEffect()
_READS = CallEffect(reads=True)
_EDITS = CallEffect(writes="part")
_WRITES = CallEffect(writes="whole")
_READS_AND_EDITS = CallEffect(reads=True, writes="part")
_RUNS = CallEffect(runs=True)
_SEARCHES = CallEffect(searches=True)
_NOTES = CallEffect(is_minor=True)

_NAMES: Final = (
    (_READS, "read view read_file readfile open_file fs_read"),
    (_WRITES, "write write_file create create_file writefile"),
    (_EDITS, "edit multiedit edit_file apply_edit replace str_replace insert notebookedit"),
    (_READS_AND_EDITS, "str_replace_editor str_replace_based_edit_tool file_editor editor"),
    (replace(_EDITS, patches=True), "patch"),
    (replace(_RUNS, patches=True), "exec"),
    (CallEffect(patches=True), "apply_patch"),
    (_RUNS, "bash shell exec_command shell_command run_shell_command execute_bash run_in_terminal terminal"),
    (_RUNS, "local_shell_call"),
    (_SEARCHES, "grep find ls glob rg grep_search list_dir find_file websearch"),
    (_NOTES, "todo todowrite todoread think wait write_stdin update_plan"),
    (_UNDECLARED, "webfetch"),
)
_REPEATABLE: Final = frozenset(
    {"read", "grep", "find", "ls", "glob", "bash", "websearch", "webfetch", "edit", "write"}
)

TOOL_EFFECTS: Final[CallEffects] = MappingProxyType(
    {
        name: replace(effect, is_repeatable=name in _REPEATABLE)
        for effect, names in _NAMES
        for name in names.split()
    }
)
"""The effects of the tools that coding agents commonly have."""

_OLD_TEXTS = ("old_string", "oldText", "oldString", "old_str", "old_text", "old")
_NEW_TEXTS = ("new_string", "newText", "newString", "new_str", "new_text", "new")

_TODO_TEXTS = ("content", "step", "text", "title", "task", "description")
_DONE = frozenset({"completed", "complete", "done", "cancelled", "canceled"})
_PLANS = frozenset(["todo", "todos", "plan", "tasks", "tracker"])
_BOX = re.compile(r"^\s{0,12}(?:[-*•]|\d{1,3}[.)]) {0,4}\[ \] {0,4}(\S[^\n]{0,400})", re.MULTILINE)
TODO_CHARS = 160
MAX_TODOS = 40

_PATCHED = re.compile(r"\*\*\* (?:Update|Add|Delete) File: ([^\n\\\"'`]{1,300})")
_EXIT_CODE = re.compile(
    r"(?:exit(?:ed with)?(?: code| status)?|returncode|exit_code|exitcode)\"?\W{1,3}(-?\d{1,9})"
)
"""In lower case, which is several times as fast as to ignore the case."""


class FileRange(Value):
    """A part of a file as a read names it: *limit* lines from line *offset*, None for start and end.

    *more* are further ranges behind it, each a first line and a number of lines.
    """

    path: str
    offset: int | None = None
    limit: int | None = None
    more: tuple[tuple[int, int], ...] = ()

    @property
    def ranges(self) -> tuple[tuple[int, int | None], ...]:
        """All its ranges, each a first line and a number of lines, None to the end."""
        return ((self.offset or 1, self.limit), *self.more)

    @property
    def label(self) -> str:
        """The range in words, for a person and a model; empty for the whole file."""
        if self.offset is None and self.limit is None:
            return ""
        if self.limit is None:
            return f" (from line {self.offset})"
        spans = ((first, count or 1) for first, count in self.ranges)
        return f" (lines {', '.join(f'{first}-{first + count - 1}' for first, count in spans)})"


class ReadCall(Value):
    """A successful read of *file* by *tool*; its result stands at *index*."""

    index: int
    tool: str
    file: FileRange


class WriteCall(Value):
    """A successful change of the file at *path*; *is_whole* when the call carries all of its new text."""

    index: int
    path: str
    is_whole: bool


def effect_of(tools: CallEffects, name: str, arguments: Any = None) -> CallEffect:
    """Return the effect of the tool *name*; the prefix of its server and letter case do not count.

    The effect of a tool without a declared one is told from its name and *arguments*.

    >>> effect_of(TOOL_EFFECTS, "mcp__fs__Read_File").reads
    True
    """
    found = tools.get(name) or tools.get(name.rpartition("__")[2].rpartition(".")[2].casefold(), _UNDECLARED)
    return guess_effect(name, arguments) if _is_undeclared(found) else found


def path_of(call: ToolCallBlock, effect: CallEffect) -> str | None:
    """Return the path among the arguments of *call*, or None when it names none."""
    if not isinstance(call.input, Mapping):
        return None
    known = _first_text(call.input, effect.path_arguments)
    return known or _first_text(call.input, guess_effect("", call.input).path_arguments) or None


class CallFiles(Value, kw_only=True):
    """The *effect* of a call that succeeds, its *path*, and the files that it reads and changes.

    A tool without a declared effect that takes a path counts as a reader under its own name, so that a caller
    may name it in ``RehydrateOpts.read_tool_name``.
    """

    effect: CallEffect
    path: str | None
    read: ReadCall | None
    writes: tuple[WriteCall, ...]


def files_of_call(call: ToolCallBlock, index: int, tools: CallEffects = TOOL_EFFECTS) -> CallFiles:
    """Return the files of *call*.

    Args:
        call: the call.
        index: the position of its result in the transcript.
        tools: the effects of the tools.
    """
    effect = effect_of(tools, call.name, call.input)
    path, read, writes = path_of(call, effect), None, tuple[WriteCall, ...]()
    is_view = effect.reads and isinstance(call.input, Mapping) and call.input.get("command") == "view"
    if path is not None and (is_view or (effect.reads and not effect.writes) or _is_undeclared(effect)):
        offset, limit = _line_count(call.input.get("offset")), _line_count(call.input.get("limit"))
        read = ReadCall(index, call.name, FileRange(path, offset, limit))
    if path is not None and effect.writes and not is_view:
        writes = (WriteCall(index, path, is_whole=effect.writes == "whole"),)
    elif (effect.patches or effect.runs) and not is_view:
        patched = _PATCHED.findall(compact_json(call.input))
        writes = tuple(WriteCall(index, found.strip(), is_whole=False) for found in patched)
    return CallFiles(effect=effect, path=path, read=read, writes=writes)


def _line_count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_ASKS_VERSION = re.compile(r"\b[\w.+-]{1,30} (?:--version|-version|version|-V)\b")
_SWITCHES_BRANCH = re.compile(r"\bgit (?:checkout -[bB]|switch(?: -[cC])?) ([\w./-]{1,80})")


def facts_of_call(
    call: ToolCallBlock, files: CallFiles, body: str, index: int, *, is_error: bool
) -> Iterator[Fact]:
    """Yield the facts of *call* and its result.

    Args:
        call: the call.
        files: its files.
        body: the text of its result.
        index: the position of the result in the transcript.
        is_error: whether the result is marked as one; a command that exits with a code other than 0 fails
            too.
    """
    effect = files.effect
    command = _command_of(call, effect) if effect.runs else None
    code = None if command is None else _find_exit_code(body)
    body = body if command is None else unwrap_output(body)
    failed = is_error or bool(code)
    use = LineUse() if command is None else use_of_line(_line_of(call, effect))
    touches = () if failed else tuple(facts_of_line(use, index))
    is_looking = use.only_looks and not any(touch.changed_paths for touch in use.touches)
    outcome = f" [exit {code}]" if code is not None else " [failed]" if failed else ""
    if failed:
        subject = command + outcome if command else f"{call.name} {files.path}" if files.path else call.name
        yield Fact(FactKind.ERROR, f"{subject}: {error_line(ends_of(body))}", index, is_looking)
    elif command is not None and not is_looking and (report := reported_failure(ends_of(body))):
        yield Fact(FactKind.ERROR, f"{command}{outcome}: {report}", index)
    yield from touches
    if command is not None and not (use.only_looks and touches) and not command.startswith("apply_patch"):
        yield Fact(FactKind.COMMAND, command + outcome, index, is_minor=not failed and is_looking)
        if not failed and (asked := _ASKS_VERSION.search(command)):
            lines = body[:OUTCOME_CHARS].strip().splitlines()
            if told := next((line for line in lines if any(map(str.isdecimal, line))), ""):
                yield Fact(FactKind.ENVIRONMENT, one_line(f"{asked[0]}: {told}", EXCERPT_CHARS), index)
        if not failed and (branch := _SWITCHES_BRANCH.search(command)):
            yield Fact(FactKind.ENVIRONMENT, f"branch {branch[1]}", index)
    if failed:
        return
    if effect.reads and files.read is not None:
        yield Fact(FactKind.READ, files.read.file.path, index)
    for write in files.writes:
        change = "" if write.is_whole else describe_edit(call.input)
        yield Fact(FactKind.MODIFIED, write.path + change, index)
    if effect.searches and (wanted := describe_search(call.input)):
        yield Fact(FactKind.SEARCH, wanted if body.strip() else f"{wanted} (nothing)", index)
    if _is_undeclared(effect):
        line = one_line(f"{call.name} {compact_json(call.input)}", COMMAND_CHARS)
        yield Fact(FactKind.COMMAND, line, index)


def facts_of_line(use: LineUse, index: int) -> Iterator[Fact]:
    """Yield the facts of a command line by its effects: files read and changed, and searches.

    >>> [fact.text for fact in facts_of_line(use_of_line("cat a.py; mv a.py b.py; rg 'x|y' lib"), 0)]
    ['a.py', 'a.py: moved to b.py', 'b.py', 'x|y in lib']
    """
    for touch in use.touches:
        if touch.kind == "read":
            yield Fact(FactKind.READ, touch.path, index)
        elif touch.kind != "search":
            change = {"remove": ": deleted", "move": f": moved to {touch.target}"}.get(touch.kind, "")
            yield Fact(FactKind.MODIFIED, touch.path + change, index)
            if touch.target:
                yield Fact(FactKind.MODIFIED, touch.target, index)
    for search in use.searches:
        yield Fact(FactKind.SEARCH, one_line(" in ".join(search[:2]), SEARCH_CHARS), index)


def _find_exit_code(body: str) -> int | None:
    ends = (body[:OUTCOME_CHARS], body[-OUTCOME_CHARS:])
    found = next(filter(None, (_EXIT_CODE.search(end.lower()) for end in ends)), None)
    return None if found is None else int(found.group(1))


def facts_of_shell(command: str, output: str, exit_code: int | None, index: int) -> Iterator[Fact]:
    """Yield the facts of a command that the user ran.

    Args:
        command: the command line.
        output: everything it printed.
        exit_code: None when it never ended.
        index: the position of its message in the transcript.
    """
    line = one_line(command, COMMAND_CHARS) + (f" [exit {exit_code}]" if exit_code is not None else "")
    yield Fact(FactKind.COMMAND, line, index)
    if exit_code:
        yield Fact(FactKind.ERROR, f"{line}: {error_line(ends_of(output))}", index)


def _is_undeclared(effect: CallEffect) -> bool:
    does = (effect.reads, effect.writes, effect.patches, effect.runs, effect.searches, effect.is_minor)
    return not any(does)


def _command_of(call: ToolCallBlock, effect: CallEffect) -> str | None:
    """Return the command line among a shell tool's arguments on one line, or None when it has none."""
    return one_line(_line_of(call, effect), COMMAND_CHARS) or None


def _line_of(call: ToolCallBlock, effect: CallEffect) -> str:
    if not isinstance(call.input, Mapping):
        return ""
    names = (*effect.command_arguments, *guess_effect("", call.input).command_arguments)
    return unwrap_command(next((call.input[name] for name in names if name in call.input), None))


def open_todos(call: ToolCallBlock) -> tuple[str, ...] | None:
    """Return the items of the todo list in the arguments of *call* that are not done; None without a list.

    Such a list holds objects with a text and a status, or is text with a box before each item. The name of
    the tool counts only where the items have no status.

    >>> items = [{"content": "ship", "status": "pending"}, {"content": "plan", "status": "completed"}]
    >>> open_todos(ToolCallBlock("1", "todo", {"todos": items}))
    ('ship',)
    """
    if not isinstance(call.input, Mapping):
        return None
    for value in call.input.values():
        if isinstance(value, list | tuple) and value and all(isinstance(item, Mapping) for item in value):
            found = [(_first_text(item, _TODO_TEXTS), status_of(item)) for item in value]
            is_plan = words_of(call.name) & _PLANS
            if all(text and (status or is_plan) for text, status in found):
                undone = (text for text, status in found if status.casefold() not in _DONE)
                return tuple(one_line(text, TODO_CHARS) for text in islice(undone, MAX_TODOS))
        elif isinstance(value, str) and "[ ]" in value and guess_effect("", call.input).path_arguments == ():
            return tuple(one_line(text, TODO_CHARS) for text in islice(_BOX.findall(value), MAX_TODOS))
    return None


def status_of(item: Mapping[str, Any]) -> str:
    """Return the status of an item of a todo list, empty for none."""
    for name in ("status", "state", "done", "completed"):
        if (value := item.get(name)) not in (None, ""):
            return {True: "done", False: "pending"}.get(value, "") if isinstance(value, bool) else str(value)
    return ""


def describe_search(arguments: Any) -> str:
    """Return the object and the place of a search: the texts among its arguments.

    >>> describe_search({"pattern": "retry_limit", "path": "src", "limit": 20})
    'retry_limit in src'
    """
    if not isinstance(arguments, Mapping):
        return ""
    texts = [value for value in arguments.values() if isinstance(value, str) and value.strip()]
    return one_line(" in ".join(texts), COMMAND_CHARS)


def _first_text(arguments: Mapping[str, Any], names: Iterable[str]) -> str:
    for name in names:
        if isinstance(value := arguments.get(name), str) and value.strip():
            return value
    return ""


def describe_edit(arguments: Any) -> str:
    """Return an edit in a few words: the first line that differs, as it was and as it is."""
    if not isinstance(arguments, Mapping):
        return ""
    several = arguments.get("edits")
    if isinstance(several, list) and several:
        return describe_edit(several[0])
    old, new = (
        next((arguments[name] for name in names if isinstance(arguments.get(name), str)), "")
        for names in (_OLD_TEXTS, _NEW_TEXTS)
    )
    lines = zip_longest(old.splitlines()[:EXCERPT_LINES], new.splitlines()[:EXCERPT_LINES], fillvalue="")
    for was, now in lines:
        if was.strip() != now.strip():
            return f": {one_line(was, EXCERPT_CHARS)} -> {one_line(now, EXCERPT_CHARS)}"
    return ""
