"""``runtime``: the condensation engine of seed 000 as a session's own engine.

It counts turns where it keeps recent ones, and restores no files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from sidecar.conductor.bridge import HOST_MARKS
from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.engines.contract import (
    CommittingEngine,
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    EngineMarks,
    committed_view,
)
from sidecar.conversation import History, Index
from sidecar.llmgateway.contract import TextBlock, Turn, UserTurn
from sidecar.runtime.contract import CompactionPolicy
from sidecar.runtime.memory import (
    DEFAULT_POLICY,
    IMAGE_CHARS,
    SUMMARY_HEADING,
    LiveCut,
    compact_live,
    plan_live_cut,
    tokens_of,
    turn_chars,
)

_NO_CARD = NoOp("the model's context window is unknown")
_NOTHING = NoOp("there is nothing to condense")
_UNDER = NoOp("the conversation is under the limit")
_NO_GAIN = NoOp("the result would not be smaller")
_NO_MODEL = NoOp("no model is at hand to condense with")


class RuntimeEngine(CommittingEngine):
    """``runtime.memory`` at work in one session."""

    name: ClassVar[str] = "runtime"
    marks: ClassVar[EngineMarks] = EngineMarks(summaries=(SUMMARY_HEADING,))
    compacts = True

    def __init__(self) -> None:
        self._chars = Index(int, lambda n, entry, in_view: n + turn_chars(entry.turn, IMAGE_CHARS))

    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return whether the estimate, or the live occupancy, has reached its share of the window."""
        window = given.card.context_window if given.card else 0
        limit = int(window * _policy(request).trigger_ratio)
        tokens = max(self._tokens(given.history) + given.overhead_tokens, given.context_tokens)
        return Gate(tokens, limit, window, over=window > 0 and tokens >= limit)

    def plan(self, given: EngineInput, request: CompactionRequest) -> CompactionPlan | NoOp:
        """Return where it would cut."""
        found = self._cut(given, request)
        if isinstance(found, NoOp):
            return found
        dropped = found.tokens_before - found.tail_tokens
        gist = min(found.room_tokens // 4, dropped // 2)
        projected = found.tail_tokens + gist + given.overhead_tokens
        return CompactionPlan(
            cut=found.cut,
            dropped_tokens=dropped,
            kept_tokens=found.tail_tokens,
            projected_tokens=projected,
        )

    async def compact(
        self, given: EngineInput, request: CompactionRequest, deps: EngineDeps
    ) -> CompactionResult | NoOp:
        """Condense the turns before the cut into one gist."""
        found = self._cut(given, request)
        if isinstance(found, NoOp) or given.card is None:
            return found if isinstance(found, NoOp) else _NO_CARD
        if deps.invoke is None:
            return _NO_MODEL
        reader = deps.summarizer_card or given.card
        done = await compact_live(
            given.history.turns, found, deps.invoke, model=reader, cancel=deps.cancel, marks=HOST_MARKS
        )
        if done is None:
            return _NO_GAIN
        first, *pinned = done.summary.blocks
        # The agent's own compaction keeps the newest prompt in the summary's turn. Here it stays an entry.
        kept: tuple[Turn, ...] = given.history.turns[done.cut :]
        prompt = None
        if pinned:
            prompt = next(n for n in range(done.cut - 1, -1, -1) if given.history[n].kind == "user")
            kept = (given.history[prompt].turn, *kept)
        return CompactionResult(
            view=committed_view(given.history, done.cut, UserTurn((first,)), kept, pinned=prompt),
            cut=done.cut,
            dropped_count=done.cut,
            pre_tokens=done.tokens_before + given.overhead_tokens,
            post_tokens=done.tokens_after + given.overhead_tokens,
            summary=first.text if isinstance(first, TextBlock) else "",
            summary_source="model" if done.source == "model" else "localFallback",
            fallback_reason=None if done.source == "model" else "the model gave no usable summary",
        )

    def _cut(self, given: EngineInput, request: CompactionRequest) -> LiveCut | NoOp:
        if given.card is None or not given.card.context_window:
            return _NO_CARD
        card, policy, tokens = given.card, _policy(request), self._tokens(given.history)
        if request.force:
            # By hand it goes as if the window were just full: what is worth a model call follows from that.
            full = min(card.context_window, tokens + given.overhead_tokens)
            card, policy = replace(card, context_window=full), CompactionPolicy(1.0, policy.keep_recent)
        elif not self.gate(given, request).over:
            return _UNDER
        found = plan_live_cut(
            given.history.turns,
            card,
            policy,
            tokens=tokens,
            overhead_tokens=given.overhead_tokens,
            marks=HOST_MARKS,
        )
        return _NOTHING if found is None else found

    def _tokens(self, history: History) -> int:
        return tokens_of(self._chars.of(history), len(history))


def _policy(request: CompactionRequest) -> CompactionPolicy:
    ratio = request.policy.get("triggerRatio", DEFAULT_POLICY.trigger_ratio)
    return CompactionPolicy(ratio, int(request.policy.get("keepRecent", DEFAULT_POLICY.keep_recent)))
