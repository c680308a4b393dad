"""Sub-agents: a session within a call of a tool, which no client sees and no file keeps.

It has the folders and the engine of its parent, its model unless the task names another one, and the tools of
its servers. Its history, its window and its other tools are its own, and it has no further sub-agents. Its
questions become the parent's: the parent's policy decides them and the parent's clients are asked. Its tool
calls are reported as progress of the call. Its tokens and their price are added to the parent's. However the
call ends, the session is closed before it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import astuple, replace

from sidecar._internal.async_cancel import cancel_future
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import (
    PermissionDecision,
    PermissionQuestion,
    SubagentEnd,
    SubagentTask,
    Tool,
    ToolContext,
)
from sidecar.conductor.clients import Audience, Terminals
from sidecar.conductor.contract import ContextUsage, SessionSummary
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.errors import ModelNotFound, SessionNotFound
from sidecar.conductor.events import ToolStarted
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.queue import TurnOutcome
from sidecar.conductor.record.shelf import SessionShelf
from sidecar.conductor.records import SessionInfo
from sidecar.conductor.session import Session
from sidecar.extensions.contract import WithoutServers
from sidecar.runtime.store.place import SessionQuery


class Subagents:
    """Runs the sub-agents of all sessions; *store* makes sessions in memory."""

    def __init__(self, store: SessionShelf) -> None:
        self._store = store

    async def run(
        self,
        deps: SessionDeps,
        parent: SessionInfo,
        task: SubagentTask,
        context: ToolContext,
        server_tools: Sequence[Tool],
        cancel: CancelToken,
    ) -> SubagentEnd:
        """Run one sub-agent to its end. Raises ModelNotFound.

        Args:
            deps: the dependencies of the parent.
            parent: the values of the parent.
            task: the task and its bounds.
            context: the surroundings of the call that started it.
            server_tools: the tools of the parent's servers.
            cancel: ends it.
        """

        async def ask(question: PermissionQuestion) -> PermissionDecision:
            title = f"{question.title} (sub-agent)"
            return await context.ask(replace(question, call_id=context.call_id, title=title))

        model = task.model or parent.model
        await deps.models.ready(model)
        if (why := deps.models.why_not(model)) is not None:
            raise ModelNotFound(model, tuple(deps.models.names()), why)
        info = parent.as_fork(deps.new_id(), deps.clock_ms(), 0)
        info = replace(
            info,
            model=model,
            title="",
            ephemeral=True,
            knowledge=(),
            plan=(),
            pins=(),
            mcp_servers=(),
            fork_digest="",
        )
        opened = await self._store.open_in_memory(info.sid)
        own_deps = replace(
            deps,
            ask=ask,
            run_subagent=None,
            checkpoints=context.checkpoints,
            extensions=WithoutServers(deps.extensions),
        )
        session = Session(info, opened.journal, own_deps, NoClients())
        session.workbench.tools.offer("servers", server_tools)
        watched = _Watched(session, task, context)
        stop_watching = session.record.log.follow(watched.on_event)
        outcome: TurnOutcome | None = None
        problem: str | None = None
        try:
            await session.start((), opened.journal.integrity)
            # Words before it, so that a task never is a slash command.
            receipt = await session.submit(({"type": "text", "text": f"Your task:\n\n{task.prompt}"},))
            with cancel_future(cancel) as cancelled:
                waited_for = (receipt.outcome, cancelled, watched.is_over_budget)
                await asyncio.wait(waited_for, timeout=task.timeout_s, return_when=asyncio.FIRST_COMPLETED)
                if receipt.outcome.done():
                    outcome = receipt.outcome.result()
                elif cancelled.done():
                    problem = "it was cancelled"
                elif watched.is_over_budget.done():
                    problem = watched.is_over_budget.result()
                else:
                    problem = f"its {task.timeout_s:g} s are over"
        finally:
            stop_watching()
            await session.aclose()
            await opened.release()
        if outcome is not None and outcome.fault is not None:
            problem = outcome.fault.message
        return SubagentEnd(
            text="" if outcome is None else outcome.text,
            problem=problem,
            n_calls=watched.n_calls,
            tokens=session.info.session_total,
            cost=session.info.cost,
        )


class _Watched:
    """The calls and tokens of a running sub-agent: reported, and counted up to the bounds of *task*."""

    def __init__(self, session: Session, task: SubagentTask, context: ToolContext) -> None:
        self.n_calls = 0
        self.is_over_budget: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._n_tokens = 0
        self._task = task
        self._context = context
        self._seen = session.record.log.seq

    def on_event(self, log: EventLog) -> None:
        """Report the events that are new."""
        for event in log.after(self._seen):
            self._seen = event.seq
            if isinstance(event.data, ToolStarted):
                self.n_calls += 1
                self._context.progress(f"{event.data.title}\n")
            elif isinstance(event.data, ContextUsage) and event.data.session_total is not None:
                self._n_tokens = sum(astuple(event.data.session_total))
        problem = None
        if self.n_calls > self._task.max_calls:
            problem = f"it made its {self._task.max_calls} calls of tools"
        elif self._task.max_tokens is not None and self._n_tokens > self._task.max_tokens:
            problem = f"it used its {self._task.max_tokens:,} tokens"
        if problem is not None and not self.is_over_budget.done():
            self.is_over_budget.set_result(problem)


class NoClients:
    """The host of a session that no client knows."""

    def __init__(self) -> None:
        self.audience = Audience()
        self.terminals = Terminals()

    def announce_change(self, *changed: SessionSummary) -> None:
        """Do nothing."""

    async def fork_of(self, sid: str) -> str:
        """Raise SessionNotFound: such a session cannot be forked."""
        raise SessionNotFound(sid)

    async def new_like(self, sid: str) -> str:
        """Raise SessionNotFound."""
        raise SessionNotFound(sid)

    async def list(self, _query: SessionQuery) -> Sequence[SessionSummary]:
        """Return nothing: such a session goes on nowhere else."""
        return ()
