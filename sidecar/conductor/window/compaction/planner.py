"""Judges the conversation of a session for its compactions: gate, plan, preview.

Changes nothing and calls no model. Each answer is about the conversation as it is at the call. A compaction
carries out a plan that was made here, and the one of a preview is kept for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sidecar._internal.cancel import CancelToken
from sidecar.conductor.contract import Gate, NoOp, Plan, RehydrateCandidate
from sidecar.conductor.engine import (
    WOULD_NOT_SHRINK,
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    PlannedCompaction,
    SessionEngine,
    SummaryFailedError,
)
from sidecar.conductor.errors import HeadMovedError, WouldExceedWindowError
from sidecar.conductor.record.branching import without_notes
from sidecar.conductor.record.compactions import describe_plan, with_size
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.token_estimate import estimate_turn_tokens
from sidecar.conductor.window.compaction.chronicling import (
    Keeping,
    fold_without_note,
    keep_chronicle,
    limit_of,
)
from sidecar.conductor.window.compaction.loss import count_loss
from sidecar.conductor.window.compaction.restoring import (
    bring_files_back,
    find_files,
    project_files,
    rank_kept,
    without_restored,
)
from sidecar.conductor.window.compaction.summarizer import Summarizer
from sidecar.conductor.window.compaction.tail import kept_turns
from sidecar.conductor.window.request import NextRequest
from sidecar.conductor.window.session_engines import SessionEngines
from sidecar.conductor.window.weights import entry_tokens
from sidecar.conductor.workbench.files import SessionFiles
from sidecar.conversation import Entry, History

SUMMARY_DEADLINE_S: Final = 120.0
"""How long a model may take for a summary."""

_PLANS_KEPT = 16


class CompactionPlanner:
    """The plans of one session's compactions.

    Attributes:
        request: the next request.
        engines: the engines.
        summarizer: the model that writes summaries.
        files: the files that the model has seen.
        keeping: the chronicle, and the files as they are now.
    """

    def __init__(
        self,
        record: SessionRecord,
        request: NextRequest,
        engines: SessionEngines,
        summarizer: Summarizer,
        keeping: Keeping,
        files: SessionFiles,
    ) -> None:
        self._record = record
        self.request = request
        self.engines = engines
        self.summarizer = summarizer
        self.files = files
        self.keeping = keeping
        self._plans: dict[str, PlannedCompaction] = {}

    async def make(
        self, engine: SessionEngine, request: CompactionRequest, *, in_thread: bool = False
    ) -> PlannedCompaction:
        """Return the plan of a compaction by *engine*.

        Args:
            engine: the engine; with *in_thread* an instance that nothing else uses.
            request: how it is to be done.
            in_thread: whether the engine judges in a thread, though its plans are short.
        """
        card, cached = self.summarizer.card, self.summarizer.cached_request()
        whole = replace(self.request.make_input(), summarizer_card=card, cached=cached)

        def judge(own: SessionEngine) -> PlannedCompaction:
            given = narrow_input(whole, own)
            gate, found = own.gate(given, request), own.plan(given, request)
            if isinstance(found, CompactionPlan):
                found = weigh_plan(
                    self.keeping.chronicle.add_to_plan(found, own, given, limit_of(gate, request)), gate
                )
            return PlannedCompaction(engine, request, given, gate, found)

        own = engine.apart()
        if in_thread or own is not engine:
            return await asyncio.to_thread(judge, own)
        return judge(engine)

    async def preview(self, request: CompactionRequest) -> Plan:
        """Return the effect of a compaction in this session; *request* names its engine."""
        engine = await self.warm_up(request.engine)
        planned = await self.make(engine, request)
        plan = await self.describe(planned, detail=True)
        if plan.noop is not None:
            return plan
        done = await self.compact_locally(planned)
        if isinstance(done, CompactionResult):
            counted = await count_loss(planned.given.history, done, self.keeping.chronicle)
            plan = replace(plan, loss=counted.loss)
        if self.summarizer.writes_note(engine, request.instructions):
            return plan
        if isinstance(done, NoOp):
            return Plan(plan.plan_id, plan.expect_head, engine.name, plan.gate, noop=done)
        done = await bring_files_back(planned, done, self.keeping)
        size = self.request.size_of(await asyncio.to_thread(sum, map(entry_tokens, done.entries)))
        return with_size(plan, size, size, size)

    async def compact_locally(self, planned: PlannedCompaction) -> CompactionResult | NoOp:
        """Return the result of a compaction without a model, with its chronicle."""
        if planned.plan.n_dropped:
            done = await weigh_result(planned, await asyncio.to_thread(fold_without_note, planned))
            return done if isinstance(done, NoOp) else await keep_chronicle(planned, done, self.keeping)
        deps = EngineDeps(None, CancelToken(), SUMMARY_DEADLINE_S)
        try:
            done = await planned.engine.compact(planned.given, planned.request, planned.plan, deps)
        except SummaryFailedError as error:
            return NoOp(str(error))
        return await weigh_result(planned, done) if isinstance(done, CompactionResult) else done

    async def compare(self, request: CompactionRequest, engine: SessionEngine, *, detail: bool) -> Plan:
        """Return the effect of a compaction if *engine*, an instance of its own, were the session's."""
        planned = await self.make(engine, request, in_thread=True)
        plan = await self.describe(planned, detail=detail)
        await asyncio.to_thread(vars(engine).clear)
        return plan

    async def write_prompt(self, request: CompactionRequest, engine: SessionEngine, before: History) -> str:
        """Return the prompt for a summary of *before*, empty for none; *engine* is an instance of its own."""
        given = narrow_input(replace(self.request.make_input(), history=before, context_tokens=0), engine)
        found = await asyncio.to_thread(engine.plan, given, request)
        prompt = await asyncio.to_thread(found.prompt) if isinstance(found, CompactionPlan) else None
        return prompt or ""

    async def describe(self, planned: PlannedCompaction, *, detail: bool) -> Plan:
        """Return *planned* as clients see it, and keep it for the compaction that carries it out.

        The files that would come back are read as they are now: only their texts decide how many of them fit.
        """
        given, found = planned.given, planned.found
        plan_id = self._record.new_id()
        self._plans[plan_id] = planned
        while len(self._plans) > _PLANS_KEPT:
            self._plans.pop(next(iter(self._plans)))
        plan = Plan(plan_id, given.history.head, planned.engine.name, planned.gate)
        if isinstance(found, NoOp):
            return replace(plan, noop=found)
        uses = await asyncio.to_thread(rank_kept, given, found)
        restored, fresh = await find_files(given, planned.gate, found, uses, self.files.look)
        projected, weights = await asyncio.to_thread(project_files, planned, restored, fresh)
        kept = await asyncio.to_thread(
            lambda: sum(map(estimate_turn_tokens, kept_turns(found, given.history)))
        )
        measured = self.request.measure_plan(projected, kept, given.overhead_tokens)
        described = await asyncio.to_thread(describe_plan, plan, measured, given.history, detail=detail)
        files = tuple(
            RehydrateCandidate(
                fresh[path].uri, self.request.share_of(tokens), stale=self.files.is_stale(path)
            )
            for path, tokens in weights.items()
        )
        return replace(described, rehydrate=files)

    def find_planned(self, plan_id: str) -> PlannedCompaction:
        """Return the plan of an earlier preview. Raises HeadMovedError when the conversation moved on."""
        planned = self._plans.get(plan_id)
        if planned is None or planned.given.history.head != self._record.history.head:
            head = None if planned is None else planned.given.history.head
            raise HeadMovedError(self._record.sid, head or f"plan {plan_id}", self._record.history.head)
        return planned

    async def plan_for(self, request: CompactionRequest) -> PlannedCompaction:
        """Return the plan that a compaction carries out: that of its preview, where this still holds."""
        made = await self.warm_up(request.engine)
        planned = None if request.plan_id is None else self._plans.get(request.plan_id)
        if planned is not None and planned.given.history.head == self._record.history.head:
            return planned
        return await self.make(made, request)

    async def nothing_to_do(self, request: CompactionRequest) -> NoOp | None:
        """Return why a compaction would do nothing, None when it would do something."""
        planned = await self.plan_for(request)
        return planned.found if isinstance(planned.found, NoOp) else None

    async def warm_up(self, engine: str) -> SessionEngine:
        """Return *engine*, which takes in the conversation in a thread, so that the loop need not wait."""
        await self.engines.warm_up(engine, self.request.make_input())
        return self.engines.get(engine)

    def check_fits(self, history: History) -> None:
        """Raise WouldExceedWindowError unless the window holds *history*, once a compaction is taken back."""
        tokens, window = self.request.size_with(history), self._record.window
        if window and tokens > window:
            raise WouldExceedWindowError(self._record.sid, tokens, window)


def narrow_input(given: EngineInput, engine: SessionEngine) -> EngineInput:
    """Return *given* as *engine* is to compact it: without notes, which a compaction drops.

    Restored files are left out for an engine that cannot tell them from words of the user.
    """
    history = without_notes(given.history)
    return replace(given, history=history if engine.marks.files else without_restored(history))


def weigh_plan(found: CompactionPlan, gate: Gate) -> CompactionPlan | NoOp:
    """Return *found*, or that it saves nothing even with the shortest summary.

    Where only a long one would save nothing, the compaction may end without a change, and then the request
    stays as large as *gate* says.
    """
    if found.low_tokens >= found.pre_tokens:
        return WOULD_NOT_SHRINK
    if found.high_tokens < found.pre_tokens:
        return found
    high = max(found.pre_tokens, gate.tokens)
    return replace(found, projected_tokens=min(high, found.projected_tokens), high_tokens=high)


async def weigh_result(planned: PlannedCompaction, done: CompactionResult) -> CompactionResult | NoOp:
    """Return *done*, or that it saves nothing.

    The new conversation is weighed by the engine and by the session's meter: a summary that one takes for
    short may be long for the other.
    """
    engine, given = planned.engine, planned.given

    def saves() -> bool:
        weight = max(done.post_tokens, given.overhead_tokens + engine.weigh(done.entries))
        return weight < done.pre_tokens and is_lighter(done.entries, given.history)

    return done if await asyncio.to_thread(saves) else WOULD_NOT_SHRINK


def is_lighter(entries: Sequence[Entry], history: History) -> bool:
    """Return whether *entries* take fewer tokens than *history* by the session's meter.

    An entry may be in both, as it was or cut down. Costs the new entries, and the oldest of the gone ones
    until they outweigh them.
    """
    shown = {entry.node_id: entry for entry in entries if entry.node_id}
    balance = sum(entry_tokens(entry) for entry in entries if not entry.node_id)
    for before in history:
        if balance < 0:
            break
        now = shown.get(before.node_id)
        if now is None or now.turn is not before.turn:
            balance += (0 if now is None else entry_tokens(now)) - entry_tokens(before)
    return balance < 0
