"""Runs the compactions of a session: gate, plan, compact, commit or refuse, undo.

An engine returns a view of the conversation and changes nothing. The compactor commits the view as a
branch, or keeps the result as a record, in one transaction with that record: after a crash both are there
or neither, and a failed compaction leaves everything as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar._internal.errors import log_fault
from sidecar.conductor.checked_model import CheckedModel
from sidecar.conductor.compaction_records import (
    Trigger,
    as_standing,
    begin,
    changed_only_the_view,
    complete,
    complete_backstop,
    describe_plan,
    undo,
)
from sidecar.conductor.contract import Compaction, Gate, NoOp, Plan
from sidecar.conductor.deps import CompactorDeps
from sidecar.conductor.engines.contract import (
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    FreshFile,
    SummaryFailedError,
    View,
    fit_prompt,
)
from sidecar.conductor.errors import (
    CompactionNotFound,
    HeadMovedError,
    NotUndoableError,
    WouldExceedWindowError,
)
from sidecar.conductor.events import Notice, Rehydrated
from sidecar.conductor.history import HistoryWriter
from sidecar.conductor.records import from_record, to_record
from sidecar.conductor.session_events import SessionEvents
from sidecar.conversation import History
from sidecar.runtime.memory import LiveCompaction

_STRIKES = 3
_OVERFLOW_SHARE = 0.5
"""How much is kept of a conversation that did not fit: a provider rarely says by how much it was over."""
_PLANS_KEPT = 16
_NOT_SHOWN = NoOp("this engine shortens only what is sent in sessions whose engine it is; choose it first")


class Compactor:
    """The compactions of one session."""

    def __init__(self, sid: str, history: HistoryWriter, events: SessionEvents, deps: CompactorDeps) -> None:
        self._sid = sid
        self._history = history
        self._events = events
        self._deps = deps
        self._cancel = CancelToken()
        self._running: Compaction | None = None
        self._auto_strikes = 0
        self._vain_turn_id: str | None = None
        self._backstop: Compaction | None = None
        self._plans: dict[str, tuple[str | None, CompactionRequest]] = {}
        self._done: dict[str, Compaction] = {}

    @property
    def compactions(self) -> tuple[Compaction, ...]:
        """Every compaction so far, oldest first, the running one last."""
        return (*self._done.values(), *([self._running] if self._running is not None else []))

    @property
    def has_folded(self) -> bool:
        """Whether a compaction ever put something out of view."""
        return any(done.status == "completed" for done in self._done.values())

    @property
    def running_id(self) -> str | None:
        """The compaction that runs now, None for none."""
        return self._running.compaction_id if self._running is not None else None

    def load(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Take over the ``compaction`` records of the store; the newest record of one stands."""
        for record in records:
            if (compaction := from_record(Compaction, record)) is not None:
                self._done[compaction.compaction_id] = compaction

    def find(self, compaction_id: str | None) -> Compaction:
        """Return a compaction, the newest that can be undone for None. Raises CompactionNotFound."""
        if compaction_id is not None:
            found = [each for each in self.compactions if each.compaction_id == compaction_id]
        else:
            found = [each for each in self.compactions if each.undoable]
        if not found:
            raise CompactionNotFound(self._sid, compaction_id)
        return found[-1]

    def gate(self, engine: str, request: CompactionRequest) -> Gate:
        """Return whether the next request is over the engine's limit."""
        return self._deps.engine(engine).gate(self._engine_input(engine), request)

    def view(self, engine: str, request: CompactionRequest) -> View:
        """Return the view of the conversation that the model is sent, with a newest prompt that fits."""
        host, given = self._deps.engine(engine), self._engine_input(engine)
        view = host.view(given, request)
        is_unfitted = view.is_whole and host.compacts
        return fit_prompt(given.history, host.gate(given, request)) if is_unfitted else view

    async def preview(self, request: CompactionRequest) -> Plan:
        """Return the effect of a compaction in this session; *request* names its engine."""
        plan, engine = await self.plan(request), request.engine or ""
        refusal = self._refusal(engine)
        return (
            plan if refusal is None else Plan(plan.plan_id, plan.expect_head, engine, plan.gate, noop=refusal)
        )

    async def plan(self, request: CompactionRequest) -> Plan:
        """Return the effect of a compaction in a session of the engine that *request* names.

        The files that would come back are read as they are now: only their texts decide how many of them fit.
        """
        engine = request.engine or ""
        given = replace(self._engine_input(engine), summarizer_card=self._deps.summarizer()[1])
        host = self._deps.engine(engine)
        plan_id = self._deps.new_id()
        self._plans[plan_id] = (given.history.head, request)
        while len(self._plans) > _PLANS_KEPT:
            self._plans.pop(next(iter(self._plans)))
        plan = Plan(plan_id, given.history.head, host.name, host.gate(given, request))
        found, fresh = host.plan(given, request), dict[str, FreshFile]()
        if isinstance(found, CompactionPlan) and found.rehydrate:
            fresh.update(await self._deps.fresh([file.uri for file in found.rehydrate]))
            found = host.plan(given, request, fresh)
        if isinstance(found, NoOp):
            return replace(plan, noop=found)
        files = tuple(
            replace(file, uri=fresh[file.uri].uri, stale=self._deps.is_stale(file.uri))
            for file in found.rehydrate
        )
        return describe_plan(plan, replace(found, rehydrate=files), given.history)

    def find_planned(self, plan_id: str) -> CompactionRequest:
        """Return the request of an earlier preview. Raises HeadMovedError when the conversation moved on."""
        head, request = self._plans.get(plan_id, ("", None))
        if request is None or head != self._history.head:
            raise HeadMovedError(self._sid, head or f"plan {plan_id}", self._history.head)
        return request

    def cancel(self, compaction_id: str | None = None) -> bool:
        """Stop the running compaction; False when it is another one, or none runs."""
        if self._running is None or compaction_id not in (None, self.running_id):
            return False
        self._cancel.cancel("cancelled by the user")
        return True

    async def compact_if_over_limit(self, engine: str, request: CompactionRequest) -> bool:
        """Compact when the gate says so; True when the conversation changed. Never raises for a failure."""
        if self._auto_strikes >= _STRIKES or not self.gate(engine, request).over:
            return False
        done = await self.run(self._deps.new_id(), engine, request, "auto")
        return done.status == "completed"

    async def compact_between_calls(self, engine: str, request: CompactionRequest) -> None:
        """Compact as :meth:`compact_if_over_limit` between the model calls of a turn.

        One compaction in vain is enough for one turn.
        """
        turn_id, host = self._events.turn_id, self._deps.engine(engine)
        may = host.compacts and host.commits_view and turn_id != self._vain_turn_id
        if not may or not self.gate(engine, request).over:
            return
        is_vain = self.nothing_to_do(engine, request) is not None
        is_done = not is_vain and await self.compact_if_over_limit(engine, request)
        self._vain_turn_id = None if is_done else turn_id

    async def compact_after_overflow(self, engine: str, request: CompactionRequest) -> bool:
        """Compact after the provider refused the size of the conversation, even below the gate's limit.

        The engine's limit is put below its present count, so that its gate is over.

        Returns:
            Whether the conversation changed. Never raises for a failure.
        """
        gate = self.gate(engine, request)
        policy = dict(request.policy)
        if gate.window and gate.tokens:
            policy["triggerRatio"] = min(gate.limit, gate.tokens * _OVERFLOW_SHARE) / gate.window
        forced = replace(request, force=True, policy=policy)
        done = await self.run(self._deps.new_id(), engine, forced, "overflow")
        return done.status == "completed"

    def nothing_to_do(self, engine: str, request: CompactionRequest) -> NoOp | None:
        """Return why a compaction would do nothing, None when it would do something."""
        found = self._refusal(engine) or self._deps.engine(engine).plan(self._engine_input(engine), request)
        return found if isinstance(found, NoOp) else None

    def decline(self, compaction_id: str, engine: str, noop: NoOp | None) -> Compaction:
        """Publish a compaction that never ran: as a no-op with its reason, or as cancelled."""
        begun = self._begin(compaction_id, engine, "manual", self._engine_input(engine))
        done = replace(begun, status="cancelled", reason="cancelled before it began")
        if noop is not None:
            done = replace(begun, status="noop", reason=noop.reason)
        self._events.emit(done)
        return done

    async def run(
        self, compaction_id: str, engine: str, request: CompactionRequest, trigger: Trigger
    ) -> Compaction:
        """Compact; publish and store the outcome."""
        started_ms = self._deps.clock_ms()
        given = self._engine_input(engine)
        begun = self._running = self._begin(compaction_id, engine, trigger, given)
        self._cancel = CancelToken()
        phase_before = self._events.phase
        self._events.emit(begun)
        self._events.set_phase("compacting")
        try:
            outcome = await self._compact(begun, given, request)
            if isinstance(outcome, CompactionResult):
                outcome = await self._commit(begun, given, outcome, started_ms)
        except asyncio.CancelledError:
            # The turn in the middle of which it ran was stopped.
            self._running = None
            self._events.emit(replace(begun, status="cancelled", reason="cancelled by the user"))
            raise
        finally:
            self._running = None
            self._events.set_phase(phase_before)
        if outcome.duration_ms is None:
            outcome = replace(outcome, duration_ms=max(0, self._deps.clock_ms() - started_ms))
        self._events.emit(outcome)
        self._count_strike(outcome)
        return outcome

    async def undo(self, compaction_id: str | None, *, force: bool) -> Compaction:
        """Go back to the conversation before a compaction, with all turns since.

        Raises:
            CompactionNotFound: there is no such compaction, or it cannot be undone.
            NotUndoableError: it is not the newest of its branch.
            WouldExceedWindowError: the conversation would not fit the window, and *force* was not given.
        """
        target = self.find(compaction_id)
        if not target.undoable or target.before_head is None:
            raise CompactionNotFound(self._sid, compaction_id)
        if changed_only_the_view(target):
            return await self._undo_in_view(target, force=force)
        ids = self._history.current.node_ids
        if target.after_head not in ids:
            raise NotUndoableError(self._sid, target.compaction_id)
        later = self._history.current[ids.index(target.after_head) + 1 :]
        restored = self._history.history_at(target.before_head).extended(later)
        gate = self._check_fits(target, restored, force=force)
        async with self._history.transaction():
            await self._history.move_head(target.before_head)
            await self._history.append(*later)
            undone = undo(target, gate, len(restored), self._history.head)
            await self._keep(undone)
        self._events.emit(undone)
        return undone

    async def _undo_in_view(self, target: Compaction, *, force: bool) -> Compaction:
        """Show the entries again that a record took out of the view; it must be the newest that stands."""
        standing = list(self._standing_records(target.engine))
        if standing[:1] != [target]:
            raise NotUndoableError(self._sid, target.compaction_id)
        history = self._history.current
        earlier = standing[1] if standing[1:] else None
        gate = self._check_fits(target, history, force=force, standing=earlier)
        undone = undo(target, gate, len(history), history.head)
        await self._keep(undone)
        self._events.emit(undone)
        return undone

    def begin_backstop(self, done: LiveCompaction) -> None:
        """Note a compaction that the agent has just made in the middle of a run; its branch follows."""
        given = self._deps.engine_input()
        begun = self._begin(self._deps.new_id(), "runtime", "overflow", given)
        self._backstop = complete_backstop(begun, done, given.history.node_at(done.cut))

    async def end_backstop(self) -> None:
        """Publish and store the noted compaction, now that its branch is stored."""
        if self._backstop is not None:
            n_entries = len(self._history.current)
            done = replace(self._backstop, after_head=self._history.head, post_count=n_entries)
            self._backstop = None
            await self._keep(done)
            self._events.emit(done)

    def _refusal(self, engine: str) -> NoOp | None:
        """Return why *engine* cannot compact in this session, None when it can."""
        host = self._deps.engine(engine)
        is_foreign = host.compacts and not host.commits_view and engine != self._deps.own_engine()
        return _NOT_SHOWN if is_foreign else None

    def _check_fits(
        self, target: Compaction, history: History, *, force: bool, standing: Compaction | None = None
    ) -> Gate:
        """Return the weight of *history* once *target* is taken back. Raises WouldExceedWindowError."""
        given = replace(
            self._deps.engine_input(),
            history=history,
            context_tokens=0,
            standing=None if standing is None else as_standing(standing),
        )
        gate = self._deps.engine(target.engine).gate(given, CompactionRequest(force=False))
        if gate.window and gate.tokens > gate.window and not force:
            raise WouldExceedWindowError(self._sid, gate.tokens, gate.window)
        return gate

    def _engine_input(self, engine: str) -> EngineInput:
        """Return the conversation as *engine* is to judge it, with the record that its view rests on."""
        newest = next(self._standing_records(engine), None)
        return replace(
            self._deps.engine_input(), standing=as_standing(newest) if newest is not None else None
        )

    def _standing_records(self, engine: str) -> Iterator[Compaction]:
        """Yield the records of *engine* that changed only the view and still hold, the newest first.

        A node stands at the same place of every path through it. So the node at the cut shows
        whether the summary still stands for the entries before it.
        """
        for done in reversed(self._done.values()):
            is_made = done.status == "completed" and done.engine == engine and changed_only_the_view(done)
            is_here = done.kept_from is not None and done.kept_from == self._history.current.node_at(done.cut)
            if is_made and is_here:
                yield done

    def _begin(self, compaction_id: str, engine: str, trigger: Trigger, given: EngineInput) -> Compaction:
        gate = self._deps.engine(engine).gate(given, CompactionRequest(force=False))
        return begin(compaction_id, engine, trigger, given=given, pre_tokens=gate.tokens)

    async def _compact(
        self, begun: Compaction, given: EngineInput, request: CompactionRequest
    ) -> CompactionResult | Compaction:
        """Return the engine's result, or *begun* as it ended without one. Changes nothing."""
        deps = self._deps
        invoke, card = deps.summarizer()
        given, engine = replace(given, summarizer_card=card), deps.engine(begun.engine)
        checked = None if invoke is None else CheckedModel.of(invoke, engine, given.history)
        try:
            async with asyncio.timeout(2 * deps.deadline_s):
                outcome = await engine.compact(
                    given, request, EngineDeps(checked, deps.fresh, self._cancel, deps.deadline_s)
                )
        except CancelledByToken:
            return replace(begun, status="cancelled", reason="cancelled by the user")
        except TimeoutError:
            return replace(begun, status="failed", error="the summary took too long")
        except SummaryFailedError as error:
            return replace(begun, status="failed", error=str(error))
        except Exception as error:
            log_fault("a compaction", error)
            return replace(begun, status="failed", error=f"the engine failed ({type(error).__name__})")
        if isinstance(outcome, NoOp):
            return replace(begun, status="noop", reason=outcome.reason)
        return checked.report(outcome) if checked is not None else outcome

    async def _commit(
        self, begun: Compaction, given: EngineInput, result: CompactionResult, started_ms: int
    ) -> Compaction:
        """Make the view of *result* the conversation, or only its record; store both or neither."""
        async with self._history.transaction():
            if self._deps.engine(begun.engine).commits_view:
                await self._history.replace(result.view.entries)
            duration_ms = max(0, self._deps.clock_ms() - started_ms)
            done = complete(begun, given, result, head=self._history.head, duration_ms=duration_ms)
            if result.restored or result.missing:
                self._events.emit(Rehydrated(result.restored, result.missing))
            await self._keep(done)
        return done

    async def _keep(self, done: Compaction) -> None:
        self._done[done.compaction_id] = done
        await self._history.append_records(to_record("compaction", done))

    def _count_strike(self, done: Compaction) -> None:
        """Three failures in a row end automatic compaction until one by hand succeeds."""
        if done.status == "completed":
            self._auto_strikes = 0
        elif done.status == "failed" and done.trigger == "auto":
            self._auto_strikes += 1
            if self._auto_strikes == _STRIKES:
                text = (
                    f"{_STRIKES} compactions in a row failed; the last: {done.error}. /compact tries again."
                )
                self._events.emit(Notice("warning", "Automatic compaction is off", text))
