"""How much of a conversation may stay: the thresholds, the cuts and the shortening (facts K4, K5, K11).

Pure arithmetic on token counts and texts, linear in its input. It asks no model and holds no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sidecar.rooms.ai import AIMessage
from sidecar.rooms.content import TextContent, plain_text
from sidecar.rooms.errors import InvalidRoomValue
from sidecar.rooms.events import RoomEvent
from sidecar.rooms.memory.estimate import (
    MESSAGE_OVERHEAD_TOKENS,
    chars_within,
    event_tokens,
    message_tokens,
)
from sidecar.rooms.memory.marks import SUMMARY_OVERHEAD_TOKENS

__all__ = [
    "Limits",
    "Load",
    "fit_items",
    "fitting_cut",
    "level_cap",
    "plan_cut",
    "recency_cut",
    "truncate_older",
    "truncate_text",
]


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings of a summarising memory: tokens, but for *truncate_chars* and the count *min_events*."""

    max_context_tokens: int
    tier1_ratio: float = 0.5
    tier2_ratio: float = 0.85
    truncate_chars: int = 2000
    summary_max_tokens: int = 1000
    min_events: int = 5

    def __post_init__(self) -> None:
        for name in ("max_context_tokens", "truncate_chars", "summary_max_tokens"):
            if getattr(self, name) < 1:
                raise InvalidRoomValue(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.min_events < 0:
            raise InvalidRoomValue(f"min_events is {self.min_events}; it must not be negative")

    @property
    def tier1_tokens(self) -> int:
        """Above this the older half of the events is truncated."""
        return int(self.max_context_tokens * self.tier1_ratio)

    @property
    def tier2_tokens(self) -> int:
        """Above this the oldest events are summarised."""
        return int(self.max_context_tokens * self.tier2_ratio)

    def room_beside(self, current_tokens: int) -> int:
        """Return the tokens that history may have beside the current event (failure B-K11).

        A current event that alone exceeds the window is sent whole by the channel whatever is done here, so
        it takes nothing from history.
        """
        if current_tokens < self.max_context_tokens:
            return self.max_context_tokens - current_tokens
        return self.max_context_tokens


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be fitted, in tokens.

    *injected* are messages that stay; *summaries* those that a new summary would replace; *backlog* are
    events that are not in the window and in no summary yet; *window* the events, oldest first, that no
    summary covers; *room* is what all may cost together. *folded* says whether the memory has a summary of
    its own.
    """

    room: int
    injected: int = 0
    summaries: int = 0
    backlog: int = 0
    window: Sequence[int] = ()
    folded: bool = False


def plan_cut(load: Load, limits: Limits) -> int | None:
    """Return how many of the oldest window events must give way to a summary, or None when none is due.

    The first summary is due above tier 2, and keeps what K5 keeps. From then on the place of the cut stands
    until the window is really full: the context's beginning stays the same, and a summariser is asked once
    for many events instead of once for each (failure B-K3). A backlog is due once it lifts the whole over
    tier 2 and is worth more than the summary may be; until then it waits. 0 means that only the backlog is
    due.

    >>> plan_cut(Load(10_000, window=[1000] * 20), Limits(10_000))
    12
    >>> plan_cut(Load(10_000, window=[1000] * 8), Limits(10_000)) is None
    True
    """
    total = load.injected + load.summaries + sum(load.window)
    cut = 0
    if total > (load.room if load.folded else limits.tier2_tokens) and len(load.window) > limits.min_events:
        kept = limits.tier2_tokens - limits.summary_max_tokens - load.injected
        cut = recency_cut(load.window, kept, limits.min_events)
    backlog_due = load.backlog > limits.summary_max_tokens and total + load.backlog > limits.tier2_tokens
    if not cut and not backlog_due and total <= load.room:
        return None
    reserve = limits.summary_max_tokens + SUMMARY_OVERHEAD_TOKENS
    cut = max(cut, fitting_cut(load.window, load.room - load.injected - reserve))
    return cut if cut or load.backlog else None


def recency_cut(costs: Sequence[int], budget: int, min_events: int) -> int:
    """Return the index of the first event to keep: the one that overflows *budget*, counted from the newest.

    At least *min_events* are kept; 0 when everything fits (fact K5).

    >>> recency_cut([1000] * 20, 7500, 5), recency_cut([1, 1], 9, 0)
    (12, 0)
    """
    running = 0
    for index in range(len(costs) - 1, -1, -1):
        running += costs[index]
        if running > budget and len(costs) - index >= min_events:
            return index
    return 0


def fitting_cut(costs: Sequence[int], budget: int) -> int:
    """Return the index of the first event of the longest tail that fits *budget*; the newest always stays.

    >>> fitting_cut([5, 5, 5], 10), fitting_cut([5, 5, 5], 1), fitting_cut([], 0)
    (1, 2, 0)
    """
    running = 0
    for index in range(len(costs) - 1, -1, -1):
        running += costs[index]
        if running > budget:
            return min(index + 1, len(costs) - 1)
    return 0


def truncate_text(body: str, max_chars: int) -> str:
    """Return *body*, or its beginning with a marker of its length, *max_chars* long together (fact K4).

    Where not even the marker fits, the marker alone is returned.

    >>> truncate_text("x" * 50, 40)
    'xxxxxx\\n[... truncated from 50 chars ...]'
    """
    if len(body) <= max_chars:
        return body
    marker = f"\n[... truncated from {len(body)} chars ...]"
    return body[: max(0, max_chars - len(marker))] + marker


def truncate_older(events: Sequence[RoomEvent], max_chars: int) -> list[RoomEvent]:
    """Return *events* with the long texts of the older half truncated; nothing else is touched (fact K4).

    >>> from sidecar.rooms import EventSource
    >>> said = RoomEvent(room_id="r", source=EventSource("c", "sms"), content=TextContent("x" * 90))
    >>> [len(event.content.body) for event in truncate_older([said, said, said], 50)]
    [50, 90, 90]
    """
    half = len(events) // 2
    return [_truncated(event, max_chars) for event in events[:half]] + list(events[half:])


def level_cap(sizes: Sequence[int], budget: int) -> int:
    """Return the size to which the largest must shrink so that all together fit *budget*.

    The small stay whole as long as shrinking the large is enough. 0 when nothing is left to share out.

    >>> level_cap([1, 5, 9], 10), level_cap([1, 2], 10), level_cap([4], -1)
    (4, 2, 0)
    """
    left = budget
    ascending = sorted(sizes)
    for index, size in enumerate(ascending):
        share = max(0, left // (len(ascending) - index))
        if size > share:
            return share
        left -= size
    return ascending[-1] if ascending else 0


def fit_items(
    messages: Sequence[AIMessage], events: Sequence[RoomEvent], budget: int
) -> tuple[list[AIMessage], list[RoomEvent]]:
    """Shorten the largest of *messages* and *events*, visibly, until all fit *budget* tokens.

    This is the last resort for what cannot be left out: one event, or a message of the inner provider, that
    alone is too large (failures B-K1, B-K11). Messages made of parts are not touched. The originals stay
    whole.

    >>> messages, _ = fit_items([AIMessage("user", "x" * 400)], [], budget=20)
    >>> messages[0].content
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n[... truncated from 400 chars ...]'
    """
    texts = [message_tokens(message) for message in messages if isinstance(message.content, str)]
    parts = sum(message_tokens(message) for message in messages if not isinstance(message.content, str))
    sizes = texts + [event_tokens(event) for event in events]
    if parts + sum(sizes) <= budget:
        return list(messages), list(events)
    cap = level_cap(sizes, budget - parts)
    return [_fit_message(message, cap) for message in messages], [_fit_event(event, cap) for event in events]


def _truncated(event: RoomEvent, max_chars: int) -> RoomEvent:
    content = event.content
    if not isinstance(content, TextContent) or len(content.body) <= max_chars:
        return event
    return replace(event, content=replace(content, body=truncate_text(content.body, max_chars)))


def _fit_message(message: AIMessage, cap: int) -> AIMessage:
    if not isinstance(message.content, str) or message_tokens(message) <= cap:
        return message
    shorter = truncate_text(message.content, chars_within(cap - MESSAGE_OVERHEAD_TOKENS))
    return replace(message, content=min(shorter, message.content, key=len))


def _fit_event(event: RoomEvent, cap: int) -> RoomEvent:
    if event_tokens(event) <= cap:
        return event
    shorter = replace(event, content=TextContent(truncate_text(plain_text(event.content), chars_within(cap))))
    return min(shorter, event, key=event_tokens)
