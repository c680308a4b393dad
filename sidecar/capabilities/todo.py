"""The todo tool: the plan of the session, replaced as a whole.

Touches nothing but the plan.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import PlanEntry, PlanStatus, ToolContext, ToolReply
from sidecar.capabilities.output import cut_line
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.text.calls import NO_EFFECTS

_SHOWN_CHARS = 200
_SIGNS: dict[PlanStatus, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class TodoEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One step."""

    content: Annotated[str, msgspec.Meta(min_length=1, max_length=1000, description="What is to be done.")]
    status: PlanStatus = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


class TodoArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the todo tool."""

    entries: Annotated[
        tuple[TodoEntry, ...], msgspec.Meta(max_length=100, description="The whole plan, in order.")
    ]


async def replace_plan(arguments: TodoArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Replace the plan, and answer with it."""
    plan = tuple(PlanEntry(each.content, each.status, each.priority) for each in arguments.entries)
    context.set_plan(plan)
    if not plan:
        return ToolReply("the plan is empty now")
    lines = (f"{_SIGNS[entry.status]} {cut_line(entry.content, _SHOWN_CHARS)}" for entry in plan)
    return ToolReply("\n".join(lines))


TODO = TypedTool(
    name="todo",
    description=(
        "Replace the plan that the user sees. Use it for work of several steps: one entry a step, one of "
        "them in_progress at a time."
    ),
    kind="think",
    effects=NO_EFFECTS,
    arguments=TodoArguments,
    describe=lambda arguments: f"Plan of {len(arguments.entries)} steps",
    perform=replace_plan,
)
