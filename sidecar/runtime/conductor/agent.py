"""The agent of a host: submit, subscribe, abort, snapshot, resume.

It holds the state of one conversation and the one task that moves it on. Use it from one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from sidecar._internal.errors import SidecarError
from sidecar._internal.values import replace
from sidecar.conversation import AppendOnlySeq
from sidecar.llmgateway.contract import TextBlock, Turn, Usage, UserTurn
from sidecar.runtime.cadence import RunMessages, initial_snapshot
from sidecar.runtime.conductor.journal import Journal, JournalStore, JournalWriter, NodeJournal
from sidecar.runtime.conductor.run_loop import AgentDeps, RunLoop
from sidecar.runtime.contract import AgentConfig, RunEventHandler, RunSnapshot, SubmitSignal
from sidecar.runtime.ledger import RunLedger, Unsubscribe
from sidecar.runtime.wire import is_blank


class AgentIdleError(SidecarError):
    """The call needs a run, and there is none."""

    kind: ClassVar[str] = "notSteerable"

    def __init__(self) -> None:
        super().__init__("cannot steer: the agent is at rest", hint="submit the prompt instead")


class AgentBusyError(SidecarError):
    """The call needs the agent at rest, and a run is under way."""

    kind: ClassVar[str] = "busy"
    retryable: ClassVar[bool] = True

    def __init__(self, action: str) -> None:
        super().__init__(f"cannot {action} during a run", hint="await its end, or abort it, then retry")


class NothingStoredError(SidecarError):
    """The agent was given neither a store nor a journal."""

    kind: ClassVar[str] = "invalidState"

    def __init__(self, session_id: str) -> None:
        message = f"cannot resume session {session_id!r}: the agent has no store"
        super().__init__(message, hint="pass AgentDeps(store=...) to create_agent")


AgentEventHandler: TypeAlias = RunEventHandler
"""What :meth:`Agent.subscribe` takes."""


def create_agent(config: AgentConfig, deps: AgentDeps | None = None) -> Agent:
    """Return an agent set up by *config*, with collaborators from *deps*."""
    return Agent(config, deps)


class Agent:
    """One conversation with a model, driven from a prompt to settlement.

    A submit during a run is kept and let in at the next safe step: when the running tools have settled and
    before the next model call, or when the answer is complete. That is how a host steers; a host that wants
    prompts to wait for the end of the run keeps them itself until then.
    """

    def __init__(self, config: AgentConfig, deps: AgentDeps | None = None) -> None:
        self._deps = deps or AgentDeps()
        self._ledger = RunLedger() if self._deps.ledger is None else self._deps.ledger
        self._run: asyncio.Task[RunSnapshot] | None = None
        session_id = self._deps.session_id or self._deps.new_id()
        first = initial_snapshot(session_id, config.model, run_id=self._deps.new_id())
        journal = JournalWriter(self._journal(session_id), self._deps.on_store_error)
        self._loop = RunLoop(config, self._deps, self._ledger, journal, first)
        self._loop.journal.begin(self._rest_with((), first))

    @property
    def is_running(self) -> bool:
        """Whether a run is under way, from a submit until everything it asked for is done."""
        return self._run is not None

    def snapshot(self) -> RunSnapshot:
        """Return the state as it is now."""
        return self._loop.snapshot

    def subscribe(self, handler: AgentEventHandler) -> Unsubscribe:
        """Call *handler* with every event from now on, and return how to stop that."""
        return self._ledger.subscribe(handler)

    async def submit(self, input: str | Sequence[Turn]) -> RunSnapshot:
        """Submit *input* and wait until the agent is at rest again.

        Prompts that come during a run are answered one by one, in order, and survive a fault of the one
        before; every waiting caller gets the same last snapshot. Cancelling a caller does not cancel the run.

        Args:
            input: the new turns; a string is one user turn. None are needed where the host has put the
                prompt into the journal: the agent follows its journal first.

        Returns:
            The last snapshot: settled, or faulted with its error. Failures of a run are never raised.
        """
        turns = (UserTurn((TextBlock(input),)),) if isinstance(input, str) else tuple(input)
        if self._run is None:
            self._loop.follow_journal()
        self._loop.feed(SubmitSignal(turns))
        if self._run is None:

            async def run() -> RunSnapshot:
                try:
                    return await self._loop.run_to_end()
                finally:
                    self._run = None

            self._run = asyncio.create_task(run())
        return await asyncio.shield(self._run)

    def steer(self, turns: Sequence[Turn]) -> None:
        """Give *turns* to the run that is under way; they are let in at the next safe step.

        Raises:
            AgentIdleError: there is no run.
        """
        if not self.is_running:
            raise AgentIdleError
        self._loop.feed(SubmitSignal(tuple(turns)))

    def abort(self) -> None:
        """End the prompt that is at work: its stream at once, its tools within the grace.

        Prompts queued behind it are answered next, unless :meth:`take_back_queued` took them back. Without a
        run this does nothing, now or later.
        """
        if self.is_running:
            self._loop.abort()

    def take_back_queued(self) -> tuple[tuple[Turn, ...], ...]:
        """Take back the submits that were not let in yet, the oldest first."""
        queued = self.snapshot().queued
        if queued:
            self._loop.show(replace(self.snapshot(), queued=()))
        return queued

    def prepare(self, turns: AppendOnlySeq[Turn]) -> None:
        """Take in *turns*, to which the host is about to move the journal, so that the next prompt is quick.

        For a thread, while no run is under way.
        """
        self._loop.prepare(turns)

    def forget(self) -> None:
        """Let go of the conversation, which goes on nowhere."""
        self._must_rest("forget the conversation")
        self.prepare(AppendOnlySeq())
        self._loop.journal.adopt(self._rest_with((), self.snapshot()))

    def configure(self, config: AgentConfig) -> None:
        """Go by *config* from the next prompt on. Raises AgentBusyError during a run."""
        self._must_rest("configure the agent")
        self._loop.configure(config)
        self._loop.snapshot = replace(self._loop.snapshot, model=config.model)

    async def resume(self, session_id: str) -> RunSnapshot:
        """Take up the stored session *session_id*: its history, no usage yet, phase idle.

        A session that is not stored is an empty one.

        Raises:
            NothingStoredError: the agent has neither a store nor a journal.
            AgentBusyError: a run is under way, or began meanwhile.
        """
        self._must_rest("resume a session")
        journal = self._journal(session_id)
        if journal is None:
            raise NothingStoredError(session_id)
        turns = await journal.load()
        self._must_rest("resume a session")
        self._loop.journal = JournalWriter(journal, self._deps.on_store_error)
        state = replace(self.snapshot(), session_id=session_id, usage_total=Usage(0, 0))
        self._loop.journal.adopt(self._rest_with(turns, state))
        return self.snapshot()

    def _rest_with(self, messages: Sequence[Turn], state: RunSnapshot) -> RunMessages:
        """Rest with *messages* as the history, and return it."""
        history = RunMessages.of(tuple(turn for turn in messages if not is_blank(turn)))
        self._loop.snapshot = replace(
            state, phase="idle", messages=history, pending=(), error=None, stop=None, call_usage=None
        )
        return history

    def _journal(self, session_id: str) -> Journal | None:
        store = self._deps.store
        if self._deps.journal is not None or store is None:
            return self._deps.journal
        if isinstance(store, JournalStore):
            return store.journal(session_id)
        return NodeJournal(store, session_id)

    def _must_rest(self, action: str) -> None:
        if self._run is not None:
            raise AgentBusyError(action)
