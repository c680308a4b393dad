"""``runtime``: the condensation of ``sidecar.runtime.memory`` as a session's engine.

It counts turns where it keeps recent ones. The host restores the files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.engine import (
    NO_MODEL,
    NO_WINDOW,
    NOTHING_TO_FOLD,
    SUMMARY_TOO_LONG,
    UNDER_LIMIT,
    WOULD_NOT_SHRINK,
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    EngineMarks,
    SessionEngine,
    compacted_entries,
)
from sidecar.conversation import Entry, History, Index
from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.runtime.contract import CompactionPolicy
from sidecar.runtime.memory import (
    DEFAULT_POLICY,
    IMAGE_CHARS,
    SUMMARY_HEADING,
    TURN_OVERHEAD_TOKENS,
    LiveCompaction,
    LiveCut,
    compact_live,
    plan_live_cut,
    project_tokens,
    tokens_of,
    turn_chars,
)

_NO_SUMMARY = "the model gave no usable summary"


class RuntimeEngine(SessionEngine):
    """``runtime.memory`` at work in one session."""

    name: ClassVar[str] = "runtime"
    marks: ClassVar[EngineMarks] = EngineMarks(summaries=(SUMMARY_HEADING,))

    def __init__(self) -> None:
        self.index: Index[int] = Index(
            int, lambda n_chars, entry, in_view: n_chars + turn_chars(entry.turn, IMAGE_CHARS)
        )

    def apart(self) -> RuntimeEngine:
        """Return a copy, for a thread: a plan looks at every turn."""
        copy = RuntimeEngine()
        copy.index = self.index.apart(int)
        return copy

    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return whether the next request has reached its share of the window."""
        limit = int(given.window * _policy(request).trigger_ratio)
        own = self._tokens(given.history) + given.overhead_tokens
        tokens = given.context_tokens or own
        return Gate(tokens, limit, given.window, over=given.window > 0 and tokens >= limit)

    def weigh(self, entries: Sequence[Entry]) -> int:
        """Return the tokens of *entries*."""
        return tokens_of(sum(turn_chars(entry.turn, IMAGE_CHARS) for entry in entries), len(entries))

    def plan(self, given: EngineInput, request: CompactionRequest) -> CompactionPlan | NoOp:
        """Return where it would cut."""
        found = self._cut(given, request)
        if isinstance(found, NoOp):
            return found
        pinned = _find_pinned(given.history, found)
        low, high = _bounds(given.history, found)
        dropped_tokens = found.tokens_before - found.kept_tokens
        return CompactionPlan(
            cut=found.cut,
            pinned=pinned,
            pre_tokens=found.tokens_before + given.overhead_tokens,
            dropped_tokens=dropped_tokens,
            kept_tokens=found.kept_tokens,
            projected_tokens=min(high, low + found.gist_tokens // 2) + given.overhead_tokens,
            low_tokens=low + given.overhead_tokens,
            high_tokens=high + given.overhead_tokens,
            details=found,
        )

    async def compact(
        self, given: EngineInput, request: CompactionRequest, plan: CompactionPlan, deps: EngineDeps
    ) -> CompactionResult | NoOp:
        """Condense the turns before the cut into one gist."""
        found: LiveCut = plan.details
        if given.card is None:
            return NO_WINDOW
        if deps.invoke is None:
            return NO_MODEL
        reader = given.summarizer_card or given.card
        done = await compact_live(
            given.history.turns,
            found,
            deps.invoke,
            model=reader,
            cancel=deps.cancel,
            kinds=[entry.kind for entry in given.history],
            run=asyncio.to_thread,
        )
        if done is None:
            return WOULD_NOT_SHRINK
        return await asyncio.to_thread(to_result, given, found, done)

    def _cut(self, given: EngineInput, request: CompactionRequest) -> LiveCut | NoOp:
        if given.card is None or not given.card.context_window:
            return NO_WINDOW
        card, policy, tokens = given.card, _policy(request), self._tokens(given.history)
        if request.force:
            # By hand it goes as if the window were just full: what is worth a model call follows from that.
            full = min(card.context_window, tokens + given.overhead_tokens)
            card, policy = replace(card, context_window=full), CompactionPolicy(1.0, policy.keep_recent)
        elif not self.gate(given, request).over:
            return UNDER_LIMIT
        else:
            # What takes more than it is weighed here leaves less room, by the units of this engine.
            more = max(1.0, given.context_tokens / max(1, tokens + given.overhead_tokens))
            card = replace(card, context_window=int(card.context_window / more))
        found = plan_live_cut(
            given.history.turns,
            card,
            policy,
            tokens=tokens,
            overhead_tokens=given.overhead_tokens,
            kinds=[entry.kind for entry in given.history],
        )
        if found is None:
            return NOTHING_TO_FOLD
        if request.force:
            room = int(given.card.context_window * _policy(request).trigger_ratio) - given.overhead_tokens
            found = replace(found, room_tokens=max(found.room_tokens, room))
        low, _ = _bounds(given.history, found)
        return found if low < found.tokens_before else WOULD_NOT_SHRINK

    def _tokens(self, history: History) -> int:
        return tokens_of(self.index.of(history), len(history))


def to_result(given: EngineInput, found: LiveCut, done: LiveCompaction) -> CompactionResult | NoOp:
    """Return the result of *done*, the compaction at *found*; NoOp where it saves nothing."""
    # The agent's own compaction keeps the newest prompt in the summary's turn. Here it stays an entry.
    first, pinned = done.summary.blocks[0], _find_pinned(given.history, found)
    kept = (*(given.history.turns[index] for index in pinned), *given.history.turns[done.cut :])
    post_tokens = done.tokens_after + TURN_OVERHEAD_TOKENS * len(pinned)
    if post_tokens >= done.tokens_before:
        return WOULD_NOT_SHRINK
    return CompactionResult(
        entries=compacted_entries(given.history, done.cut, UserTurn((first,)), kept, pinned=pinned),
        cut=done.cut,
        dropped_count=done.cut - len(pinned),
        pre_tokens=done.tokens_before + given.overhead_tokens,
        post_tokens=post_tokens + given.overhead_tokens,
        summary=first.text if isinstance(first, TextBlock) else "",
        summary_source="model" if done.source == "model" else "localFallback",
        fallback_reason=None
        if done.source == "model"
        else SUMMARY_TOO_LONG
        if done.was_too_long
        else _NO_SUMMARY,
    )


def _find_pinned(history: History, found: LiveCut) -> tuple[int, ...]:
    """Return the entry of the prompt that stays in front of the cut, if there is one."""
    if not found.kept_prompt:
        return ()
    return (next(index for index in range(found.cut - 1, -1, -1) if history[index].kind == "user"),)


def _bounds(history: History, found: LiveCut) -> tuple[int, int]:
    """Return the least and the most tokens of *history* after *found*, a pinned prompt as its own turn.

    The most are those before it where a long summary may save nothing.
    """
    low, high = project_tokens(history.turns, found)
    beside = TURN_OVERHEAD_TOKENS * bool(found.kept_prompt)
    return low + beside, min(high + beside, found.tokens_before)


def _policy(request: CompactionRequest) -> CompactionPolicy:
    ratio = request.policy.get("triggerRatio", DEFAULT_POLICY.trigger_ratio)
    return CompactionPolicy(ratio, int(request.policy.get("keepRecent", DEFAULT_POLICY.keep_recent)))
