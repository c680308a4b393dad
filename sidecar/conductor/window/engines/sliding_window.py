"""``slidingWindow``: the newest events of the room stay, and the chronicle has the others.

The window slides in steps: were its first event another one at each request, the provider's cache of the
prompt would never hold. So a full window loses a quarter of its events, or of its tokens, at once, and stands
until it is full again. The newest prompt stays however many rounds of tools follow it. No model is called.
"""

from __future__ import annotations

from typing import ClassVar, Final

from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.engine import (
    NOTHING_TO_FOLD,
    CompactionPlan,
    CompactionRequest,
    EngineInput,
)
from sidecar.conductor.window.engines.room import RoomCut, RoomEngine, limits_of, read_setting

_MAX_EVENTS: Final = 50
_STEPS: Final = 4
"""A full window loses one in so many of its events, or of its tokens."""

_LEAST_EVENTS: Final = 2
"""The newest prompt and the newest event: with fewer a model would not see its tool results."""

_SUMMARY_SHARE: Final = 10
_MOST_SUMMARY_TOKENS: Final = 4_000
"""The digest takes at most one in so many tokens of the window, and at most so many tokens."""

_UNDER: Final = NoOp("the window is not full")


class SlidingWindowEngine(RoomEngine):
    """The newest events of one session, as ``SlidingWindowMemory`` counts. The policy names ``maxEvents``."""

    name: ClassVar[str] = "slidingWindow"
    writes: ClassVar[bool] = False

    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return whether the window has more events, or more tokens, than it holds."""
        room, limits = self.index.of(given.history), limits_of(given, request)
        tokens = given.context_tokens or room.tokens(0) + given.overhead_tokens
        is_over = len(room.events) - room.front() > max_events(request)
        if limits is None:
            return Gate(tokens, 0, 0, over=is_over)
        limit = min(limits.max_context_tokens + given.overhead_tokens, due_tokens(given, request))
        return Gate(tokens, limit, given.window, over=is_over or tokens > limit)

    def plan(self, given: EngineInput, request: CompactionRequest) -> CompactionPlan | NoOp:
        """Return the events that leave the window."""
        found = self._slide(given, request)
        if isinstance(found, NoOp):
            return found
        before, after = found.room.tokens(0), found.tokens
        summary = min(summary_tokens(given), (before - after) // 2)
        return CompactionPlan(
            cut=found.cut,
            pinned=found.pinned,
            pre_tokens=before + given.overhead_tokens,
            dropped_tokens=before - after,
            kept_tokens=after,
            projected_tokens=after + summary + given.overhead_tokens,
            low_tokens=after + given.overhead_tokens,
            high_tokens=min(before, after + summary_tokens(given)) + given.overhead_tokens,
            kept=found.turns,
            details=found,
        )

    def _slide(self, given: EngineInput, request: CompactionRequest) -> RoomCut | NoOp:
        """Return the window after a step, or why it does not slide."""
        is_over = self.gate(given, request).over
        if not (is_over or request.force):
            return _UNDER
        room, limits = self.index.of(given.history), limits_of(given, request)
        first, n_events, tokens = room.front(), len(room.events), room.tokens(0)
        if limits is not None:
            due = max(1, due_tokens(given, request) - given.overhead_tokens)
            tokens = min(tokens, limits.max_context_tokens, due)
        most_events = min(n_events - first, max_events(request))
        most_events = max(_LEAST_EVENTS, most_events - max(1, most_events // _STEPS))
        most_tokens = tokens - tokens // _STEPS
        most = limits.max_context_tokens if limits else tokens
        item_tokens = room.share_of_newest(most - summary_tokens(given))
        costs = [min(item_tokens, room.tokens(at, at + 1)) for at in range(n_events)]
        start, left, prompt = first, sum(costs[first:]), room.prompt
        while start < n_events - 1:
            is_pinned = prompt is not None and prompt < start
            pinned_tokens = costs[prompt] if prompt is not None and is_pinned else 0
            if n_events - start + is_pinned <= most_events and left + pinned_tokens <= most_tokens:
                break
            left -= costs[start]
            start += 1
        window = RoomCut(room, start, item_tokens)
        return window if start > first and window.tokens < room.tokens(0) else NOTHING_TO_FOLD


def max_events(request: CompactionRequest) -> int:
    """Return the most events of a window."""
    return int(read_setting(request.policy, "maxEvents", _MAX_EVENTS, least=_LEAST_EVENTS))


def due_tokens(given: EngineInput, request: CompactionRequest) -> int:
    """Return the share of the window at which a compaction is due."""
    return int(given.window * request.policy.get("triggerRatio", 1.0))


def summary_tokens(given: EngineInput) -> int:
    """Return the most tokens of the digest."""
    window = given.window or _MOST_SUMMARY_TOKENS * _SUMMARY_SHARE
    return min(_MOST_SUMMARY_TOKENS, window // _SUMMARY_SHARE)
