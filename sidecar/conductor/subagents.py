"""Sub-agents: a session within a call of a tool, which no client sees and no file keeps.

It has the folders, the model and the engine of its parent, and a history, a window and tools of its own, but
no further sub-agents. Its questions become the parent's: the parent's policy decides them and the parent's
clients are asked. Its tool calls are reported as progress of the call. Its tokens and their price are added
to the parent's. However the call ends, the session is closed before it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from sidecar._internal.async_cancel import cancel_future
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import (
    PermissionDecision,
    PermissionQuestion,
    RunInTerminal,
    SubagentEnd,
    SubagentTask,
    ToolContext,
)
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.errors import SessionNotFound
from sidecar.conductor.events import ToolStarted
from sidecar.conductor.log import EventLog
from sidecar.conductor.ports import ClientPort, StorePort
from sidecar.conductor.queue import TurnOutcome
from sidecar.conductor.records import SessionInfo
from sidecar.conductor.session import Session


class Subagents:
    """Runs the sub-agents of all sessions; *store* makes sessions in memory."""

    def __init__(self, store: StorePort) -> None:
        self._store = store

    async def run(
        self,
        deps: SessionDeps,
        parent: SessionInfo,
        task: SubagentTask,
        context: ToolContext,
        cancel: CancelToken,
    ) -> SubagentEnd:
        """Run one sub-agent to its end.

        Args:
            deps: the dependencies of the parent.
            parent: the values of the parent.
            task: the task and its bounds.
            context: the surroundings of the call that started it.
            cancel: ends it.
        """

        async def ask(question: PermissionQuestion) -> PermissionDecision:
            title = f"{question.title} (sub-agent)"
            return await context.ask(replace(question, call_id=context.call_id, title=title))

        info = parent.as_fork(deps.new_id(), deps.clock_ms(), 0)
        info = replace(
            info, title="", ephemeral=True, knowledge=(), plan=(), pins=(), mcp_servers=(), left_branch=""
        )
        opened = await self._store.open_in_memory(info.sid)
        own_deps = replace(deps, ask=ask, run_subagent=None, checkpoints=context.checkpoints)
        session = Session(info, opened.journal, own_deps, NoClients())
        watched = _Watched(session, task.max_calls, context)
        stop_watching = session.log.follow(watched.on_event)
        outcome: TurnOutcome | None = None
        problem: str | None = None
        try:
            await session.start((), opened.report)
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
                    problem = f"it made its {task.max_calls} calls of tools"
                else:
                    problem = f"its {task.timeout_s:g} s are over"
        finally:
            stop_watching()
            await session.aclose()
            opened.release()
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
    """The calls of a running sub-agent: reported, and counted up to *max_calls*."""

    def __init__(self, session: Session, max_calls: int, context: ToolContext) -> None:
        self.n_calls = 0
        self.is_over_budget: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._max_calls = max_calls
        self._context = context
        self._seen = session.log.seq

    def on_event(self, log: EventLog) -> None:
        """Report the events that are new."""
        for event in log.after(self._seen):
            self._seen = event.seq
            if isinstance(event.data, ToolStarted):
                self.n_calls += 1
                self._context.progress(f"{event.data.title}\n")
        if self.n_calls > self._max_calls and not self.is_over_budget.done():
            self.is_over_budget.set_result(None)


class NoClients:
    """The host of a session that no client knows."""

    def terminal(self, sid: str) -> RunInTerminal | None:
        """Return no terminal."""
        return None

    def controllers(self, sid: str) -> Sequence[ClientPort]:
        """Return no clients."""
        return ()

    def listeners(self, sid: str) -> Sequence[ClientPort]:
        """Return no clients."""
        return ()

    def announce_change(self) -> None:
        """Do nothing."""

    async def fork_of(self, sid: str) -> str:
        """Raise SessionNotFound: such a session cannot be forked."""
        raise SessionNotFound(sid)
