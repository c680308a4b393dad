"""Tool calls as facts: files read and changed, commands with their outcome, errors.

A call counts once its result is known, so that a failed edit is no modification. Its files are told by
:mod:`sidecar.text`; a host hands in the declared effects of its own tools. A tool of which nothing is known
is kept as a call with its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from types import MappingProxyType
from typing import Any, Final

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import ToolCallBlock
from sidecar.text.calls import (
    ANYTHING,
    ToolEffects,
    command_lines_in,
    effects_of_call,
    first_text,
    path_of_call,
    touches_named,
    uses_of_lines,
    words_of,
)
from sidecar.text.clip import compact_json, one_line
from sidecar.text.results import OUTCOME_CHARS, exit_code_in, unwrap_output
from sidecar.text.touches import LineUse, Touch
from sidecar.window_budget.facts import Fact, FactKind, ends_of
from sidecar.window_budget.failures import error_line, reported_failure

NO_TOOLS: Final[Mapping[str, ToolEffects]] = MappingProxyType({})
"""No declared tools: each is known by its name or its arguments."""

COMMAND_CHARS = 160
EXCERPT_CHARS = 40
EXCERPT_LINES = 60
SEARCH_CHARS = 100

_OLD_TEXTS = ("old_string", "oldText", "oldString", "old_str", "old_text", "old")
_NEW_TEXTS = ("new_string", "newText", "newString", "new_str", "new_text", "new")

_TODO_TEXTS = ("content", "step", "text", "title", "task", "description")
_DONE = frozenset({"completed", "complete", "done", "cancelled", "canceled"})
_PLANS = frozenset(["todo", "todos", "plan", "tasks", "tracker"])
_BOX = re.compile(r"^\s{0,12}(?:[-*•]|\d{1,3}[.)]) {0,4}\[ \] {0,4}(\S[^\n]{0,400})", re.MULTILINE)
TODO_CHARS = 160
MAX_TODOS = 40


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


class CallFiles(Value, kw_only=True):
    """The *effects* of a call, and the files that it read and changed.

    A tool without a known effect that takes a path counts as a reader under its own name, so that a caller
    may name it in ``RehydrateOpts.read_tool_name``. *exit_code* is that of a command, None where its result
    names none, and *uses* has the use of files by each command line.
    """

    effects: ToolEffects
    failed: bool
    exit_code: int | None
    touches: Sequence[Touch]
    uses: Sequence[LineUse]
    read: ReadCall | None
    writes: tuple[WriteCall, ...]


def files_of_call(
    call: ToolCallBlock,
    index: int,
    tools: Mapping[str, ToolEffects] = NO_TOOLS,
    *,
    body: str = "",
    is_error: bool = False,
) -> CallFiles:
    """Return the files of *call*.

    Args:
        call: the call.
        index: the position of its result in the transcript.
        tools: the declared effects of tools, by name.
        body: the text of its result.
        is_error: whether the result is marked as an error; a command that exits with a code other than 0
            fails too.
    """
    effects = effects_of_call(call.name, call.input, tools.get(call.name))
    code = exit_code_in(body) if effects.kind == "runs" else None
    failed = is_error or bool(code)
    touches = touches_named(effects, call.input, failed=failed)
    read = None
    if touches and touches[0].kind in ("read", "search") and effects.kind in ("reads", "anything"):
        first, count = touches[0].ranges[0] if touches[0].ranges else (None, None)
        read = ReadCall(index, call.name, FileRange(touches[0].path, first, count))
    is_whole = effects.kind == "writes"
    writes = [WriteCall(index, path, is_whole=is_whole) for touch in touches for path in touch.changed_paths]
    return CallFiles(
        effects=effects,
        failed=failed,
        exit_code=code,
        touches=touches,
        uses=[*uses_of_lines(effects, call.input)] if effects.kind == "runs" else (),
        read=read,
        writes=tuple(writes),
    )


_ASKS_VERSION = re.compile(r"\b[\w.+-]{1,30} (?:--version|-version|version|-V)\b")
_SWITCHES_BRANCH = re.compile(r"\bgit (?:checkout -[bB]|switch(?: -[cC])?) ([\w./-]{1,80})")


def facts_of_call(call: ToolCallBlock, files: CallFiles, body: str, index: int) -> Iterator[Fact]:
    """Yield the facts of *call* and its result.

    Args:
        call: the call.
        files: its files.
        body: the text of its result.
        index: the position of the result in the transcript.
    """
    runs, failed, code = files.effects.kind == "runs", files.failed, files.exit_code
    command = command_of(call, files.effects) if runs else ""
    body = unwrap_output(body) if runs else body
    only_looks = bool(files.uses) and all(use.only_looks for use in files.uses)
    is_looking = only_looks and not any(touch.changed_paths for use in files.uses for touch in use.touches)
    outcome = f" [exit {code}]" if code is not None else " [failed]" if failed else ""
    if failed:
        path = path_of_call(files.effects, call.input)
        subject = command + outcome if command else f"{call.name} {path}" if path else call.name
        yield Fact(FactKind.ERROR, f"{subject}: {error_line(ends_of(body))}", index, is_looking)
    elif command and not is_looking and (report := reported_failure(ends_of(body))):
        yield Fact(FactKind.ERROR, f"{command}{outcome}: {report}", index)
    told = [*facts_of_files(call, files, index)]
    yield from told
    if command and not (only_looks and told and not failed) and not command.startswith("apply_patch"):
        yield Fact(FactKind.COMMAND, command + outcome, index, is_minor=not failed and is_looking)
        if not failed and (asked := _ASKS_VERSION.search(command)):
            lines = body[:OUTCOME_CHARS].strip().splitlines()
            if version := next((line for line in lines if any(map(str.isdecimal, line))), ""):
                yield Fact(FactKind.ENVIRONMENT, one_line(f"{asked[0]}: {version}", EXCERPT_CHARS), index)
        if not failed and (branch := _SWITCHES_BRANCH.search(command)):
            yield Fact(FactKind.ENVIRONMENT, f"branch {branch[1]}", index)
    if failed:
        return
    if files.effects.kind == "searches" and (wanted := describe_search(call.input)):
        yield Fact(FactKind.SEARCH, wanted if body.strip() else f"{wanted} (nothing)", index)
    if files.effects.kind == "anything" and not files.writes:
        line = one_line(f"{call.name} {compact_json(call.input)}", COMMAND_CHARS)
        yield Fact(FactKind.COMMAND, line, index)


def facts_of_files(call: ToolCallBlock, files: CallFiles, index: int) -> Iterator[Fact]:
    """Yield the files that a call read and changed, and the searches of its command lines, as facts."""
    for touch in files.touches:
        if touch.kind == "read":
            yield Fact(FactKind.READ, touch.path, index)
        elif touch.kind == "edit" and files.effects.kind == "edits":
            yield Fact(FactKind.MODIFIED, touch.path + describe_edit(call.input), index)
        elif touch.kind != "search":
            change = {"remove": ": deleted", "move": f": moved to {touch.target}"}.get(touch.kind, "")
            yield Fact(FactKind.MODIFIED, touch.path + change, index)
            if touch.target:
                yield Fact(FactKind.MODIFIED, touch.target, index)
    for search in () if files.failed else (search for use in files.uses for search in use.searches):
        yield Fact(FactKind.SEARCH, one_line(" in ".join(search[:2]), SEARCH_CHARS), index)


def command_of(call: ToolCallBlock, effects: ToolEffects) -> str:
    """Return the command lines of *call* on one line, empty where it has none."""
    return one_line("; ".join(line for line, _ in command_lines_in(effects, call.input)), COMMAND_CHARS)


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
            found = [(first_text(item, _TODO_TEXTS), status_of(item)) for item in value]
            is_plan = words_of(call.name) & _PLANS
            if all(text and (status or is_plan) for text, status in found):
                undone = (text for text, status in found if status.casefold() not in _DONE)
                return tuple(one_line(text, TODO_CHARS) for text in islice(undone, MAX_TODOS))
        elif isinstance(value, str) and "[ ]" in value and path_of_call(ANYTHING, call.input) is None:
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
