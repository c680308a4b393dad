"""The apply_patch tool: changes of several files as one patch, for models that are trained on the format."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import Location, ToolContext, ToolReply
from sidecar.capabilities.file_changes import (
    AppliedChange,
    FileChange,
    apply_changes,
    find_target,
    require_current,
    show_places,
)
from sidecar.capabilities.patch_format import FilePatch, apply_hunks, parse_patch
from sidecar.capabilities.paths import display_path
from sidecar.capabilities.text_edit import EditedText, shift_ranges
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.text.calls import PATCHES_FILES, paths_of_patch
from sidecar.workspace.contract import FileAccessError

_NOTES_CHARS = 500


class PatchArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the apply_patch tool."""

    input: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            description="The patch, from '*** Begin Patch' to '*** End Patch', and nothing else.",
        ),
    ]


async def apply_patch(arguments: PatchArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Apply a patch, and answer with the lines around its changes, as they are now."""
    plans = [await plan_file(file, context) for file in parse_patch(arguments.input)]
    # What goes away goes last: a move whose new file cannot be written loses nothing.
    planned = sorted((each for plan in plans for each in plan), key=lambda each: each[0].text is None)
    applied = await apply_changes(context, "apply_patch", [change for change, _ in planned])
    parts: list[str] = []
    for (change, edited), done in zip(planned, applied, strict=True):
        parts.append(report_change(context, change, edited, done))
    text = "\n".join(parts)
    cap = context.max_output_chars - _NOTES_CHARS
    return ToolReply(
        text if len(text) <= cap else f"{text[:cap]}\n[cut: the patch was applied as a whole]",
        locations=tuple(
            Location(
                change.target.path, edited.replaced[0].first_line if edited and edited.replaced else None
            )
            for change, edited in planned
        ),
        diffs=tuple(change.diff for change, _ in planned),
    )


async def plan_file(file: FilePatch, context: ToolContext) -> list[tuple[FileChange, EditedText | None]]:
    """Return the changes that the patch of one file makes, each with its edited passages.

    Raises:
        FileAccessError: the file was not read, has changed since, is missing, or exists already.
        InvalidInput: a hunk has no place in it.
    """
    target = await find_target(context, file.path)
    if file.action == "add":
        if target.view is not None:
            message = f"{file.path} exists already"
            raise FileAccessError(
                "changedSinceRead", message, hint="use '*** Update File' for a change of it"
            )
        return [(FileChange(target, "".join(f"{line}\n" for line in file.lines)), None)]
    if target.view is None:
        raise FileAccessError(
            "notFound", f"{file.path} does not exist", hint="use '*** Add File' for a new one"
        )
    require_current(context, target.view)
    if file.action == "delete":
        return [(FileChange(target, None), None)]
    edited = EditedText(target.view.text, ())
    if file.hunks:
        try:
            edited = await asyncio.to_thread(apply_hunks, target.view.text, file.hunks)
        except InvalidInput as error:
            message = f"{file.path}: {error.message}; nothing was changed"
            raise InvalidInput(message, hint=error.hint) from error
    if file.move_to is None:
        if not file.hunks:
            raise InvalidInput(f"{file.path}: the update has no lines", hint="give the lines to change")
        return [(FileChange(target, edited.text), edited)]
    moved = await find_target(context, file.move_to)
    if moved.view is not None:
        raise FileAccessError(
            "changedSinceRead", f"{file.move_to} exists already", hint="choose another path"
        )
    return [(FileChange(moved, edited.text), edited), (FileChange(target, None), None)]


def report_change(
    context: ToolContext, change: FileChange, edited: EditedText | None, applied: AppliedChange
) -> str:
    """Return the lines about one change for the model, and record the text that it knows now."""
    name = display_path(change.target.path, context.cwd)
    if applied.view is None:
        return f"deleted {name}"
    before = change.target.view
    if before is None or edited is None:
        if applied.note is None:
            context.reads.record(applied.view, call_id=context.call_id)
        return "\n".join(filter(None, (f"created {name}", applied.note)))
    record = context.reads.get(before.path)
    if applied.note is None and record is not None:
        # The model knows the new text as far as it knew the old one: unread lines stay unread.
        for line, count in shift_ranges(record.ranges or ((1, None),), edited.replaced):
            context.reads.record(applied.view, call_id=context.call_id, first_line=line, line_count=count)
    heading = f"edited {name}"
    heading += f" (its lines were found but for {edited.forgiven}):" if edited.forgiven else ":"
    places, n_more = [], 0
    for each in edited.replaced:
        places.append((each.first_line + n_more, each.n_lines_after))
        n_more += each.n_lines_after - each.n_lines_before
    return "\n".join(filter(None, (heading, show_places(applied.view.text, places), applied.note)))


APPLY_PATCH = TypedTool(
    name="apply_patch",
    description=(
        "Apply a patch to files that were read before, all of it or nothing. Its lines: '*** Begin Patch'; "
        "for each file '*** Update File: PATH' (then perhaps '*** Move to: PATH'), '*** Add File: PATH' or "
        "'*** Delete File: PATH'; '*** End Patch'. An update has hunks: '@@' with perhaps a line that stands "
        "above, then lines with ' ' (stays), '-' (goes) or '+' (comes) before them, three around each "
        "change. All lines of a new file have '+'."
    ),
    kind="edit",
    effects=PATCHES_FILES,
    arguments=PatchArguments,
    describe=lambda arguments: f"Patch {', '.join(paths_of_patch(arguments.input)) or 'nothing'}",
    perform=apply_patch,
)
