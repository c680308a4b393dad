"""The edit and write tools: passages of a file that was read, a new file, or the whole of one that was read.

Neither ever writes over a text that the model has not seen, and neither writes without permission. A change
that happens while the user thinks is found by the write itself, which compares hashes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import Diff, Location, PermissionQuestion, ToolContext, ToolReply
from sidecar.capabilities.effects import EDITS_FILE, WRITES_FILE
from sidecar.capabilities.output import number_lines
from sidecar.capabilities.paths import display_path, require_permission, resolve, view_file
from sidecar.capabilities.text_edit import EditedText, replace_passage, shift_ranges
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.conversation import FileRead
from sidecar.permissions.access import EditAccess
from sidecar.workspace.contract import FileAccessError, FileView
from sidecar.workspace.line_index import LineText
from sidecar.workspace.paths import ResolvedPath

_LINES_AROUND = 3
_LINES_SHOWN = 30
_CHARS_SHOWN = 6000


OldText: TypeAlias = Annotated[
    str, msgspec.Meta(description="The passage to replace, as read, without line numbers.")
]
NewText: TypeAlias = Annotated[str, msgspec.Meta(description="The text that stands there afterwards.")]
ReplaceAll: TypeAlias = Annotated[bool, msgspec.Meta(description="Replace every occurrence, not just one.")]


class PassageEdit(msgspec.Struct, frozen=True, kw_only=True):
    """One replacement."""

    old_text: OldText
    new_text: NewText
    replace_all: ReplaceAll = False


class EditArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the edit tool."""

    path: Annotated[str, msgspec.Meta(description="The file: absolute, or relative to the working folder.")]
    old_text: OldText | None = None
    new_text: NewText | None = None
    replace_all: ReplaceAll = False
    edits: Annotated[
        tuple[PassageEdit, ...],
        msgspec.Meta(max_length=100, description="Several replacements, instead of the other arguments."),
    ] = ()

    def list_edits(self) -> tuple[PassageEdit, ...]:
        """Return the replacements, in order. Raises InvalidInput where there is none, or half of one."""
        if self.old_text is not None and self.new_text is not None:
            single = PassageEdit(old_text=self.old_text, new_text=self.new_text, replace_all=self.replace_all)
            return (single, *self.edits)
        if self.old_text is not None or self.new_text is not None or not self.edits:
            raise InvalidInput("a replacement is missing", hint="give old_text and new_text, or edits")
        return self.edits


class WriteArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the write tool."""

    path: Annotated[str, msgspec.Meta(description="The file: absolute, or relative to the working folder.")]
    content: Annotated[str, msgspec.Meta(description="The whole text of the file.")]


async def edit_file(arguments: EditArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Replace passages of a file, all or none, and answer with the lines around them, as they are now."""
    edits = arguments.list_edits()
    target = await _find_target(context, arguments.path)
    if target.view is None:
        raise FileAccessError("notFound", f"{arguments.path} does not exist", hint="use write for a new file")
    record = _require_current(context, target.view)
    steps = await asyncio.to_thread(replace_passages, target.view.text, edits)
    applied = await _apply_edit(context, "edit", target, steps[-1].text)
    ranges = record.ranges or ((1, None),)
    places: tuple[tuple[int, int | None], ...] = ()
    for step in steps:
        ranges = shift_ranges(ranges, step.replaced)
        first = step.replaced[0]
        places = (*shift_ranges(places, step.replaced), (first.first_line, first.n_lines_after))
    if applied.note is None:
        # The model knows the new text as far as it knew the old one: unread lines stay unread.
        for line, count in ranges:
            context.reads.record(applied.view, call_id=context.call_id, first_line=line, line_count=count)
    heading = f"edited {display_path(applied.view.path, context.cwd)}"
    n_replaced = len(steps[-1].replaced)
    if len(edits) > 1:
        heading += f" by {len(edits)} edits"
    elif n_replaced > 1:
        heading += f" in {n_replaced} places, the first"
    forgiven = ", ".join(dict.fromkeys(step.forgiven for step in steps if step.forgiven))
    heading += f" (old_text was found but for {forgiven}):" if forgiven else ":"
    shown = await asyncio.to_thread(show_places, applied.view.text, places)
    return ToolReply(
        "\n".join(part for part in (heading, shown, applied.note) if part),
        locations=(Location(target.path, min(line for line, _ in places)),),
        diffs=(applied.diff,),
    )


def replace_passages(text: str, edits: Sequence[PassageEdit]) -> list[EditedText]:
    """Return the texts that *edits* make of *text*, each of the one before. Raises InvalidInput."""
    steps: list[EditedText] = []
    for number, each in enumerate(edits, 1):
        before = steps[-1].text if steps else text
        try:
            steps.append(replace_passage(before, each.old_text, each.new_text, all_of_them=each.replace_all))
        except InvalidInput as error:
            if len(edits) == 1:
                raise
            message = f"edit {number} of {len(edits)}: {error.message}; none of them was made"
            raise InvalidInput(message, hint=error.hint) from error
    return steps


def show_places(text: str, places: Sequence[tuple[int, int | None]]) -> str:
    """Return the numbered lines of *text* around *places* (first line, count), from the top."""
    lines = LineText(text)
    shown: list[str] = []
    n_done, left = 0, _CHARS_SHOWN
    for first, count in sorted(places, key=lambda place: place[0]):
        start = max(n_done + 1, first - _LINES_AROUND)
        n_lines = first + min(count or 0, _LINES_SHOWN) + _LINES_AROUND - start
        if n_lines <= 0 or left <= 0:
            continue
        around = [line.rstrip("\r\n") for line in lines.lines(start - 1, n_lines)]
        part = number_lines(around, first=start, cap_chars=left)
        left -= len(part.text)
        shown += [*(["   ..."] if n_done and start > n_done + 1 else []), part.text]
        n_done = start + part.n_lines - 1
    return "\n".join(shown)


async def write_file(arguments: WriteArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Create a file or replace the whole of one."""
    target = await _find_target(context, arguments.path)
    name = display_path(target.path, context.cwd)
    if target.view is not None:
        record = _require_current(context, target.view)
        if target.view.text == arguments.content:
            return ToolReply(f"{name} has this content already", locations=(Location(target.path),))
        n_lines = LineText(target.view.text).n_lines
        ranges = record.ranges or ((1, None),)
        n_seen = sum(n_lines + 1 - first if count is None else count for first, count in ranges)
        if n_seen < n_lines:
            message = f"write replaces the whole of {name}, and {n_seen} of its {n_lines} lines were read"
            raise FileAccessError("notReadYet", message, hint="use edit for a part, or read the other lines")
    applied = await _apply_edit(context, "write", target, arguments.content)
    if applied.note is None:
        context.reads.record(applied.view, call_id=context.call_id)
    n_lines = LineText(arguments.content).n_lines
    done = f"{'created' if target.view is None else 'wrote'} {name}, {n_lines} lines"
    return ToolReply(
        done if applied.note is None else f"{done}\n{applied.note}",
        locations=(Location(target.path),),
        diffs=(applied.diff,),
    )


@dataclass(frozen=True, slots=True)
class _Target:
    """A file to change: its resolved path, and its view, None while it does not exist."""

    resolved: ResolvedPath
    view: FileView | None

    @property
    def path(self) -> Path:
        return self.resolved.path


@dataclass(frozen=True, slots=True)
class _AppliedEdit:
    """A written change: the view after it, the diff, and a note where the editor altered the text."""

    view: FileView
    diff: Diff
    note: str | None = None


async def _find_target(context: ToolContext, spelled: str) -> _Target:
    """Return the file *spelled* by the model, as it is now. Raises FileAccessError but for ``notFound``."""
    resolved = await resolve(context, spelled)
    try:
        return _Target(resolved, await view_file(context, resolved.path))
    except FileAccessError as error:
        if error.problem != "notFound":
            raise
        return _Target(resolved, None)


def _require_current(context: ToolContext, view: FileView) -> FileRead:
    """Return the record of *view*. Raises FileAccessError unless the model has read exactly this text."""
    name = display_path(view.path, context.cwd)
    record = context.reads.get(view.path)
    if record is None:
        raise FileAccessError("notReadYet", f"{name} was not read yet", hint="read it, then change it")
    if record.hash != view.hash:
        where = "in the editor" if view.source == "buffer" else "on disk"
        message = f"{name} has changed {where} since it was read"
        raise FileAccessError("changedSinceRead", message, hint="read it again")
    return record


async def _apply_edit(context: ToolContext, tool: str, target: _Target, text: str) -> _AppliedEdit:
    """Ask for permission and write *text* as the content of *target*.

    Raises:
        PermissionRefused: the user did not allow it.
        FileAccessError: the file has changed meanwhile, or cannot be written.
    """
    before = target.view
    diff = Diff(target.path, None if before is None else before.text, text)
    title = f"{tool.capitalize()} {display_path(target.path, context.cwd)}"
    inside = target.resolved.inside
    question = PermissionQuestion(
        call_id=context.call_id,
        tool=tool,
        title=title if inside else f"{title}, outside the workspace",
        subject="toolCall" if inside else "path",
        detail=str(target.path),
        access=EditAccess(target.path, inside),
        diffs=(diff,),
    )
    await require_permission(context, question)
    expected_hash = None if before is None else before.hash
    view = await context.workspace.write(target.path, text, expected_hash=expected_hash)
    note = None if view.text == text else "[the editor changed the text on the way; read it again]"
    return _AppliedEdit(view, diff, note)


EDIT = TypedTool(
    name="edit",
    description=(
        "Replace passages of a file that was read before: one by old_text and new_text, several by edits, "
        "each in the text that the one before has made, all or none. old_text must mean one place, unless "
        "replace_all is set. Small mistakes of copying are forgiven where there is one such place."
    ),
    kind="edit",
    effects=EDITS_FILE,
    arguments=EditArguments,
    describe=lambda arguments: f"Edit {arguments.path}",
    perform=edit_file,
)

WRITE = TypedTool(
    name="write",
    description=(
        "Create a file, or replace the whole of one that was read before. Prefer edit for a change of a part."
    ),
    kind="edit",
    effects=WRITES_FILE,
    arguments=WriteArguments,
    describe=lambda arguments: f"Write {arguments.path}",
    perform=write_file,
)
