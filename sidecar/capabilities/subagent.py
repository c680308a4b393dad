"""The task tool: a piece of work for a sub-agent, a session of its own with a fresh window.

The sub-agent sees the task alone and has the tools of its parent but this one. Its answer is the result of
the call. Several that only read, or that have a worktree each, run at the same time.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import replace
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar.capabilities.contract import Location, SubagentTask, ToolContext, ToolReply
from sidecar.capabilities.paths import display_path
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.capabilities.worktree import (
    Worktree,
    describe_place,
    find_changed,
    make_worktree,
    merge_changes,
    remove_worktree,
)
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
    worktree: Annotated[
        bool,
        msgspec.Meta(
            description="It changes files in a git worktree of its own, and merges them in the end; several "
            "such calls run at once."
        ),
    ] = False
    model: Annotated[
        str, msgspec.Meta(description="Another model than yours, only if the user named one.")
    ] = ""


async def run_task(arguments: TaskArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Let a sub-agent do the task, and answer with its last words."""
    if context.run_subagent is None:
        raise InvalidInput("there are no sub-agents here", hint="do the work yourself")
    tree: Worktree | None = None
    if arguments.worktree and not arguments.read_only:
        name = f"{context.call_id}-{time.time_ns()}"
        digest = hashlib.sha256(name.encode()).hexdigest()
        tree = await asyncio.to_thread(make_worktree, context.cwd, arguments.title, digest)
    task = SubagentTask(
        arguments.title,
        arguments.prompt,
        arguments.timeout_s,
        arguments.max_calls,
        max_tokens=arguments.max_tokens or None,
        model=arguments.model or None,
        reads_only=arguments.read_only,
        folder=None if tree is None else tree.folder,
    )
    try:
        end = await context.run_subagent(task, context, cancel)
    finally:
        left = None if tree is None else await asyncio.to_thread(remove_unchanged, tree)
    cap = context.max_output_chars - _NOTES_CHARS
    text = (
        end.text if len(end.text) <= cap else f"{end.text[:cap]}\n[cut: {cap} of {len(end.text)} characters]"
    )
    price = "" if end.cost is None else f", {end.cost:.4f} USD"
    note = f"[the sub-agent made {end.n_calls} calls of tools and used {end.n_tokens} tokens{price}]"
    problem = None if end.problem is None else f"[it did not finish: {end.problem}]"
    merged = ToolReply("")
    if left is not None and problem is None:
        merged = await merge_worktree(left, context)
    elif left is not None:
        merged = ToolReply(f"[{describe_place(left)}]")
    parts = (text, problem, str(merged.output), note)
    return replace(merged, output="\n".join(filter(None, parts)), is_error=problem is not None)


def remove_unchanged(tree: Worktree) -> Worktree | None:
    """Remove *tree* where nothing in it has changed; return it where it stays. Blocks."""
    changed, others = find_changed(tree)
    if changed or others:
        return tree
    remove_worktree(tree)
    return None


async def merge_worktree(tree: Worktree, context: ToolContext) -> ToolReply:
    """Merge *tree* into the folder, remove it after a whole merge, and return a report."""
    try:
        merge = await merge_changes(context, tree)
    except SidecarError as error:
        return ToolReply(f"[nothing was merged: {error.message}; {describe_place(tree)}]")
    names = ", ".join(display_path(each.path, context.cwd) for each in merge.made)
    lines = [f"[merged {names}]" if names else ""]
    if merge.left_out:
        lines.append(f"[not merged: {'; '.join(merge.left_out)}; {describe_place(tree)}]")
    else:
        await asyncio.to_thread(remove_worktree, tree)
    return ToolReply(
        "\n".join(filter(None, lines)),
        locations=tuple(Location(each.path) for each in merge.made),
        diffs=merge.made,
    )


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
