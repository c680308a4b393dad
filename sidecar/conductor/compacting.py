"""Runs the compactions of a session: gate, plan, condense, accept or refuse, store, undo.

The engine says what the shorter conversation is; this room makes it the conversation, atomically: the new
branch is on disk before the head moves, and whatever fails leaves everything as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar._internal.errors import log_fault
from sidecar.conductor.compaction_records import (
    Trigger,
    as_standing,
    backstopped,
    begin,
    completed,
    is_shown_only,
    timed,
    undone,
)
from sidecar.conductor.contract import Compaction, Cut, Dropped, Gate, Kept, NoOp, Plan, Projected
from sidecar.conductor.deps import CompactorDeps
from sidecar.conductor.engines.base import (
    CompactAsk,
    Condensed,
    EngineDeps,
    EngineInput,
    EnginePlan,
    SessionEngine,
    SummaryFailed,
    View,
)
from sidecar.conductor.errors import (
    CompactionNotFound,
    HeadMovedError,
    NotUndoableError,
    WouldExceedWindowError,
)
from sidecar.conductor.events import Notice, Rehydrated
from sidecar.conductor.history import History
from sidecar.conductor.records import from_record, to_record
from sidecar.conductor.session_events import SessionEvents
from sidecar.llmgateway.contract import Turn
from sidecar.runtime.contract import NO_COMPACTION, CompactionPolicy
from sidecar.runtime.memory import LiveCompaction

__all__ = ["Compactor", "backstop_of"]

_STRIKES = 3
_OVERFLOW_SHARE = 0.5
"""How much is kept of a conversation that did not fit: a provider rarely says by how much it was over."""
_PLANS_KEPT = 16
_LAST_RESORT = CompactionPolicy(trigger_ratio=0.95, keep_recent=8)
_NOT_SHOWN = NoOp("this engine shortens only what is sent in sessions whose engine it is; choose it first")


def backstop_of(engine: SessionEngine) -> CompactionPolicy:
    """Return when the agent condenses by itself: where *engine*, which is asked before, has made no room.

    Never where the engine keeps what is sent within the window, or wants no compaction at all.
    """
    return _LAST_RESORT if engine.compacts and not engine.shows_view else NO_COMPACTION


class Compactor:
    """The compactions of one session."""

    def __init__(self, sid: str, history: History, events: SessionEvents, deps: CompactorDeps) -> None:
        self._sid = sid
        self._history = history
        self._events = events
        self._deps = deps
        self._cancel: CancelToken | None = None
        self._running: str | None = None
        self._auto_strikes = 0
        self._vain_turn_id: str | None = None
        self._backstop: Compaction | None = None
        self._plans: dict[str, tuple[str | None, str, CompactAsk]] = {}
        self._done: dict[str, Compaction] = {}

    @property
    def compactions(self) -> tuple[Compaction, ...]:
        """Every compaction so far, oldest first."""
        return tuple(self._done.values())

    def load(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Take over the ``compaction`` records of the store; the newest record of one stands."""
        for record in records:
            if (compaction := from_record(Compaction, record)) is not None:
                self._done[compaction.compaction_id] = compaction

    def find(self, compaction_id: str | None) -> Compaction:
        """Return a compaction, the newest that can be undone when *compaction_id* is None."""
        if compaction_id is not None and compaction_id in self._done:
            return self._done[compaction_id]
        undoable = [done for done in self._done.values() if done.undoable]
        if compaction_id is None and undoable:
            return undoable[-1]
        raise CompactionNotFound(self._sid, compaction_id)

    def gate(self, engine: str, ask: CompactAsk) -> Gate:
        """Say whether the next request is over the engine's limit."""
        return self._deps.engine(engine).gate(self._engine_input(engine), ask)

    def view(self, engine: str, ask: CompactAsk) -> View:
        """Say what of the conversation the model is sent."""
        return self._deps.engine(engine).view(self._engine_input(engine), ask)

    def preview(self, engine: str, ask: CompactAsk) -> Plan:
        """Say what a compaction would do."""
        given = self._engine_input(engine)
        host = self._deps.engine(engine)
        gate = host.gate(given, ask)
        outcome = host.plan(given, ask)
        plan_id = self._deps.new_id()
        self._plans[plan_id] = (self._history.head, engine, ask)
        while len(self._plans) > _PLANS_KEPT:
            self._plans.pop(next(iter(self._plans)))
        plan = Plan(plan_id, self._history.head, host.name, gate)
        if isinstance(outcome, NoOp):
            return replace(plan, noop=outcome)
        return self._describe(plan, outcome, len(given.turns))

    def planned(self, plan_id: str) -> tuple[str, CompactAsk]:
        """Return engine and ask of an earlier preview. Raises HeadMovedError when it moved on."""
        head, engine, ask = self._plans.get(plan_id, ("", "", None))
        if ask is None or head != self._history.head:
            raise HeadMovedError(self._sid, head or f"plan {plan_id}", self._history.head)
        return engine, ask

    def cancel(self, compaction_id: str | None = None) -> bool:
        """Stop the running compaction; False when it is another one, or none runs."""
        if self._running is None or compaction_id not in (None, self._running) or self._cancel is None:
            return False
        self._cancel.cancel("cancelled by the user")
        return True

    async def compact_if_over_limit(self, engine: str, ask: CompactAsk) -> bool:
        """Compact when the gate says so; True when the conversation changed. Never raises for a failure."""
        if self._auto_strikes >= _STRIKES or not self.gate(engine, ask).over:
            return False
        done = await self.run(self._deps.new_id(), engine, ask, "auto")
        return done.status == "completed"

    async def compact_between_calls(self, engine: str, ask: CompactAsk) -> Sequence[Turn] | None:
        """Compact between two model calls of a turn and return the shorter conversation.

        Returns:
            None where it stays as it is. Once in vain is enough for one turn.
        """
        turn_id, host = self._events.turn_id, self._deps.engine(engine)
        may = host.compacts and not host.shows_view and turn_id != self._vain_turn_id
        if not may or not self.gate(engine, ask).over:
            return None
        is_done = self.nothing_to_do(engine, ask) is None and await self.compact_if_over_limit(engine, ask)
        self._vain_turn_id = None if is_done else turn_id
        return self._history.turns if is_done else None

    async def compact_after_overflow(self, engine: str, ask: CompactAsk) -> bool:
        """Compact because the provider says that the conversation does not fit, whatever the gate says.

        The engine is told that it is over: its limit is put below what it counts now.

        Returns:
            Whether the conversation changed. Never raises for a failure.
        """
        gate = self.gate(engine, ask)
        policy = dict(ask.policy)
        if gate.window and gate.tokens:
            policy["triggerRatio"] = min(gate.limit, gate.tokens * _OVERFLOW_SHARE) / gate.window
        forced = replace(ask, force=True, policy=policy)
        done = await self.run(self._deps.new_id(), engine, forced, "overflow")
        return done.status == "completed"

    def nothing_to_do(self, engine: str, ask: CompactAsk) -> NoOp | None:
        """Return why a compaction would do nothing, None when it would do something."""
        host = self._deps.engine(engine)
        if host.compacts and host.shows_view and engine != self._deps.own_engine():
            return _NOT_SHOWN
        outcome = host.plan(self._engine_input(engine), ask)
        return outcome if isinstance(outcome, NoOp) else None

    def decline(self, compaction_id: str, engine: str, noop: NoOp | None) -> Compaction:
        """Tell a compaction that never ran: as a no-op with its reason, or as cancelled."""
        begun = self._begin(compaction_id, engine, "manual", self._deps.engine_input())
        done = replace(begun, status="cancelled", reason="cancelled before it began")
        if noop is not None:
            done = replace(begun, status="noop", reason=noop.reason)
        self._events.emit(done)
        return done

    async def run(self, compaction_id: str, engine: str, ask: CompactAsk, trigger: Trigger) -> Compaction:
        """Compact, and tell and store how it went."""
        started_ms = self._deps.clock_ms()
        self._running, self._cancel = compaction_id, CancelToken()
        given = self._engine_input(engine)
        begun = self._begin(compaction_id, engine, trigger, given)
        before = self._events.phase
        self._events.emit(begun)
        self._events.set_phase("compacting")
        try:
            outcome = await self._condense(begun, given, ask)
            done = await self._settle(begun, given, outcome, started_ms)
        except asyncio.CancelledError:
            # The turn in the middle of which it ran was stopped.
            self._events.emit(replace(begun, status="cancelled", reason="cancelled by the user"))
            raise
        finally:
            self._running = self._cancel = None
            self._events.set_phase(before)
        self._events.emit(done)
        self._count_strike(done)
        return done

    async def undo(self, compaction_id: str | None, *, force: bool) -> Compaction:
        """Go back to the conversation before a compaction, with all that was said since."""
        target = self.find(compaction_id)
        if not target.undoable or target.before_head is None:
            raise CompactionNotFound(self._sid, compaction_id)
        if is_shown_only(target):
            return await self._undo_in_view(target, force=force)
        later = self._since(target)
        turns = [*self._history.turns_at(target.before_head), *later]
        given = replace(self._deps.engine_input(), turns=turns, context_tokens=0)
        gate = self._fitting(target, given, force=force)
        async with self._history.transaction():
            await self._history.move_head(target.before_head)
            await self._history.record(later)
            done = undone(target, gate, len(turns), self._history.head)
            await self._keep(done)
        self._deps.reseat(self._history.turns)
        self._events.emit(done)
        return done

    async def _undo_in_view(self, target: Compaction, *, force: bool) -> Compaction:
        """Show again what a compaction had taken out of the view; it must be the newest that stands."""
        standing = list(self._standing(target.engine))
        if standing[:1] != [target]:
            raise NotUndoableError(self._sid, target.compaction_id)
        earlier = as_standing(standing[1]) if standing[1:] else None
        given = replace(self._engine_input(target.engine), standing=earlier)
        gate = self._fitting(target, given, force=force)
        done = undone(target, gate, len(given.turns), self._history.head)
        await self._keep(done)
        self._events.emit(done)
        return done

    def begin_backstop(self, done: LiveCompaction) -> None:
        """Note a compaction that the agent has just made in the middle of a run; its branch follows."""
        begun = self._begin(self._deps.new_id(), "runtime", "overflow", self._deps.engine_input())
        self._backstop = backstopped(begun, done, self._node_at(done.cut))

    async def end_backstop(self) -> None:
        """Tell and store the noted compaction, now that its branch is stored."""
        if self._backstop is not None:
            n_turns = len(self._history.turns)
            done = replace(self._backstop, after_head=self._history.head, post_count=n_turns)
            self._backstop = None
            await self._keep(done)
            self._events.emit(done)

    def _since(self, target: Compaction) -> Sequence[Turn]:
        """Return the turns that came after *target*, which must be the newest on this branch."""
        ids = list(self._history.node_ids)
        if target.after_head not in ids:
            raise NotUndoableError(self._sid, target.compaction_id)
        return tuple(self._history.turns[ids.index(target.after_head) + 1 :])

    def _fitting(self, target: Compaction, given: EngineInput, *, force: bool) -> Gate:
        gate = self._deps.engine(target.engine).gate(given, CompactAsk(force=False))
        if gate.window and gate.tokens > gate.window and not force:
            raise WouldExceedWindowError(self._sid, gate.tokens, gate.window)
        return gate

    def _engine_input(self, engine: str) -> EngineInput:
        """Return the conversation as *engine* is to judge it, with what it has made of it in the view."""
        newest = next(self._standing(engine), None)
        return replace(
            self._deps.engine_input(), standing=as_standing(newest) if newest is not None else None
        )

    def _standing(self, engine: str) -> Iterator[Compaction]:
        """Yield the compactions of *engine* that only the view shows and that still hold, the newest first.

        A node stands at the same place of every path through it: so the node at the cut says whether the
        turns before it are still those that the summary stands for.
        """
        for done in reversed(self._done.values()):
            is_made = done.status == "completed" and done.engine == engine and is_shown_only(done)
            if is_made and done.kept_from is not None and done.kept_from == self._node_at(done.cut):
                yield done

    def _begin(self, compaction_id: str, engine: str, trigger: Trigger, given: EngineInput) -> Compaction:
        return begin(compaction_id, engine, trigger, given, self._history.head)

    async def _condense(
        self, begun: Compaction, given: EngineInput, ask: CompactAsk
    ) -> Condensed | Compaction:
        """Return what the engine made of the conversation, or *begun* as it ended. Changes nothing."""
        host = self._deps.engine(begun.engine)
        try:
            async with asyncio.timeout(2 * self._deps.deadline_s):
                outcome = await host.condense(given, ask, self._engine_deps())
        except CancelledByToken:
            return replace(begun, status="cancelled", reason="cancelled by the user")
        except TimeoutError:
            return replace(begun, status="failed", error="the summary took too long")
        except SummaryFailed as error:
            return replace(begun, status="failed", error=str(error))
        except Exception as error:
            log_fault("a compaction", error)
            return replace(begun, status="failed", error=f"the engine failed ({type(error).__name__})")
        if isinstance(outcome, NoOp):
            return replace(begun, status="noop", reason=outcome.reason)
        return outcome

    async def _settle(
        self, begun: Compaction, given: EngineInput, outcome: Condensed | Compaction, started_ms: int
    ) -> Compaction:
        """Make *outcome* the conversation and store it with its record, both or neither."""
        async with self._history.transaction():
            done = outcome if isinstance(outcome, Compaction) else await self._accept(begun, given, outcome)
            done = timed(done, max(0, self._deps.clock_ms() - started_ms))
            await self._keep(done)
        return done

    def _engine_deps(self) -> EngineDeps:
        deps = self._deps
        cancel = self._cancel or CancelToken()
        invoke, card = deps.summarizer()
        return EngineDeps(invoke, card, deps.fresh, cancel, deps.deadline_s)

    async def _accept(self, begun: Compaction, given: EngineInput, outcome: Condensed) -> Compaction:
        """Make *outcome* the conversation, of the agent too, or only what is sent."""
        kept_from = self._node_at(outcome.cut)
        if not outcome.keeps_history:
            await self._history.replace(outcome.turns)
            self._deps.reseat(self._history.turns)
        self._deps.restored([file.uri for file in outcome.restored], begun.compaction_id)
        if outcome.restored or outcome.missing:
            self._events.emit(Rehydrated(outcome.restored, outcome.missing))
        return completed(begun, given, outcome, kept_from, self._history.head)

    async def _keep(self, done: Compaction) -> None:
        if done.status in ("completed", "undone"):
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

    def _describe(self, plan: Plan, found: EnginePlan, n_turns: int) -> Plan:
        ids = tuple(self._history.node_ids[found.first : found.cut])
        window = plan.gate.window
        pct = round(100 * found.projected_tokens / window, 1) if window else 0.0
        return replace(
            plan,
            cut=Cut(self._node_at(found.cut), found.cut),
            dropped=Dropped(found.cut - found.first, found.dropped_tokens, ids),
            kept=Kept(n_turns - found.cut, found.kept_tokens),
            microcompact=found.microcompact,
            rehydrate=tuple(replace(each, uri=self._deps.uri_of(each.uri)) for each in found.rehydrate),
            projected=Projected(found.projected_tokens, pct),
            prompt=found.prompt,
        )

    def _node_at(self, index: int) -> str | None:
        ids = self._history.node_ids
        return ids[index] if index < len(ids) else None
