"""The edit tool: one passage of a file the model has read becomes another.

Never writes over a text the model has not seen, and never without leave.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.access import shown
from sidecar.capabilities.contract import Location, ToolContext, ToolReply
from sidecar.capabilities.effects import EDITS_FILE
from sidecar.capabilities.landing import Landing, find_target, land, require_current
from sidecar.capabilities.output import number_lines
from sidecar.capabilities.text_edit import EditedText, replace_passage, shift_ranges
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.workspace.contract import FileProblem, ReadRecord
from sidecar.workspace.line_index import LineText

__all__ = ["EDIT", "EditArguments"]

_LINES_AROUND = 3
_LINES_SHOWN = 30
_CHARS_SHOWN = 6000


class EditArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What the edit tool takes."""

    path: Annotated[str, msgspec.Meta(description="The file: absolute, or relative to the working folder.")]
    old_text: Annotated[
        str, msgspec.Meta(description="The passage to replace, exactly as read, without line numbers.")
    ]
    new_text: Annotated[str, msgspec.Meta(description="What stands there afterwards.")]
    replace_all: Annotated[bool, msgspec.Meta(description="Replace every occurrence, not just one.")] = False


async def _edit(arguments: EditArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    target = await find_target(context, arguments.path)
    if target.view is None:
        raise FileProblem("notFound", f"{arguments.path} does not exist", hint="use write for a new file")
    record = require_current(context, target.view)
    edited = await asyncio.to_thread(
        replace_passage,
        target.view.text,
        arguments.old_text,
        arguments.new_text,
        all_of_them=arguments.replace_all,
    )
    landing = await land(context, "edit", target, edited.text)
    if landing.note is None:
        _keep_on_record(context, record, landing, edited)
    first_line = edited.replaced[0].first_line
    return ToolReply(
        _summary(context, landing, edited),
        locations=(Location(target.path, first_line),),
        diffs=(landing.diff,),
    )


def _keep_on_record(context: ToolContext, before: ReadRecord, landing: Landing, edited: EditedText) -> None:
    """The model knows the text as it knew the one before: what it had not seen it still has not."""
    for first, count in shift_ranges(before.ranges or ((1, None),), edited.replaced):
        context.reads.record(landing.view, call_id=context.call_id, first_line=first, line_count=count)


def _summary(context: ToolContext, landing: Landing, edited: EditedText) -> str:
    name = shown(landing.view.path, context.cwd)
    n_replaced = len(edited.replaced)
    first = max(1, edited.replaced[0].first_line - _LINES_AROUND)
    n_lines = min(_LINES_SHOWN, edited.replaced[0].n_lines_after + 2 * _LINES_AROUND)
    around = [line.rstrip("\r\n") for line in LineText(landing.view.text).lines(first - 1, n_lines)]
    shown_lines = number_lines(around, first=first, cap_chars=_CHARS_SHOWN).text
    heading = f"edited {name}" + (f" in {n_replaced} places, the first:" if n_replaced > 1 else ":")
    return "\n".join(part for part in (heading, shown_lines, landing.note) if part)


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
    perform=_edit,
)
