"""Judges the conversation of a session for its compactions: gate, view, plan, preview.

Changes nothing and calls no model. Each answer is about the conversation as it is at the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sidecar._internal.cancel import CancelToken
from sidecar._internal.run_work import RunWork, run_now
from sidecar.capabilities.recall import RECALL
from sidecar.conductor.contract import Compaction, Gate, NoOp, Plan
from sidecar.conductor.deps import CompactorDeps
from sidecar.conductor.errors import HeadMovedError, WouldExceedWindowError
from sidecar.conductor.record.branching import without_notes
from sidecar.conductor.record.compactions import (
    CompactionLog,
    as_standing,
    describe_plan,
    with_size,
)
from sidecar.conductor.record.history import HistoryWriter
from sidecar.conductor.window.compaction.host_restoring import (
    SlowPlanner,
    is_done_by_host,
    list_files,
    plan_files,
    show_files,
    without_restored,
)
from sidecar.conductor.window.engines.contract import (
    SUMMARY_TOO_LONG,
    WOULD_NOT_SHRINK,
    CommittingEngine,
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    FreshFile,
    SessionEngine,
    SummaryFailedError,
    View,
)
from sidecar.conductor.window.meter import entry_tokens, overhead_of
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    StreamOptions,
    TextBlock,
    UserTurn,
    gateway_error,
)
from sidecar.window_budget.text import cut_middle

SUMMARY_DEADLINE_S: Final = 120.0
"""How long a model may take for a summary."""

_PLANS_KEPT = 16
_PROMPT_CUT = "[... {} characters of the prompt left out, for the model's window does not hold them ...]"
_NOT_SHOWN = NoOp("this engine shortens only what is sent in sessions whose engine it is; choose it first")


class CompactionPlanner:
    """The plans of one session's compactions. *log* is the compactions so far, which views may rest on."""

    def __init__(self, sid: str, history: HistoryWriter, log: CompactionLog, deps: CompactorDeps) -> None:
        self._sid = sid
        self._history = history
        self._log = log
        self._deps = deps
        self._plans: dict[str, tuple[str | None, CompactionRequest]] = {}

    def gate(self, engine: str, request: CompactionRequest) -> Gate:
        """Return whether the next request is over the engine's limit."""
        return self._deps.engines.get(engine).gate(self.engine_input(engine), request)

    def own_view(self) -> View:
        """Return the view of the conversation that the next request of the session's own engine shows."""
        return self.view(self._deps.engines.own_name, self._deps.engines.automatic())

    def view(self, engine: str, request: CompactionRequest) -> View:
        """Return the view of the conversation that the model is sent, with a newest prompt that fits."""
        host, given = self._deps.engines.get(engine), self.engine_input(engine)
        view = View(given.history, is_whole=True) if host.commits_view else host.view(given, request)
        if not (view.is_whole and host.compacts):
            newest = self._find_standing(engine)
            files = () if newest is None else self._log.files_of(newest)
            return show_files(view, files, host.gate(given, request)) if files else view
        gate = host.gate(given, request)
        return fit_prompt(given.history, gate) if 0 < gate.window < gate.tokens else view

    async def preview(self, request: CompactionRequest) -> Plan:
        """Return the effect of a compaction in this session; *request* names its engine."""
        plan, engine = await self.plan(request), request.engine or ""
        if (refusal := self._refusal(engine)) is not None:
            return Plan(plan.plan_id, plan.expect_head, engine, plan.gate, noop=refusal)
        if plan.noop is not None:
            return plan
        given, done = self.compaction_input(engine), await self.compact_locally(request)
        if isinstance(done, CompactionResult):
            plan = replace(plan, loss=(await self._deps.losses.with_counts(given, done)).loss)
        if self._deps.summarizer()[0] is not None:
            return plan
        if isinstance(done, NoOp):
            return Plan(plan.plan_id, plan.expect_head, engine, plan.gate, noop=done)
        return with_size(plan, done.post_tokens, done.post_tokens, done.post_tokens)

    async def compact_locally(self, request: CompactionRequest) -> CompactionResult | NoOp:
        """Return the result of a compaction without a model; a no-op for an engine that needs one."""
        engine = self._deps.engines.get(request.engine or "")
        given = self.compaction_input(engine.name)
        deps = EngineDeps(None, self._deps.files.look, CancelToken(), SUMMARY_DEADLINE_S)
        try:
            done = await engine.compact(given, request, deps)
        except SummaryFailedError as error:
            return NoOp(str(error))
        return await weigh_result(engine, given, done) if isinstance(done, CompactionResult) else done

    async def plan(self, request: CompactionRequest) -> Plan:
        """Return the effect of a compaction in this session by the engine that *request* names."""
        host, run = await self._find_host(request.engine or "")
        return await self._plan(request, host, run, detail=True)

    async def compare(self, request: CompactionRequest, host: SessionEngine, *, detail: bool) -> Plan:
        """Return the effect of a compaction if *host* were the session's own engine.

        It judges in a thread, and therefore must be an instance that nothing else uses. It is emptied there
        as well.
        """
        plan = await self._plan(request, host, asyncio.to_thread, detail=detail)
        await asyncio.to_thread(vars(host).clear)
        return plan

    async def write_prompt(self, request: CompactionRequest, host: SessionEngine, before: History) -> str:
        """Return the prompt for a summary of *before*, empty for none; *host* is an instance of its own."""
        given = narrow_input(replace(self._deps.engine_input(), history=before, context_tokens=0), host)
        found = await asyncio.to_thread(host.plan, given, request)
        prompt = await asyncio.to_thread(found.prompt) if isinstance(found, CompactionPlan) else None
        return prompt or ""

    async def _plan(
        self, request: CompactionRequest, host: SessionEngine, run: RunWork, *, detail: bool
    ) -> Plan:
        """Return the plan of *host*, which judges by *run*.

        The files that would come back are read as they are now: only their texts decide how many of them fit.
        """
        card, cached = self._deps.summarizer()[1], self._deps.cached()
        given = await run(narrow_input, self.engine_input(host.name), host)
        given = replace(given, summarizer_card=card, cached=cached)
        plan_id = self._deps.session.new_id()
        self._plans[plan_id] = (given.history.head, request)
        while len(self._plans) > _PLANS_KEPT:
            self._plans.pop(next(iter(self._plans)))
        plan = Plan(plan_id, given.history.head, host.name, await run(host.gate, given, request))
        found, fresh = await run(host.plan, given, request), dict[str, FreshFile]()
        by_host = is_done_by_host(host)
        if by_host and isinstance(found, CompactionPlan):
            found = await asyncio.to_thread(list_files, given, found)
        if isinstance(found, CompactionPlan) and found.rehydrate:
            fresh.update(await self._deps.files.look([file.uri for file in found.rehydrate]))
            found = await (
                asyncio.to_thread(plan_files, given, plan.gate, found, fresh)
                if by_host
                else run(host.plan, given, request, fresh)
            )
        if isinstance(found, NoOp):
            return replace(plan, noop=found)
        found = weigh_plan(found, given, plan.gate)
        if isinstance(found, NoOp):
            return replace(plan, noop=found)
        files = tuple(
            replace(file, uri=fresh[file.uri].uri, stale=self._deps.files.is_stale(file.uri))
            for file in found.rehydrate
        )
        found = replace(found, rehydrate=files)
        return await asyncio.to_thread(describe_plan, plan, found, given.history, detail=detail)

    def find_planned(self, plan_id: str) -> CompactionRequest:
        """Return the request of an earlier preview. Raises HeadMovedError when the conversation moved on."""
        head, request = self._plans.get(plan_id, ("", None))
        if request is None or head != self._history.head:
            raise HeadMovedError(self._sid, head or f"plan {plan_id}", self._history.head)
        return request

    async def nothing_to_do(self, engine: str, request: CompactionRequest) -> NoOp | None:
        """Return why a compaction would do nothing, None when it would do something."""
        if (refusal := self._refusal(engine)) is not None:
            return refusal
        host, run = await self._find_host(engine)
        given = await run(narrow_input, self.engine_input(engine), host)
        found = await run(host.plan, given, request)
        return found if isinstance(found, NoOp) else None

    async def warm_up(self, engine: str) -> None:
        """Let *engine* take in the conversation in a thread, so that the loop need not wait for that."""
        await self._deps.engines.warm_up(engine, self.engine_input(engine))

    def check_fits(
        self, target: Compaction, history: History, *, force: bool, standing: Compaction | None = None
    ) -> Gate:
        """Return the weight of *history* once *target* is taken back. Raises WouldExceedWindowError."""
        given = replace(
            self._deps.engine_input(),
            history=history,
            context_tokens=0,
            standing=None if standing is None else as_standing(standing),
        )
        gate = self._deps.engines.get(target.engine).gate(given, CompactionRequest(force=False))
        if gate.window and gate.tokens > gate.window and not force:
            raise WouldExceedWindowError(self._sid, gate.tokens, gate.window)
        return gate

    def engine_input(self, engine: str) -> EngineInput:
        """Return the conversation as *engine* is to judge it, with the record that its view rests on."""
        given = self._deps.engine_input()
        if not self._log.has_folded:
            return given
        newest = self._find_standing(engine)
        return given if newest is None else replace(given, standing=as_standing(newest))

    def compaction_input(self, engine: str) -> EngineInput:
        """Return the conversation that *engine* is to compact, see :func:`narrow_input`."""
        return narrow_input(self.engine_input(engine), self._deps.engines.get(engine))

    async def _find_host(self, engine: str) -> tuple[SessionEngine, RunWork]:
        """Return an instance of *engine* that plans, and how: a slow one in a thread."""
        await self.warm_up(engine)
        host = self._deps.engines.get(engine)
        return (host.apart(), asyncio.to_thread) if isinstance(host, SlowPlanner) else (host, run_now)

    def _find_standing(self, engine: str) -> Compaction | None:
        """Return the newest record that the view of *engine* rests on, None for none."""
        return next(self._log.find_standing(engine, self._history.current), None)

    def _refusal(self, engine: str) -> NoOp | None:
        """Return why *engine* cannot compact in this session, None when it can."""
        host = self._deps.engines.get(engine)
        is_foreign = host.compacts and not host.commits_view and engine != self._deps.engines.own_name
        return _NOT_SHOWN if is_foreign else None


def narrow_input(given: EngineInput, engine: SessionEngine) -> EngineInput:
    """Return *given* as *engine* is to compact it: without notes, which a compaction drops.

    The files that the host restored are left out too, so no engine summarises them. A record of an engine
    that keeps the conversation counts its entries, so there they stay.
    """
    given = replace(given, added_tokens=recall_tokens(given))
    if not engine.commits_view:
        return given
    history = without_notes(given.history)
    return replace(given, history=without_restored(history) if is_done_by_host(engine) else history)


def recall_tokens(given: EngineInput) -> int:
    """Return the tokens that the tool ``recall`` adds to each request once something of *given* is folded.

    It is on offer from then on, and costs nothing more where it is already.
    """
    if not given.closing or RECALL.descriptor.name in given.tool_effects:
        return 0
    return overhead_of("", (RECALL.descriptor,)).total


def weigh_plan(found: CompactionPlan, given: EngineInput, gate: Gate) -> CompactionPlan | NoOp:
    """Return *found* with the tokens that a summary of *given* adds to each later request.

    Where even the shortest summary would save nothing, that is no plan. Where only a long one would, the
    compaction may end without a change, and then the request stays as large as *gate* says.
    """
    added = given.added_tokens if found.dropped else 0
    low, high = found.low_tokens + added, found.high_tokens + added
    if low >= found.pre_tokens:
        return WOULD_NOT_SHRINK
    if high >= found.pre_tokens:
        high = max(found.pre_tokens, gate.tokens)
    usual = min(high, found.projected_tokens + added)
    return replace(found, projected_tokens=usual, low_tokens=low, high_tokens=high)


def weigh_entries(
    engine: SessionEngine, given: EngineInput, entries: Sequence[Entry], request: CompactionRequest
) -> int:
    """Return the tokens of a request that shows *entries* in place of the conversation, as *engine* counts.

    May run in a thread; an engine that does not commit its view must then be an instance of its own.
    """
    if isinstance(engine, CommittingEngine):
        return given.overhead_tokens + engine.weigh(entries)
    shown = replace(given, history=given.history.with_entries(entries), context_tokens=0)
    return engine.gate(shown, request).tokens


async def weigh_result(
    engine: SessionEngine, given: EngineInput, done: CompactionResult
) -> CompactionResult | NoOp:
    """Return *done* with the tokens that its summary adds to each later request, or that it saves nothing.

    The engine counts the tokens, as in its plan. A view that becomes the conversation is weighed as well,
    by the engine and by the session's meter: a summary that one takes for short may be long for the other.
    """
    added = given.added_tokens if done.dropped_count else 0
    weight = done.post_tokens
    if engine.commits_view:
        request, entries = CompactionRequest(force=False), done.view.entries
        after = await asyncio.to_thread(weigh_entries, engine, given, entries, request)
        weight = max(weight, after)
        if not await asyncio.to_thread(is_lighter, entries, given.history, added):
            return WOULD_NOT_SHRINK
    if weight + added >= done.pre_tokens:
        return WOULD_NOT_SHRINK
    return replace(done, post_tokens=done.post_tokens + added)


async def compact_without_model(
    engine: SessionEngine, given: EngineInput, request: CompactionRequest, deps: EngineDeps
) -> CompactionResult | NoOp:
    """Return the result of *engine* as after a failed call, in place of a summary that is too long.

    Args:
        engine: the engine that took the summary.
        given: the conversation that it stood for.
        request: the compaction, as it was requested.
        deps: the engine's dependencies; the model in it is not called.
    """

    def fail_call(conversation: Conversation, options: StreamOptions) -> Channel:
        raise gateway_error("unsupported", SUMMARY_TOO_LONG)

    done = await engine.compact(given, request, replace(deps, invoke=fail_call))
    if isinstance(done, CompactionResult):
        done = await weigh_result(engine, given, replace(done, fallback_reason=SUMMARY_TOO_LONG))
    return done


def is_lighter(entries: Sequence[Entry], history: History, added_tokens: int) -> bool:
    """Return whether *entries*, with *added_tokens*, take fewer tokens than *history* by the session's meter.

    An entry may be in both, as it was or cut down. Costs the new entries, and the oldest of the gone ones
    until they outweigh them.
    """
    shown = {entry.node_id: entry for entry in entries if entry.node_id}
    balance = added_tokens + sum(entry_tokens(entry) for entry in entries if not entry.node_id)
    for before in history:
        if balance < 0:
            break
        now = shown.get(before.node_id)
        if now is None or now.turn is not before.turn:
            balance += (0 if now is None else entry_tokens(now)) - entry_tokens(before)
    return balance < 0


def fit_prompt(history: History, gate: Gate) -> View:
    """Return the view of *history* with its newest prompt cut by the tokens beyond the window of *gate*.

    Of its texts the beginning and the end stay, at least a quarter of the limit. The stored prompt stays
    whole, so a later compaction still summarises all of it.
    """
    whole = View(history, is_whole=True)
    index = next((at for at in range(len(history) - 1, -1, -1) if history[at].kind == "user"), None)
    if index is None:
        return whole
    prompt = history[index]
    tokens = entry_tokens(prompt)
    keep = max(gate.limit // 4, tokens - (gate.tokens - gate.limit))
    if keep >= tokens:
        return whole
    blocks = tuple(
        replace(block, text=cut_middle(block.text, len(block.text) * keep // tokens, _PROMPT_CUT))
        if isinstance(block, TextBlock)
        else block
        for block in prompt.turn.blocks
    )
    entries = [*history[:index], replace(prompt, turn=UserTurn(blocks)), *history[index + 1 :]]
    return View(entries)
