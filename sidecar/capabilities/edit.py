"""The edit and write tools: passages of a file that was read, a new file, or the whole of one that was read.

Neither ever writes over a text that the model has not seen, and neither writes without permission.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import Location, ToolContext, ToolReply
from sidecar.capabilities.file_changes import (
    AppliedChange,
    FileChange,
    apply_changes,
    diffs_as_written,
    find_target,
    record_known,
    require_current,
    require_shown,
    show_places,
)
from sidecar.capabilities.paths import display_path
from sidecar.capabilities.text_edit import EditedText, replace_passage, shift_ranges
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.text.calls import EDITS_FILE, WRITES_FILE
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.line_index import LineText

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
    target = await find_target(context, arguments.path)
    if target.view is None:
        raise FileAccessError("notFound", f"{arguments.path} does not exist", hint="use write for a new file")
    record = require_shown(context, target.view)
    steps = await asyncio.to_thread(replace_passages, target.view.text, edits)
    change = FileChange(target, steps[-1].text)
    (applied,) = await apply_changes(context, "edit", [change])
    assert applied.view is not None
    if applied.is_chosen:
        # The model knows its proposal, and is told how the file differs from it.
        if not record.ranges:
            record_known(context, AppliedChange(applied.view))
        note = f"edited {display_path(applied.view.path, context.cwd)} in part\n{applied.note}"
        return ToolReply(
            note, locations=(Location(target.path),), diffs=diffs_as_written([change], [applied])
        )
    ranges = record.ranges or ((1, None),)
    places: tuple[tuple[int, int | None], ...] = ()
    for step in steps:
        ranges = shift_ranges(ranges, step.replaced)
        first = step.replaced[0]
        places = (*shift_ranges(places, step.replaced), (first.first_line, first.n_lines_after))
    record_known(context, applied, ranges)
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
        diffs=(change.diff,),
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


async def write_file(arguments: WriteArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Create a file or replace the whole of one."""
    target = await find_target(context, arguments.path)
    name = display_path(target.path, context.cwd)
    if target.view is not None:
        record = require_current(context, target.view)
        if target.view.text == arguments.content:
            return ToolReply(f"{name} has this content already", locations=(Location(target.path),))
        n_lines = LineText(target.view.text).n_lines
        ranges = record.ranges or ((1, None),)
        n_seen = sum(n_lines + 1 - first if count is None else count for first, count in ranges)
        if n_seen < n_lines:
            message = f"write replaces the whole of {name}, and {n_seen} of its {n_lines} lines were read"
            raise FileAccessError("notReadYet", message, hint="use edit for a part, or read the other lines")
    change = FileChange(target, arguments.content)
    (applied,) = await apply_changes(context, "write", [change])
    assert applied.view is not None
    record_known(context, AppliedChange(applied.view) if applied.is_chosen else applied)
    n_lines = LineText(applied.view.text).n_lines
    done = f"{'created' if target.view is None else 'wrote'} {name}, {n_lines} lines"
    return ToolReply(
        done if applied.note is None else f"{done}\n{applied.note}",
        locations=(Location(target.path),),
        diffs=diffs_as_written([change], [applied]),
    )


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
