"""Runs the compactions of a session: compact, commit or refuse, undo.

A compaction goes one way, whichever engine does it. It takes the plan of its preview, or makes one. The
engine has a model write a note on the folded entries; without a model, or where that fails, there is none.
The host adds the chronicle and the files, for every engine alike (:data:`KEEPING`). The result is committed
as a branch, in one transaction with its record: after a crash both are there or neither, and a failed
compaction leaves everything as it was.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from sidecar._internal.breaker import FAILURES_TO_OPEN, Breaker
from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar._internal.errors import log_fault
from sidecar.conductor.contract import Compaction, NoOp
from sidecar.conductor.engine import (
    SUMMARY_TOO_LONG,
    WOULD_NOT_SHRINK,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    PlannedCompaction,
    PreparedSummary,
    SummaryFailedError,
)
from sidecar.conductor.errors import NotUndoableError
from sidecar.conductor.events import CompactionSummaryDelta, Notice, Rehydrated
from sidecar.conductor.record.compactions import (
    Trigger,
    begin,
    complete,
    complete_backstop,
    left_history_unchanged,
    undo,
)
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.records import to_record
from sidecar.conductor.window.compaction.chronicling import fold_without_note, keep_chronicle
from sidecar.conductor.window.compaction.loss import count_loss
from sidecar.conductor.window.compaction.planner import (
    SUMMARY_DEADLINE_S,
    CompactionPlanner,
    weigh_result,
)
from sidecar.conductor.window.compaction.preparing import (
    PreparedCompaction,
    SummaryPreparer,
    bring_up_to_date,
)
from sidecar.conductor.window.compaction.restoring import bring_files_back
from sidecar.conductor.window.session_rules import SessionRules
from sidecar.conductor.workbench.extensions import SessionExtensions
from sidecar.runtime.memory import LiveCompaction

_OVERFLOW_SHARE = 0.5
"""How much is kept of a conversation that did not fit: a provider rarely says by how much it was over."""


KEEPING: Final = (keep_chronicle, bring_files_back)
"""The additions of the host to the result of an engine, in order."""


class Compactor:
    """Runs the compactions of one session; *planner* judges the conversation for them."""

    def __init__(
        self,
        record: SessionRecord,
        planner: CompactionPlanner,
        preparer: SummaryPreparer,
        rules: SessionRules,
        extensions: SessionExtensions,
    ) -> None:
        self._record = record
        self._history = record.history
        self._events = record.events
        self._log = record.compactions
        self._planner = planner
        self._preparer = preparer
        self._rules = rules
        self._extensions = extensions
        self._cancel = CancelToken()
        self._is_storing = False
        self._breaker = Breaker()
        self._vain_turn_id: str | None = None

    def cancel(self, compaction_id: str | None = None) -> bool:
        """Stop the running compaction; False when it is another one, none runs, or it is being stored."""
        running = self._log.running
        if running is None or self._is_storing or compaction_id not in (None, running.compaction_id):
            return False
        self._preparer.cancel()
        self._cancel.cancel("cancelled by the user")
        return True

    async def compact_if_over_limit(self, request: CompactionRequest) -> bool:
        """Compact when the gate says so; True when the conversation changed. Never raises for a failure."""
        if not self._planner.request.gate(request).over:
            return False
        if not self._breaker.may_call():
            self._breaker = self._breaker.after(called=False, failed=False)
            return False
        done = await self.run(self._record.new_id(), request, "auto")
        return done.status == "completed"

    async def compact_between_calls(self, request: CompactionRequest) -> None:
        """Compact as :meth:`compact_if_over_limit` between the model calls of a turn.

        One compaction in vain is enough for one turn.
        """
        turn_id = self._events.turn_id
        may = self._planner.engines.get(request.engine).compacts and turn_id != self._vain_turn_id
        if not may or not self._planner.request.gate(request).over:
            return
        is_vain = await self._planner.nothing_to_do(request) is not None
        is_done = not is_vain and await self.compact_if_over_limit(request)
        self._vain_turn_id = None if is_done else turn_id

    async def compact_after_overflow(self, request: CompactionRequest) -> bool:
        """Compact after the provider refused the size of the conversation, even below the gate's limit.

        The engine's limit is put below its present count, so that its gate is over.

        Returns:
            Whether the conversation changed. Never raises for a failure.
        """
        # The meter is proven wrong: where the engine counts more, that is nearer to it.
        unmetered = replace(self._planner.request.make_input(), context_tokens=0)
        gate = self._planner.engines.get(request.engine).gate(unmetered, request)
        tokens = max(gate.tokens, self._planner.request.gate(request).tokens)
        policy = dict(request.policy)
        if gate.window and tokens:
            policy["triggerRatio"] = min(gate.limit, tokens * _OVERFLOW_SHARE) / gate.window
        forced = replace(request, force=True, policy=policy)
        done = await self.run(self._record.new_id(), forced, "overflow")
        return done.status == "completed"

    def decline(self, compaction_id: str, engine: str, noop: NoOp | None) -> Compaction:
        """Publish a compaction that never ran: as a no-op with its reason, or as cancelled."""
        begun = self._begin(compaction_id, engine, "manual")
        done = replace(begun, status="cancelled", reason="cancelled before it began")
        if noop is not None:
            done = replace(begun, status="noop", reason=noop.reason)
        self._events.emit(done)
        return done

    async def run(self, compaction_id: str, request: CompactionRequest, trigger: Trigger) -> Compaction:
        """Compact with the engine that *request* names; publish and store the outcome."""
        engine = request.engine
        await self._planner.warm_up(engine)
        started_ms = self._record.clock_ms()
        begun = self._log.running = self._begin(compaction_id, engine, trigger)
        self._cancel = CancelToken()
        phase_before = self._events.phase
        self._events.emit(begun)
        self._events.set_phase("compacting")
        try:
            why = None if trigger == "overflow" else await self._extensions.refuse_compaction(engine, trigger)
            if why is not None:
                outcome = replace(begun, status="cancelled", reason=f"a hook refused it: {why}")
            else:
                planned = await self._planner.plan_for(request)
                result = await self._carry_out(begun, planned)
                outcome = result if isinstance(result, Compaction) else begun
                if isinstance(result, CompactionResult):
                    self._cancel.raise_if_cancelled()
                    self._is_storing = True
                    outcome = await self._commit(begun, planned.given, result, started_ms)
        except CancelledByToken:
            outcome = replace(begun, status="cancelled", reason="cancelled by the user")
        except asyncio.CancelledError:
            # The turn in the middle of which it ran was stopped.
            self._log.running = None
            self._events.emit(replace(begun, status="cancelled", reason="cancelled by the user"))
            raise
        finally:
            self._log.running = None
            self._is_storing = False
            self._events.set_phase(phase_before)
        if outcome.duration_ms is None:
            outcome = replace(outcome, duration_ms=max(0, self._record.clock_ms() - started_ms))
        self._events.emit(outcome)
        self._count_strike(outcome)
        return outcome

    def find_undoable(self, compaction_id: str | None) -> Compaction:
        """Return a compaction that can be undone, the newest for None.

        Raises:
            CompactionNotFound: there is no such compaction.
            NotUndoableError: it changed nothing, or was undone.
        """
        target = self._log.find(compaction_id)
        if not target.undoable or target.before_head is None or left_history_unchanged(target):
            raise NotUndoableError(self._record.sid, target.compaction_id, target.status)
        return target

    async def undo(self, compaction_id: str | None, *, force: bool) -> Compaction:
        """Go back to the conversation before a compaction, with all turns since.

        Raises:
            CompactionNotFound: there is no such compaction.
            NotUndoableError: it changed nothing, was undone, or is not the newest of its branch.
            WouldExceedWindowError: the conversation would not fit the window, and *force* was not given.
        """
        target = self.find_undoable(compaction_id)
        ids = self._history.current.node_ids
        if target.after_head not in ids:
            raise NotUndoableError(self._record.sid, target.compaction_id)
        later = self._history.current[ids.index(target.after_head) + 1 :]
        before = await self._history.prepare_move(target.before_head)
        restored = before.extended(later)
        if not force:
            self._planner.check_fits(restored)
        async with self._history.transaction():
            await self._history.move_to(before)
            await self._history.append(*later)
            undone = undo(target, self._history.head)
            await self.keep(undone)
        self._events.emit(undone)
        return undone

    def note_backstop(self, made: LiveCompaction) -> None:
        """Note a compaction that the agent has just made in the middle of a run; its branch follows."""
        begun = self._begin(self._record.new_id(), "runtime", "overflow")
        noted = complete_backstop(begun, made, self._history.current.node_at(made.cut))

        async def store() -> None:
            """Store and publish it, now that its branch is stored."""
            done = replace(
                noted,
                after_head=self._history.head,
                post_count=len(self._history.current),
                post_tokens=self._planner.request.used(),
            )
            await self.keep(done)
            self._events.emit(done)

        self._history.note_branch(store)

    def _begin(self, compaction_id: str, engine: str, trigger: Trigger) -> Compaction:
        self._log.begun.add(compaction_id)
        used = self._planner.request.used()
        return begin(compaction_id, engine, trigger, history=self._history.current, pre_tokens=used)

    async def _carry_out(
        self, begun: Compaction, planned: PlannedCompaction
    ) -> CompactionResult | Compaction:
        """Return the result with everything that is kept, or *begun* as it ended without. Changes nothing."""
        summarizer, request = self._planner.summarizer, planned.request
        if isinstance(planned.found, NoOp):
            return replace(begun, status="noop", reason=planned.found.reason)
        # A summary that was prepared knows nothing of the user's wishes for this one.
        if request.instructions:
            self._preparer.cancel()
        prepared = await self._preparer.take(begun.engine)
        if isinstance(prepared, PreparedSummary):
            planned = replace(planned, given=replace(planned.given, prepared=prepared))
        compaction_id = begun.compaction_id
        checked = summarizer.check_answers(
            planned.engine,
            planned.given.history,
            lambda passage: self._events.emit(CompactionSummaryDelta(compaction_id, passage)),
            request.instructions,
        )
        if checked is not None and isinstance(prepared, PreparedSummary):
            checked.dropped += prepared.mended
            checked.statements += prepared.statements
        means = EngineDeps(checked, self._cancel, SUMMARY_DEADLINE_S)
        try:
            if isinstance(prepared, PreparedCompaction) and not request.force:
                ready = await asyncio.to_thread(bring_up_to_date, planned, prepared)
                if ready is not None:
                    return await self._keep(planned, ready)
            outcome = await fold(planned, means)
            if isinstance(outcome, NoOp):
                return replace(begun, status="noop", reason=outcome.reason)
            return await self._keep(planned, outcome if checked is None else checked.report(outcome))
        except CancelledByToken:
            return replace(begun, status="cancelled", reason="cancelled by the user")
        except Exception as error:
            log_fault("a compaction", error)
            return replace(begun, status="failed", error=f"the engine failed ({type(error).__name__})")

    async def _keep(self, planned: PlannedCompaction, result: CompactionResult) -> CompactionResult:
        for step in KEEPING:
            result = await step(planned, result, self._planner.keeping)
        return await count_loss(planned.given.history, result, self._planner.keeping.chronicle)

    async def _commit(
        self, begun: Compaction, given: EngineInput, result: CompactionResult, started_ms: int
    ) -> Compaction:
        """Make the entries of *result* the conversation, and store both it and the record, or neither."""
        share_of = self._planner.request.share_of
        restored = tuple(replace(file, tokens=share_of(file.tokens)) for file in result.restored)
        size = self._planner.request.anchor_now()
        branch = await self._history.prepare_branch(result.entries, size)
        async with self._history.transaction():
            self._preparer.cancel()
            await self._history.replace(branch)
            duration_ms = max(0, self._record.clock_ms() - started_ms)
            done = complete(
                begun,
                given,
                result,
                head=self._history.head,
                post_tokens=self._planner.request.used(),
                duration_ms=duration_ms,
            )
            if result.restored or result.missing:
                self._events.emit(Rehydrated(restored, result.missing))
            await self.keep(done)
        self._rules.propose(result.statements, given.history)
        return done

    async def keep(self, done: Compaction) -> None:
        """Store the record *done*."""
        self._log.add(done)
        await self._history.append_records(to_record("compaction", done))

    def _count_strike(self, done: Compaction) -> None:
        """Count automatic compactions in vain: three in a row pause them but for every fifth occasion."""
        is_vain = done.status in ("failed", "noop") and done.trigger == "auto"
        if done.status == "completed" or is_vain:
            self._breaker = self._breaker.after(called=True, failed=is_vain)
        if is_vain and self._breaker.failures == FAILURES_TO_OPEN:
            text = f"{FAILURES_TO_OPEN} in a row were in vain; the last: {done.error or done.reason}."
            hint = "Every fifth occasion tries again, and /compact does at once."
            self._events.emit(Notice("warning", "Automatic compaction is paused", f"{text} {hint}"))


async def fold(planned: PlannedCompaction, means: EngineDeps) -> CompactionResult | NoOp:
    """Return the result of an engine, and without a note where there is no model or it wrote no usable one.

    Raises:
        CancelledByToken: the token of *means* fired.
    """
    plan = planned.plan
    if means.invoke is None and plan.n_dropped:
        return await weigh_result(planned, await asyncio.to_thread(fold_without_note, planned))
    why = SUMMARY_TOO_LONG
    outcome: CompactionResult | NoOp
    try:
        async with asyncio.timeout(2 * SUMMARY_DEADLINE_S):
            outcome = await planned.engine.compact(planned.given, planned.request, plan, means)
        if isinstance(outcome, CompactionResult):
            outcome = await weigh_result(planned, outcome)
    except TimeoutError:
        outcome, why = WOULD_NOT_SHRINK, "the model took too long"
    except SummaryFailedError as error:
        outcome, why = WOULD_NOT_SHRINK, str(error)
    if isinstance(outcome, CompactionResult) and outcome.summary_source == "localFallback":
        why, outcome = outcome.fallback_reason or why, WOULD_NOT_SHRINK
    if outcome == WOULD_NOT_SHRINK and plan.n_dropped:
        outcome = await weigh_result(planned, await asyncio.to_thread(fold_without_note, planned, why))
    return outcome
