"""Sub-agents: sessions that work for a call of a tool in another session, their parent.

A sub-agent is a session as any other: stored, with a log, a window, compactions and checkpoints of its own,
and opened, steered, stopped, read and forked by the same methods. Four values of its record make it a child:
its kind, its parent, the call that it works for, and the state of that work. Lists leave children out unless
they are asked for, and a parent that is deleted takes its children with it.

While the call runs, the child depends on its parent:

* it has the folders, the engine and the tools of the servers of its parent, and its model unless the task
  names another one; it has no further sub-agents;
* the parent's permission mode and the answers "always" hold for both, and a client that controls the parent
  controls the child, so that its questions reach the clients of both;
* each change of a file is kept by the checkpoints of both, so that either one can take it back; one with a
  worktree changes no file of its parent, and the merge is a change by the call;
* its calls of models count for the parent's spending and budgets, too;
* its calls are shown as progress of the call, and events of the parent tell when it begins and ends.

The call ends with the first turn of the child, or at a bound of the task, or when it is cancelled. Then the
child is closed, unless a client has opened it: it goes on as that client's session. A daemon that dies leaves
a child with work that is stored as running, and no process that holds it: it is listed as interrupted. Its
worktree stays, and a notice with the next load of either names it. A child that is deleted takes its worktree
along, but for one with work that is nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Final

from sidecar._internal.async_cancel import cancel_future
from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput, log_fault
from sidecar.capabilities.contract import SubagentEnd, SubagentTask, ToolContext
from sidecar.capabilities.worktree import describe_place, discard_worktree, find_worktree
from sidecar.conductor.clients import ClientPort
from sidecar.conductor.contract import Author, ContextUsage, SessionSummary, TaskState
from sidecar.conductor.errors import ModelNotFound
from sidecar.conductor.events import Notice, SubagentChanged, ToolStarted
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.queue import TurnOutcome
from sidecar.conductor.records import SessionInfo
from sidecar.conductor.session import Session
from sidecar.llmgateway.contract import CostBudget

_ENDS: Final = {"cancelled": "its user stopped it", "budget": "its next call would break a budget"}
"""Why a sub-agent did not finish, by the reason why its turn ended."""


async def run_child(
    child: Session,
    parent: Session,
    task: SubagentTask,
    context: ToolContext,
    cancel: CancelToken,
    clients: Sequence[ClientPort],
) -> SubagentEnd:
    """Run a sub-agent, which was just opened, to its end.

    Args:
        child: its session.
        parent: the session of the call.
        task: the task and its bounds.
        context: the surroundings of the call that started it.
        cancel: ends it.
        clients: the followers of the parent.
    """
    sid, events = child.sid, parent.record.events
    stop_sharing = parent.workbench.policy.share_with(child.workbench.policy)
    child.workbench.tools.offer("servers", parent.workbench.servers.tools)
    if task.folder is None:
        child.workbench.checkpoints.outer = context.checkpoints
    events.emit(SubagentChanged(sid, context.call_id, task.title, "running"))
    for client in clients:
        client.follow_child(sid)
    watched = _Watched(child, task, context)
    stop_watching = child.record.log.follow(watched.on_event)
    state: TaskState = "interrupted"
    outcome: TurnOutcome | None = None
    problem: str | None = None
    try:
        receipt = await child.submit(
            # Words before it, so that a task never is a slash command.
            ({"type": "text", "text": f"Your task:\n\n{task.prompt}"},),
            author=Author(parent.sid, "the agent"),
            allow=[rule.text for rule in parent.workbench.policy.turn_rules],
            budget=None if task.max_tokens is None else CostBudget(tokens=task.max_tokens),
        )
        with cancel_future(cancel) as cancelled:
            waited_for = (receipt.outcome, cancelled, watched.is_over_bound)
            await asyncio.wait(waited_for, timeout=task.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not (is_over := receipt.outcome.done()):
                child.turns.prompts.interrupt(receipt.turn_id, "keep")
                await asyncio.shield(receipt.outcome)
        if is_over:
            outcome = receipt.outcome.result()
            problem = _ENDS.get(outcome.stop_reason or "")
            if outcome.fault is not None:
                state, problem = "failed", outcome.fault.message
            elif outcome.stop_reason != "cancelled":
                state = "completed" if problem is None else "failed"
        elif cancel.cancelled:
            problem = "it was cancelled"
        else:
            over = watched.is_over_bound
            state, problem = "failed", over.result() if over.done() else f"its {task.timeout_s:g} s are over"
    finally:
        stop_watching()
        stop_sharing()
        child.workbench.checkpoints.outer = None
        child.record.amend(lambda info: replace(info, task=state))
        events.emit(SubagentChanged(sid, context.call_id, task.title, state, watched.usage))
    return SubagentEnd(
        text="" if outcome is None else outcome.text,
        problem=problem,
        n_calls=watched.n_calls,
        n_tokens=sum(astuple(child.record.spending.total)),
        cost=child.record.spending.cost,
    )


async def child_info(parent: Session, task: SubagentTask, call_id: str) -> SessionInfo:
    """Return the record of the child of *parent* that works at *task*. Raises ModelNotFound."""
    record = parent.record
    models, model = record.models, task.model or record.info.model
    await models.ready(model)
    if (why := models.why_not(model)) is not None:
        raise ModelNotFound(model, tuple(models.names()), why)
    info = record.info
    if task.folder is not None:
        info = replace(info, cwd=str(task.folder), roots=())
    return replace(
        info.as_fork(record.new_id(), record.clock_ms(), 0),
        model=model,
        title=task.title,
        knowledge=(),
        plan=(),
        pins=(),
        mcp_servers=(),
        fork_digest="",
        tokens=0,
        kind="subagent",
        tool_call_id=call_id,
        task="running",
        reads_only=task.reads_only,
    )


async def unmerged_work(agents: Sequence[SessionSummary], *, discards: bool) -> tuple[Notice, ...]:
    """Return a notice for each of *agents* that has left work in its worktree, with the place of it.

    With *discards* a worktree without such work is removed.
    """
    look, notices = discard_worktree if discards else find_worktree, list[Notice]()
    for agent in agents:
        if agent.kind != "subagent" or agent.task == "running":  # then its call looks after it
            continue
        try:
            tree = await asyncio.to_thread(look, Path(agent.cwd))
        except (InvalidInput, OSError) as error:
            log_fault("a look at a worktree", error)
            continue
        if tree is not None:
            text = f"{agent.title}: {describe_place(tree)}"
            notices.append(Notice("warning", "Work of a sub-agent was not merged", text))
    return tuple(notices)


class _Watched:
    """The calls of a running sub-agent: reported, and counted up to the bound of *task*."""

    def __init__(self, child: Session, task: SubagentTask, context: ToolContext) -> None:
        self.n_calls = 0
        self.usage: ContextUsage | None = None
        self.is_over_bound: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task = task
        self._context = context
        self._seen = child.record.log.seq

    def on_event(self, log: EventLog) -> None:
        """Report the events that are new."""
        for event in log.after(self._seen):
            self._seen = event.seq
            if isinstance(event.data, ToolStarted):
                self.n_calls += 1
                self._context.progress(f"{event.data.title}\n")
            elif isinstance(event.data, ContextUsage):
                self.usage = event.data
        if self.n_calls > self._task.max_calls and not self.is_over_bound.done():
            self.is_over_bound.set_result(f"it made its {self._task.max_calls} calls of tools")
