"""One conversation of the daemon: what may be asked of it, its queue and its worker.

Prompts and compactions wait in one queue and run one after another, so that none ever runs beside another.
A request enqueues and returns; how it went is told by the log, and by the future of its job.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from sidecar._internal.errors import SidecarError
from sidecar.conductor.content import content_to_prompt
from sidecar.conductor.contract import (
    Compaction,
    ConfigChoice,
    ConfigOption,
    ContextFile,
    ContextUsage,
    Plan,
    QueueItem,
    SessionSnapshot,
)
from sidecar.conductor.core import Core, SessionParts
from sidecar.conductor.errors import Busy, HeadMoved
from sidecar.conductor.events import QueueChanged, Settled, UserMessage
from sidecar.conductor.history import History, JournalPort
from sidecar.conductor.info import SessionInfo
from sidecar.conductor.jobs import CompactJob, CompactStarted, PromptJob, TurnOutcome, TurnStarted, UndoJob
from sidecar.conductor.log import EventLog
from sidecar.conductor.turns import TurnRunner, resolve
from sidecar.llmgateway.contract import UserTurn

__all__ = ["CompactRequest", "Content", "Interrupted", "Session"]

Content: TypeAlias = tuple[Mapping[str, Any], ...]
"""A prompt as the client wrote it: content blocks."""

Job: TypeAlias = PromptJob | CompactJob | UndoJob

_KEYS_KEPT = 256


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Whether there was a turn to stop, and the prompts taken out of the queue where asked for."""

    accepted: bool
    returned: tuple[Content, ...] | None = None


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """A compaction as a client asks for it; None leaves a choice to the session."""

    engine: str | None = None
    force: bool = True
    policy: Mapping[str, float] | None = None
    instructions: str | None = None
    plan_id: str | None = None
    expect_head: str | None = None
    reject_when_busy: bool = False


class Session:
    """One loaded session. Made by the hub: :meth:`start` first, :meth:`aclose` last."""

    def __init__(self, info: SessionInfo, journal: JournalPort, parts: SessionParts) -> None:
        self._core = Core(info, journal, parts, self._running_turn_id)
        self._runner = TurnRunner(self._core)
        self._jobs: deque[Job] = deque()
        self._current: Job | None = None
        self._worker: asyncio.Task[None] | None = None
        self._steered: list[tuple[UserTurn, Content]] = []
        self._by_key: OrderedDict[str, TurnStarted] = OrderedDict()

    async def start(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Load what is stored of this session; *records* are the store's records that are no nodes."""
        await self._core.load(records)

    async def aclose(self) -> None:
        """Stop what runs, store what is to be stored, let go of everything."""
        while self._jobs:
            self._drop(self._jobs.popleft())
        if self._current is not None:
            self._runner.stop()
        if self._worker is not None:
            await self._worker
        self._core.narrator.flush()
        await self._core.store_meta(self.log.seq)
        self._core.files.close()

    # What a client may look at.

    @property
    def sid(self) -> str:
        """The session's id."""
        return self._core.info.sid

    @property
    def info(self) -> SessionInfo:
        """What is known of the session besides its turns."""
        return self._core.info

    @property
    def log(self) -> EventLog:
        """The session's events."""
        return self._core.log

    @property
    def history(self) -> History:
        """The conversation and its nodes; for reading."""
        return self._core.history

    @property
    def is_running(self) -> bool:
        """Whether a turn or a compaction is under way."""
        return self._current is not None

    @property
    def is_busy(self) -> bool:
        """Whether a prompt would have to wait."""
        return self.is_running or bool(self._jobs)

    @property
    def _has_prompts(self) -> bool:
        return any(isinstance(job, PromptJob) for job in (self._current, *self._jobs))

    @property
    def compactions(self) -> tuple[Compaction, ...]:
        """Every compaction so far, oldest first."""
        return self._core.compactor.compactions

    def snapshot(self) -> SessionSnapshot:
        """Return the session as it is now."""
        info = self.info
        return SessionSnapshot(
            sid=info.sid,
            cwd=info.cwd,
            roots=info.roots,
            title=info.title,
            model=info.model,
            engine=info.engine,
            phase=self._core.narrator.phase,
            head=self.history.head,
            messages=len(self.history.turns),
            seq=self.log.seq,
            created_at=info.created_at,
            updated_at=info.updated_at,
            turn_id=self._running_turn_id(),
            queue=self.queue(),
            parent=info.parent,
            archived=info.archived,
            ephemeral=info.ephemeral,
            plan=self._core.plan(),
        )

    def queue(self) -> tuple[QueueItem, ...]:
        """Return the prompts that wait, the next one first."""
        return tuple(job.as_item() for job in self._jobs if isinstance(job, PromptJob))

    def config_options(self) -> tuple[ConfigOption, ...]:
        """Return the session's knobs and what they may be set to."""
        parts = self._core.parts
        models = tuple(ConfigChoice(name, name) for name in parts.models.names())
        engines = tuple(ConfigChoice(name, name) for name in parts.engines)
        return (
            ConfigOption("model", "Model", "model", self.info.model, models),
            ConfigOption("engine", "Compaction engine", "_engine", self.info.engine, engines),
        )

    def usage(self, *, detail: bool = False) -> ContextUsage:
        """Return how full the window is."""
        return self._core.usage(detail=detail)

    def context_files(self) -> tuple[ContextFile, ...]:
        """Return the files the model has read."""
        return self._core.files.in_context(self.history.turns, self.history.node_ids)

    # Prompts.

    async def submit(
        self,
        content: Content,
        *,
        when_busy: Literal["queue", "steer", "reject"] = "queue",
        expect_head: str | None = None,
        idempotency_key: str | None = None,
    ) -> TurnStarted:
        """Take a prompt; return once it runs, waits, or was given to the running turn."""
        if idempotency_key is not None and idempotency_key in self._by_key:
            return self._by_key[idempotency_key]
        turn = UserTurn(content_to_prompt(content))
        self._check_head(expect_head)
        started = self._take(content, turn, when_busy)
        if idempotency_key is not None:
            self._by_key[idempotency_key] = started
            while len(self._by_key) > _KEYS_KEPT:
                self._by_key.popitem(last=False)
        if started.disposition != "started":
            return started
        return replace(started, user_node_id=await asyncio.shield(started.entered))

    def interrupt(self, turn_id: str | None, queue: Literal["keep", "drop", "return"]) -> Interrupted:
        """Stop the running turn, or the waiting one named; *queue* is for the other waiting prompts.

        A prompt that steered the running turn and was not let in yet waits again, and goes the same way.
        """
        runs = isinstance(self._current, PromptJob) and turn_id in (None, self._current.turn_id)
        if runs:
            self._jobs.extendleft(reversed(self._withdraw_steered()))
            self._runner.stop()
        waiting = [job for job in self._jobs if isinstance(job, PromptJob)]
        named = [job for job in waiting if job.turn_id == turn_id]
        if not runs and not named:
            return Interrupted(False)
        out = named if queue == "keep" else waiting
        for job in out:
            self._jobs.remove(job)
            self._drop(job)
        if waiting:
            self._core.narrator.tell(QueueChanged(self.queue()))
        return Interrupted(True, tuple(job.content for job in out) if queue == "return" else None)

    def _withdraw_steered(self) -> list[PromptJob]:
        """Take back the steering prompts that the agent has not let in yet."""
        withdrawn = [turn for turns in self._core.agent.withdraw() for turn in turns]
        steered, self._steered = self._steered, []
        return [
            self._prompt_job(content, turn)
            for turn, content in steered
            if any(turn is back for back in withdrawn)
        ]

    def _take(self, content: Content, turn: UserTurn, when_busy: str) -> TurnStarted:
        if self.is_busy and when_busy == "reject":
            raise Busy(
                f"session {self.sid!r} is at work", hint='use whenBusy "queue" or "steer"', sid=self.sid
            )
        running = self._current
        if when_busy == "steer" and isinstance(running, PromptJob) and self._runner.may_steer:
            return self._steer(running, content, turn)
        busy, job = self.is_busy, self._prompt_job(content, turn)
        self._enqueue(job)
        if not busy:
            return TurnStarted(job.turn_id, None, "started", None, job.entered, job.outcome)
        self._core.narrator.tell(QueueChanged(self.queue()))
        return TurnStarted(job.turn_id, None, "queued", len(self.queue()), job.entered, job.outcome)

    def _steer(self, running: PromptJob, content: Content, turn: UserTurn) -> TurnStarted:
        """Give *turn* to the running turn; it enters at the next safe step."""
        self._core.agent.steer((turn,))
        self._steered.append((turn, content))
        self._core.narrator.tell(UserMessage(None, content))
        return TurnStarted(running.turn_id, None, "steered", None, running.entered, running.outcome)

    def _prompt_job(self, content: Content, turn: UserTurn) -> PromptJob:
        loop, new_id = asyncio.get_running_loop(), self._core.parts.new_id
        return PromptJob(new_id(), new_id(), content, turn, loop.create_future(), loop.create_future())

    # Compactions.

    def preview(self, request: CompactRequest) -> Plan:
        """Say what a compaction would do; no model is called and nothing changes."""
        return self._core.compactor.preview(*self._engine_and_ask(request))

    def compact(self, request: CompactRequest) -> CompactStarted:
        """Take a compaction; it runs before the prompts that wait, and is declined at once when pointless."""
        self._check_head(request.expect_head)
        engine, ask = self._engine_and_ask(request)
        if request.plan_id is not None:
            engine, ask = self._core.compactor.planned(request.plan_id)
        busy = self.is_busy
        if busy and request.reject_when_busy:
            raise Busy(f"session {self.sid!r} is at work", hint='use whenBusy "afterTurn"', sid=self.sid)
        job = CompactJob(self._core.parts.new_id(), engine, ask, asyncio.get_running_loop().create_future())
        noop = None if busy else self._core.compactor.nothing_to_do(engine, ask)
        if noop is not None:
            job.outcome.set_result(self._core.compactor.decline(job.compaction_id, engine, noop))
            return CompactStarted(job.compaction_id, "noop", noop.reason, job.outcome)
        self._enqueue(job, front=True)
        return CompactStarted(job.compaction_id, "queued" if busy else "started", None, job.outcome)

    def cancel_compaction(self, compaction_id: str) -> bool:
        """Stop a compaction, running or waiting; False when there is no such one."""
        for job in self._jobs:
            if isinstance(job, CompactJob) and job.compaction_id == compaction_id:
                self._jobs.remove(job)
                self._drop(job)
                return True
        return self._core.compactor.cancel(compaction_id)

    async def undo(self, compaction_id: str | None, *, force: bool, expect_head: str | None) -> Compaction:
        """Take a compaction back, the newest for None. Only between turns."""
        self._check_head(expect_head)
        if self._has_prompts:
            raise Busy(f"session {self.sid!r} is at work", hint="wait for the turn to settle", sid=self.sid)
        job = UndoJob(compaction_id, force, asyncio.get_running_loop().create_future())
        self._enqueue(job)
        return await asyncio.shield(job.outcome)

    def find_compaction(self, compaction_id: str) -> Compaction:
        """Return one compaction. Raises CompactionNotFound."""
        return self._core.compactor.find(compaction_id)

    def _engine_and_ask(self, request: CompactRequest) -> tuple[str, Any]:
        engine = self._core.engine_name(request.engine)
        ask = self._core.ask(force=request.force, policy=request.policy, instructions=request.instructions)
        return engine, ask

    # The queue and its worker.

    def _enqueue(self, job: Job, *, front: bool = False) -> None:
        if front:
            self._jobs.appendleft(job)
        else:
            self._jobs.append(job)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        """Run the queue until it is empty."""
        while self._jobs:
            self._current = job = self._jobs.popleft()
            self._steered.clear()
            try:
                await self._run(job)
            finally:
                self._current = None
            self._core.parts.changed()

    async def _run(self, job: Job) -> None:
        if isinstance(job, PromptJob):
            await self._runner.run(job)
        elif isinstance(job, CompactJob):
            await self._run_compaction(job)
        else:
            await self._run_undo(job)

    async def _run_compaction(self, job: CompactJob) -> None:
        done = await self._core.compactor.run(job.compaction_id, job.engine, job.ask, "manual")
        if done.status == "completed":
            await self._after_change()
        job.outcome.set_result(done)

    async def _run_undo(self, job: UndoJob) -> None:
        try:
            undone = await self._core.compactor.undo(job.compaction_id, force=job.force)
        except SidecarError as error:
            job.outcome.set_exception(error)
            return
        await self._after_change()
        job.outcome.set_result(undone)

    async def _after_change(self) -> None:
        """Store and tell the new size of a conversation that was cut or restored."""
        core, now = self._core, self._core.parts.clock_ms()
        usage = core.usage()
        core.info = replace(
            core.info,
            updated_at=now,
            messages=len(self.history.turns),
            tokens=usage.used,
            last_compaction_at=now,
        )
        await core.store_meta(self.log.seq + 1)
        core.narrator.tell(usage)

    def _drop(self, job: Job) -> None:
        """End a job that never ran."""
        if isinstance(job, CompactJob):
            job.outcome.set_result(self._core.compactor.decline(job.compaction_id, job.engine, None))
            return
        if isinstance(job, UndoJob):
            job.outcome.set_exception(Busy(f"session {self.sid!r} is closing", sid=self.sid))
            return
        resolve(job.entered, None)
        outcome = TurnOutcome(job.turn_id, "cancelled", self.history.head, self.usage(), "")
        self._core.narrator.flush()
        self.log.append(Settled(job.turn_id, "cancelled", outcome.head, outcome.usage, 0), job.turn_id)
        job.outcome.set_result(outcome)

    def _running_turn_id(self) -> str | None:
        return self._current.turn_id if isinstance(self._current, PromptJob) else None

    def _check_head(self, expected: str | None) -> None:
        if expected is not None and expected != self.history.head:
            raise HeadMoved(self.sid, expected, self.history.head)
