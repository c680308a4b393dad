"""The course of one turn: make room, store the prompt, let the agent answer, store, then tell the end.

The turn of a slash command is shorter: it is carried out, its answer told, and nothing of it is stored.

The ``settled`` or ``faulted`` event is the last of its turn, and what it says is on disk by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import log_fault
from sidecar.conductor.content import prompt_title, turn_text
from sidecar.conductor.contract import ContextUsage, StopReasonName
from sidecar.conductor.core import Core
from sidecar.conductor.events import Faulted, InfoChanged, Settled
from sidecar.conductor.queue import PromptJob, TurnFault, TurnOutcome
from sidecar.conductor.slash import SlashCommand
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import AssistantTurn, GatewayError, UserTurn
from sidecar.runtime.contract import RunSnapshot

__all__ = ["TurnRunner", "resolve", "unknown_usage"]

_EVENTS_AFTER_META = 3
_LEAST_WINDOW = 4_096
"""Where less was refused, it was something else that was too large, such as an image."""

_FAULT_KINDS = {
    "model_failed": "modelFailed",
    "tool_failed": "toolFailed",
    "compaction_failed": "compactionFailed",
    "turn_budget": "turnBudget",
    "invalid_state": "invalidState",
}
_STOP_REASONS: dict[str | None, StopReasonName] = {"max_output": "max_tokens", "refusal": "refusal"}


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a turn came to, before that is stored and told."""

    stop: StopReasonName
    text: str = ""
    fault: TurnFault | None = None


class TurnRunner:
    """Runs prompts, one at a time; *run_command* carries out a slash command and returns its answer."""

    def __init__(self, core: Core, run_command: Callable[[SlashCommand], Awaitable[str]]) -> None:
        self._core = core
        self._run_command = run_command
        self._stop = CancelToken()

    @property
    def may_steer(self) -> bool:
        """Whether the agent is at work on a turn that nobody has stopped."""
        return self._core.agent.is_running and not self._stop.cancelled

    def stop(self) -> None:
        """Stop the running turn at once; it ends as cancelled."""
        self._stop.cancel("the turn was stopped")
        self._core.compactor.cancel()
        self._core.agent.abort()

    async def run(self, job: PromptJob) -> None:
        """Run *job* from its first event to its last."""
        core = self._core
        started_ms = core.deps.clock_ms()
        self._stop = CancelToken()
        core.events.begin_turn(job.turn_id)
        try:
            core.notices.emit_pending()
            core.events.set_phase("invoking")
            if job.command is not None:
                answer = await self._carry_out(job, job.command)
            else:
                answer = _answer(await self._ask_agent(job))
        except Exception as error:
            answer = _internal_error("a turn", error)
        await self._end(job, answer, started_ms)

    async def _carry_out(self, job: PromptJob, command: SlashCommand) -> _Answer:
        resolve(job.entered, None)
        self._core.emit_prompt(None, job)
        text = await self._run_command(command)
        self._core.events.emit_text(text)
        return _Answer("cancelled" if self._was_stopped() else "end_turn", text)

    async def _ask_agent(self, job: PromptJob) -> RunSnapshot | None:
        """Return how the agent ended, None when it was stopped before it began."""
        core = self._core
        await core.refresh_rules()
        core.notices.emit_pending()
        core.entering = job.turn
        try:
            asked = core.ask(force=False)
            if core.compactor.gate(core.info.engine, asked).over:
                resolve(job.entered, None)
                await core.compactor.compact_if_over_limit(core.info.engine, asked)
        finally:
            core.entering = None
        if self._was_stopped():
            return None
        node = await self._store_prompt(job)
        resolve(job.entered, node)
        core.emit_prompt(node, job)
        core.configure_agent()
        await core.servers.ready(self._stop)
        if self._was_stopped():
            return None
        return await self._made_to_fit(await core.agent.submit(()))

    async def _store_prompt(self, job: PromptJob) -> str | None:
        """Store the prompt before it is answered; the first one together with what its session is."""
        core, history = self._core, self._core.history
        prompt = Entry(job.turn, "user", author=None if job.author is None else job.author.client_id)
        if history.head is not None:
            return await history.append(prompt)
        core.info = replace(core.info, title=core.info.title or prompt_title(job.turn.blocks))
        async with history.transaction():
            await core.store_meta(core.log.seq)
            return await history.append(prompt)

    async def _made_to_fit(self, snapshot: RunSnapshot) -> RunSnapshot | None:
        """Return *snapshot*; where it failed for want of room, make room, once, and let the agent go on."""
        core, refusal = self._core, _overflow(snapshot)
        if refusal is None or self._was_stopped():
            return snapshot
        if (window := _window_of(refusal, core.usage().used)) is not None:
            core.deps.models.learn_window(snapshot.model, window)
        if not await core.compactor.compact_after_overflow(core.info.engine, core.ask(force=False)):
            return snapshot
        if self._was_stopped():
            return None
        return await core.agent.submit(())

    def _was_stopped(self) -> bool:
        return self._stop.cancelled

    async def _end(self, job: PromptJob, answer: _Answer, started_ms: int) -> None:
        """Store the turn and publish its last event; a step that raises makes it a fault."""
        core = self._core
        core.history.forget_notes()
        resolve(job.entered, core.history.head)
        usage = unknown_usage(core.history.head)
        try:
            usage = core.usage()
            await self._store(job, usage)
            core.events.emit(usage)
        except Exception as error:
            answer = _internal_error("the end of a turn", error)
        outcome = TurnOutcome(
            turn_id=job.turn_id,
            stop_reason=answer.stop,
            head=core.history.head,
            usage=usage,
            text=answer.text,
            fault=answer.fault,
        )
        try:
            self._emit_end(outcome, max(0, core.deps.clock_ms() - started_ms))
            core.events.end_turn()
        finally:
            # Done already when the client that waited for it was cancelled.
            if not job.outcome.done():
                job.outcome.set_result(outcome)

    async def _store(self, job: PromptJob, usage: ContextUsage) -> None:
        core = self._core
        named_by_prompt = "" if job.command is not None else prompt_title(job.turn.blocks)
        title, now = core.info.title or named_by_prompt, core.deps.clock_ms()
        n_messages = len(core.history.current)
        core.info = replace(core.info, title=title, updated_at=now, messages=n_messages, tokens=usage.used)
        core.events.emit(InfoChanged(title, now))
        await core.store_meta(core.log.seq + _EVENTS_AFTER_META)

    def _emit_end(self, outcome: TurnOutcome, duration_ms: int) -> None:
        events, fault = self._core.events, outcome.fault
        turn_id, head, usage = outcome.turn_id, outcome.head, outcome.usage
        if fault is None:
            events.set_phase("settled")
            events.emit(Settled(turn_id, outcome.stop_reason, head, usage, duration_ms))
        else:
            events.set_phase("faulted")
            events.emit(Faulted(turn_id, fault.kind, fault.message, head, usage, duration_ms))


def resolve(future: asyncio.Future[str | None], value: str | None) -> None:
    """Resolve *future* unless that has been done."""
    if not future.done():
        future.set_result(value)


def unknown_usage(head: str | None) -> ContextUsage:
    """Return the usage of a session whose window cannot be weighed."""
    return ContextUsage(0, 0, 0, 0.0, "estimate", head, {})


def _internal_error(where: str, error: Exception) -> _Answer:
    log_fault(where, error)
    text = f"internal error ({type(error).__name__}); see the daemon's log"
    return _Answer("cancelled", fault=TurnFault("invalidState", text))


def _answer(snapshot: RunSnapshot | None) -> _Answer:
    return _Answer(_stop_reason(snapshot), _last_text(snapshot), _fault(snapshot))


def _fault(snapshot: RunSnapshot | None) -> TurnFault | None:
    """Return why *snapshot* failed; a run that was stopped on request did not fail."""
    if snapshot is None or snapshot.error is None or snapshot.error.kind == "aborted":
        return None
    cause, kind = snapshot.error.cause, _FAULT_KINDS.get(snapshot.error.kind, "invalidState")
    if isinstance(cause, GatewayError) and cause.kind == "auth":
        kind = "authRequired"
    return TurnFault(kind, snapshot.error.message)


def _overflow(snapshot: RunSnapshot) -> GatewayError | None:
    """Return how the provider refused the conversation because it does not fit the window, if it did."""
    cause = snapshot.error.cause if snapshot.error is not None else None
    return cause if isinstance(cause, GatewayError) and cause.is_overflow else None


def _window_of(refusal: GatewayError, refused_tokens: int) -> int | None:
    """Return the window that *refusal* tells of, by its words or by what was refused, or None."""
    if refusal.window_tokens is not None or refused_tokens < _LEAST_WINDOW:
        return refusal.window_tokens
    return refused_tokens


def _stop_reason(snapshot: RunSnapshot | None) -> StopReasonName:
    error = snapshot.error if snapshot is not None else None
    if snapshot is None or (error is not None and error.kind == "aborted"):
        return "cancelled"
    if error is not None and error.kind == "turn_budget":
        return "max_turn_requests"
    return _STOP_REASONS.get(snapshot.stop, "end_turn")


def _last_text(snapshot: RunSnapshot | None) -> str:
    """Return the prose of the newest answer, empty when the newest question has none."""
    for turn in reversed(snapshot.messages if snapshot is not None else ()):
        if isinstance(turn, AssistantTurn):
            return turn_text(turn)
        if isinstance(turn, UserTurn):
            break
    return ""
