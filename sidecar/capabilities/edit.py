"""The edit and write tools: a passage of a file that was read, a new file, or the whole of one that was read.

Neither ever writes over a text that the model has not seen, and neither writes without permission. A change
that happens while the user thinks is found by the write itself, which compares hashes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import Diff, Location, PermissionQuestion, ToolContext, ToolReply
from sidecar.capabilities.effects import EDITS_FILE, WRITES_FILE
from sidecar.capabilities.output import number_lines
from sidecar.capabilities.paths import display_path, require_permission, resolve, view_file
from sidecar.capabilities.text_edit import replace_passage, shift_ranges
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.conversation import FileRead
from sidecar.permissions.access import EditAccess
from sidecar.workspace.contract import FileAccessError, FileView
from sidecar.workspace.line_index import LineText
from sidecar.workspace.paths import ResolvedPath

_LINES_AROUND = 3
_LINES_SHOWN = 30
_CHARS_SHOWN = 6000


class EditArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the edit tool."""

    path: Annotated[str, msgspec.Meta(description="The file: absolute, or relative to the working folder.")]
    old_text: Annotated[
        str, msgspec.Meta(description="The passage to replace, exactly as read, without line numbers.")
    ]
    new_text: Annotated[str, msgspec.Meta(description="What stands there afterwards.")]
    replace_all: Annotated[bool, msgspec.Meta(description="Replace every occurrence, not just one.")] = False


class WriteArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the write tool."""

    path: Annotated[str, msgspec.Meta(description="The file: absolute, or relative to the working folder.")]
    content: Annotated[str, msgspec.Meta(description="The whole text of the file.")]


async def edit_file(arguments: EditArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Replace a passage of a file, and answer with the lines around the first place, as they are now."""
    target = await _find_target(context, arguments.path)
    if target.view is None:
        raise FileAccessError("notFound", f"{arguments.path} does not exist", hint="use write for a new file")
    record = _require_current(context, target.view)
    edited = await asyncio.to_thread(
        replace_passage,
        target.view.text,
        arguments.old_text,
        arguments.new_text,
        all_of_them=arguments.replace_all,
    )
    applied = await _apply_edit(context, "edit", target, edited.text)
    if applied.note is None:
        # The model knows the new text as far as it knew the old one: unread lines stay unread.
        for line, count in shift_ranges(record.ranges or ((1, None),), edited.replaced):
            context.reads.record(applied.view, call_id=context.call_id, first_line=line, line_count=count)
    passage = edited.replaced[0]
    first = max(1, passage.first_line - _LINES_AROUND)
    n_lines = min(_LINES_SHOWN, passage.n_lines_after + 2 * _LINES_AROUND)
    around = [line.rstrip("\r\n") for line in LineText(applied.view.text).lines(first - 1, n_lines)]
    shown = number_lines(around, first=first, cap_chars=_CHARS_SHOWN).text
    n_replaced = len(edited.replaced)
    heading = f"edited {display_path(applied.view.path, context.cwd)}"
    heading += f" in {n_replaced} places, the first:" if n_replaced > 1 else ":"
    return ToolReply(
        "\n".join(part for part in (heading, shown, applied.note) if part),
        locations=(Location(target.path, passage.first_line),),
        diffs=(applied.diff,),
    )


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
        "Replace a passage of a file that was read before. old_text must occur exactly once, unless "
        "replace_all is set. Line ends are matched loosely and kept as the file has them."
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
