"""The write tool: a new file, or the whole of one the model has read.

Never writes over a text the model has not seen, and never without leave.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.access import shown
from sidecar.capabilities.contract import Location, ToolContext, ToolReply
from sidecar.capabilities.effects import WRITES_FILE
from sidecar.capabilities.landing import find_target, land, require_current
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.workspace.line_index import LineText

__all__ = ["WRITE", "WriteArguments"]


class WriteArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What the write tool takes."""

    path: Annotated[str, msgspec.Meta(description="The file: absolute, or relative to the working folder.")]
    content: Annotated[str, msgspec.Meta(description="The whole text of the file.")]


async def _write(arguments: WriteArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    target = await find_target(context, arguments.path)
    name = shown(target.path, context.cwd)
    if target.view is not None:
        require_current(context, target.view)
        if target.view.text == arguments.content:
            return ToolReply(f"{name} has this content already", locations=(Location(target.path),))
    landing = await land(context, "write", target, arguments.content)
    if landing.note is None:
        context.reads.record(landing.view, call_id=context.call_id)
    n_lines = LineText(arguments.content).n_lines
    done = f"{'created' if target.view is None else 'wrote'} {name}, {n_lines} lines"
    return ToolReply(
        done if landing.note is None else f"{done}\n{landing.note}",
        locations=(Location(target.path),),
        diffs=(landing.diff,),
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
    perform=_write,
)
