"""``agentcore``: the engine of seed 004 at work in one session.

Its summary stands in the conversation as a ``<context-summary>`` turn, so that the next one updates it. It
tracks which files were read and modified, and restores none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, Final

from sidecar.agentcore import AgentMessage
from sidecar.agentcore.estimate import cost_in_prompt
from sidecar.agentcore.gateway import InvokerModel, messages_to_turns, turns_to_messages
from sidecar.agentcore.memory import (
    Budget,
    CompactionConfig,
    CompactionInfo,
    CompactionSummary,
    CutPlan,
    HistoryCompactor,
    fit_budget,
    new_compaction,
)
from sidecar.conductor.contract import Gate, Microcompact, NoOp
from sidecar.conductor.engines.base import (
    CompactAsk,
    Condensed,
    EngineDeps,
    EngineInput,
    EnginePlan,
    WholeView,
)
from sidecar.llmgateway.contract import Turn

__all__ = ["AgentcoreEngine"]

_NO_CARD: Final = NoOp("the model's context window is unknown")
_NO_MODEL: Final = NoOp("no model is at hand to condense with")
_NOTHING: Final = NoOp("there is nothing to condense")
_UNDER: Final = NoOp("the conversation is under the limit")
_NO_GAIN: Final = NoOp("the result would not be smaller")


class AgentcoreEngine(WholeView):
    """``agentcore.memory`` at work in one session. The policy names ``reserveTokens`` and ``keepRecent``."""

    name = "agentcore"
    compacts = True

    def __init__(self) -> None:
        self._turns: Sequence[Turn] = ()
        self._begin(())

    def gate(self, given: EngineInput, ask: CompactAsk) -> Gate:
        """Return whether the estimate, or the live occupancy, is over window minus reserve."""
        budget = _budget(given, ask)
        if budget is None:
            return Gate(given.context_tokens, 0, 0, over=False)
        self._sync(given.turns)
        tokens = max(self._tokens + given.overhead_tokens, given.context_tokens)
        # Where the overhead alone is near the threshold, a part of that stays the conversation's.
        limit = budget.narrow(given.overhead_tokens).threshold + given.overhead_tokens
        return Gate(tokens, limit, budget.window, over=tokens > limit)

    def plan(self, given: EngineInput, ask: CompactAsk) -> EnginePlan | NoOp:
        """Return where it would cut."""
        refusal = self._refusal(given, ask)
        if refusal is not None:
            return refusal
        plan, _ = self._plan(given, ask, new_compaction(_config(given, ask)))
        if plan is None:
            return _NOTHING
        summary = min(plan.summary_tokens, plan.dropped_tokens // 2)
        return EnginePlan(
            cut=self._turn_at(plan.cut),
            dropped_tokens=plan.dropped_tokens,
            kept_tokens=plan.kept_tokens,
            projected_tokens=plan.kept_tokens + summary + given.overhead_tokens,
            microcompact=Microcompact(len(plan.shrink), 0),
            rehydrate=(),
        )

    async def condense(self, given: EngineInput, ask: CompactAsk, deps: EngineDeps) -> Condensed | NoOp:
        """Summarise the head, update an earlier summary, keep the tail."""
        refusal = self._refusal(given, ask)
        if refusal is not None:
            return refusal
        if deps.invoke is None:
            return _NO_MODEL
        told: list[CompactionInfo] = []
        model = InvokerModel(deps.invoke, cancel=lambda: deps.cancel)
        reads = deps.summarizer_card
        config = replace(
            _config(given, ask, model, told), summariser_window=reads.context_window if reads else None
        )
        compactor = new_compaction(config)
        plan, is_forced = self._plan(given, ask, compactor)
        if plan is None:
            return _NOTHING
        if is_forced:
            done = await compactor.compact_now(self._messages, ask.instructions)
            view: Sequence[AgentMessage] = done[0] if done is not None else ()
        else:
            view = await compactor(self._messages)
        deps.cancel.raise_if_cancelled()
        if not told or told[-1].tokens_after >= told[-1].tokens_before:
            return _NO_GAIN
        cut = self._turn_at(plan.cut)
        return _condensed(given, cut, cut - (plan.pinned >= 0), view, told[-1])

    def _refusal(self, given: EngineInput, ask: CompactAsk) -> NoOp | None:
        if _budget(given, ask) is None:
            return _NO_CARD
        return None if ask.force or self.gate(given, ask).over else _UNDER

    def _plan(
        self, given: EngineInput, ask: CompactAsk, compactor: HistoryCompactor
    ) -> tuple[CutPlan | None, bool]:
        """Return what to do, and whether it must be forced.

        That is so also where the live occupancy alone is over the limit, and where the engine would merely
        shrink an item: here that would change the stored conversation for good.
        """
        messages = self._sync(given.turns)
        plan = None if ask.force else compactor.preview(messages).plan
        if plan is not None and plan.cut > 0:
            return plan, False
        return compactor.preview(messages, force=True).plan, True

    def _sync(self, turns: Sequence[Turn]) -> list[AgentMessage]:
        """Return *turns* as messages; only what is new since the last call is converted and weighed."""
        if turns is not self._turns or len(turns) < len(self._starts):
            self._begin(turns)
        for turn in turns[len(self._starts) :]:
            self._starts.append(len(self._messages))
            new = turns_to_messages((turn,), self._names)
            self._messages.extend(new)
            self._tokens += sum(map(cost_in_prompt, new))
        return self._messages

    def _begin(self, turns: Sequence[Turn]) -> None:
        self._turns = turns
        self._messages: list[AgentMessage] = []
        self._starts: list[int] = []
        self._names: dict[str, str] = {}
        self._tokens = 0

    def _turn_at(self, message_index: int) -> int:
        """Return the turn whose messages begin at *message_index*: a tail never begins inside one."""
        return bisect_left(self._starts, message_index)


def _budget(given: EngineInput, ask: CompactAsk) -> Budget | None:
    window = given.card.context_window if given.card is not None else 0
    if window <= 0:
        return None
    return fit_budget(window, int(ask.policy.get("reserveTokens", 0)), int(ask.policy.get("keepRecent", 0)))


def _config(
    given: EngineInput,
    ask: CompactAsk,
    model: InvokerModel | None = None,
    told: list[CompactionInfo] | None = None,
) -> CompactionConfig:
    return CompactionConfig(
        model,
        given.card.context_window if given.card is not None else 0,
        int(ask.policy.get("reserveTokens", 0)),
        int(ask.policy.get("keepRecent", 0)),
        None if told is None else told.append,
        overhead_tokens=given.overhead_tokens,
    )


def _condensed(
    given: EngineInput, cut: int, n_dropped: int, view: Sequence[AgentMessage], info: CompactionInfo
) -> Condensed:
    summary = next((message for message in view if isinstance(message, CompactionSummary)), None)
    return Condensed(
        turns=tuple(messages_to_turns(view)),
        cut=cut,
        dropped_count=n_dropped,
        pre_tokens=info.tokens_before + given.overhead_tokens,
        post_tokens=info.tokens_after + given.overhead_tokens,
        summary=summary.summary if summary is not None else "",
        summary_source="model" if info.summary_source == "model" else "localFallback",
        fallback_reason=None if info.summary_source == "model" else "the model gave no usable summary",
        microcompacted=0,
        restored=(),
        missing=(),
        info=_info(info, summary),
    )


def _info(info: CompactionInfo, summary: CompactionSummary | None) -> Mapping[str, Any]:
    """Return the engine's own record, in the wire's spelling."""
    record: dict[str, Any] = {}
    for spec in fields(info):
        value = getattr(info, spec.name)
        head, *rest = spec.name.split("_")
        name = head + "".join(word.capitalize() for word in rest)
        is_time = isinstance(value, timedelta)
        record[f"{name}Ms" if is_time else name] = round(value.total_seconds() * 1000) if is_time else value
    if summary is not None:
        record |= {"readFiles": list(summary.read_files), "modifiedFiles": list(summary.modified_files)}
    return record
