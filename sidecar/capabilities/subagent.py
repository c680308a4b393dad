"""The task tool: a piece of work for a sub-agent, a session of its own with a fresh window.

The sub-agent sees the task alone and has the tools of its parent but this one. Its answer is the result of
the call. Several that only read run at the same time.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import SubagentTask, ToolContext, ToolReply
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.text.calls import DELEGATES

_NOTES_CHARS = 300


class TaskArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the task tool."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=100, description="A few words for the user.")]
    prompt: Annotated[
        str,
        msgspec.Meta(min_length=1, description="The whole task: it sees nothing else of this session."),
    ]
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=3600, description="Seconds it may take.")] = 900
    max_calls: Annotated[int, msgspec.Meta(ge=1, le=500, description="Calls of tools it may make.")] = 100
    max_tokens: Annotated[
        int,
        msgspec.Meta(ge=0, description="Tokens that its model calls may take together; 0 for no bound."),
    ] = 0
    read_only: Annotated[
        bool, msgspec.Meta(description="It only reads and searches; several such calls run at once.")
    ] = False
    model: Annotated[
        str, msgspec.Meta(description="Another model than yours, only if the user named one.")
    ] = ""


async def run_task(arguments: TaskArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Let a sub-agent do the task, and answer with its last words."""
    if context.run_subagent is None:
        raise InvalidInput("there are no sub-agents here", hint="do the work yourself")
    task = SubagentTask(
        arguments.title,
        arguments.prompt,
        arguments.timeout_s,
        arguments.max_calls,
        max_tokens=arguments.max_tokens or None,
        model=arguments.model or None,
        reads_only=arguments.read_only,
    )
    end = await context.run_subagent(task, context, cancel)
    cap = context.max_output_chars - _NOTES_CHARS
    text = (
        end.text if len(end.text) <= cap else f"{end.text[:cap]}\n[cut: {cap} of {len(end.text)} characters]"
    )
    price = "" if end.cost is None else f", {end.cost:.4f} USD"
    note = f"[the sub-agent made {end.n_calls} calls of tools and used {end.n_tokens} tokens{price}]"
    problem = None if end.problem is None else f"[it did not finish: {end.problem}]"
    return ToolReply("\n".join(filter(None, (text, problem, note))), is_error=problem is not None)


TASK = TypedTool(
    name="task",
    description=(
        "Give a self-contained piece of work to a sub-agent with a fresh context window and the same tools, "
        "and get its answer. Use it for long searches and reviews of which only the outcome matters."
    ),
    kind="other",
    effects=DELEGATES,
    arguments=TaskArguments,
    describe=lambda arguments: f"Sub-agent: {arguments.title}",
    perform=run_task,
)
