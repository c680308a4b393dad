"""The arithmetic of the two tiers: when a conversation is shortened, where it is cut, to which size.

The problem: a model's context holds *max_context_tokens*, the room's history grows without end, and every
change near its beginning costs the provider's cache. Two tiers answer it, each above its own threshold:

- *Tier 1* (half of the context) truncates long texts in the older half of the events. It asks no model and
  touches no event: copies are shown.
- *Tier 2* (85 %) has the oldest events summarised. The tail that stays takes at most tier 2 less the summary
  and the injected messages; the event that overflows this is still kept, and so are *min_events*.

Worked example, 20 events of 1000 tokens in a context of 10,000: tier 2 begins at 8500; 8500 less 1000 for the
summary leaves 7500, so 7 events fit, the 8th overflows and is kept: 12 are summarised.

The first summary is due above tier 2. From then on the place of the cut stands until the context is really
full: its beginning stays the same from call to call, and the summariser is called once for many events
instead of once for each. Events that the inner window dropped wait as a *backlog* until they are worth a
summary. Nothing is ever left out silently: an item that alone is too large is shortened with a marker.

Pure arithmetic on token counts and texts, linear in its input. It calls no model and holds no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

from sidecar._internal.values import Value
from sidecar.rooms.ai import AIMessage
from sidecar.rooms.events import RoomEvent, RoomValueError, TextContent, plain_text
from sidecar.rooms.memory.estimate import (
    MESSAGE_OVERHEAD_TOKENS,
    chars_within,
    event_tokens,
    message_tokens,
)
from sidecar.rooms.memory.summaries import SUMMARY_OVERHEAD_TOKENS
from sidecar.text.clip import fair_cap


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """The settings of a summarising memory: tokens, but for *truncate_chars* and the count *min_events*."""

    max_context_tokens: int
    _: KW_ONLY
    tier1_ratio: float = 0.5
    tier2_ratio: float = 0.85
    truncate_chars: int = 2000
    summary_max_tokens: int = 1000
    min_events: int = 5

    def __post_init__(self) -> None:
        for name in ("max_context_tokens", "truncate_chars", "summary_max_tokens"):
            if getattr(self, name) < 1:
                raise RoomValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.min_events < 0:
            raise RoomValueError(f"min_events is {self.min_events}; it must not be negative")

    @property
    def tier1_tokens(self) -> int:
        """Above this the older half of the events is truncated."""
        return int(self.max_context_tokens * self.tier1_ratio)

    @property
    def tier2_tokens(self) -> int:
        """Above this the oldest events are summarised."""
        return int(self.max_context_tokens * self.tier2_ratio)

    def room_beside(self, current_tokens: int) -> int:
        """Return the tokens that history may have beside the current event.

        The channel sends a current event that alone exceeds the window whole, so it takes nothing from
        history.
        """
        if current_tokens < self.max_context_tokens:
            return self.max_context_tokens - current_tokens
        return self.max_context_tokens


class MemoryLoad(Value, kw_only=True):
    """The sizes that are to be fitted, in tokens.

    Attributes:
        room: the most that all may cost together.
        injected: messages that stay.
        summaries: messages that a new summary would replace.
        backlog: events that are not in the window and in no summary yet.
        window: the events, oldest first, that no summary covers.
        folded: whether the memory has a summary of its own.
    """

    room: int
    injected: int = 0
    summaries: int = 0
    backlog: int = 0
    window: Sequence[int] = ()
    folded: bool = False


def plan_cut(load: MemoryLoad, limits: MemoryLimits) -> int | None:
    """Return how many of the oldest window events must give way to a summary, or None when none is due.

    A backlog is due once it lifts the whole over tier 2 and is worth more than the summary may be; until
    then it waits. 0 means that only the backlog is due.

    >>> plan_cut(MemoryLoad(room=10_000, window=[1000] * 20), MemoryLimits(10_000))
    12
    >>> plan_cut(MemoryLoad(room=10_000, window=[1000] * 8), MemoryLimits(10_000)) is None
    True
    """
    total = load.injected + load.summaries + sum(load.window)
    cut = 0
    if total > (load.room if load.folded else limits.tier2_tokens) and len(load.window) > limits.min_events:
        kept = limits.tier2_tokens - limits.summary_max_tokens - load.injected
        cut = recency_cut(load.window, kept, limits.min_events)
    backlog_due = load.backlog > limits.summary_max_tokens and total + load.backlog > limits.tier2_tokens
    if not cut and not backlog_due and total + load.backlog <= load.room:
        return None
    reserve = limits.summary_max_tokens + SUMMARY_OVERHEAD_TOKENS
    cut = max(cut, tail_cut(load.window, load.room - load.injected - reserve))
    return cut if cut or load.backlog else None


def recency_cut(costs: Sequence[int], budget: int, min_events: int) -> int:
    """Return the index of the first event to keep: the one that overflows *budget*, counted from the newest.

    Args:
        costs: tokens of each event, oldest first.
        budget: tokens that the events to keep may take; it may be negative.
        min_events: how many are kept in any case.

    Returns:
        An index into *costs*; 0 when everything fits.

    >>> recency_cut([1000] * 20, 7500, 5), recency_cut([1, 1], 9, 0)
    (12, 0)
    """
    running = 0
    for index in range(len(costs) - 1, -1, -1):
        running += costs[index]
        if running > budget and len(costs) - index >= min_events:
            return index
    return 0


def tail_cut(costs: Sequence[int], budget: int) -> int:
    """Return the index of the first event of the longest tail that fits *budget*; the newest always stays.

    >>> tail_cut([5, 5, 5], 10), tail_cut([5, 5, 5], 1), tail_cut([], 0)
    (1, 2, 0)
    """
    running = 0
    for index in range(len(costs) - 1, -1, -1):
        running += costs[index]
        if running > budget:
            return min(index + 1, len(costs) - 1)
    return 0


def truncate_text(body: str, max_chars: int) -> str:
    """Return *body*, or its beginning and a marker that gives its length, *max_chars* long together.

    Where not even the marker fits, the marker alone is returned.

    >>> truncate_text("x" * 50, 40)
    'xxxxxx\\n[... truncated from 50 chars ...]'
    """
    if len(body) <= max_chars:
        return body
    marker = f"\n[... truncated from {len(body)} chars ...]"
    return body[: max(0, max_chars - len(marker))] + marker


def truncate_older(events: Sequence[RoomEvent], max_chars: int) -> list[RoomEvent]:
    """Return *events* with the long texts of the older half truncated; all other contents stay.

    >>> from sidecar.rooms import EventSource
    >>> event = RoomEvent(room_id="r", source=EventSource("c", "sms"), content=TextContent("x" * 90))
    >>> [len(event.content.body) for event in truncate_older([event, event, event], 50)]
    [50, 90, 90]
    """
    half = len(events) // 2
    shown = list(events)
    for index, event in enumerate(events[:half]):
        content = event.content
        if isinstance(content, TextContent) and len(content.body) > max_chars:
            shown[index] = replace(
                event, content=replace(content, body=truncate_text(content.body, max_chars))
            )
    return shown


def fit_items(
    messages: Sequence[AIMessage], events: Sequence[RoomEvent], budget: int
) -> tuple[list[AIMessage], list[RoomEvent]]:
    """Shorten the largest of *messages* and *events*, visibly, until all fit.

    This is the last resort for items that cannot be left out: one event, or a message of the inner provider,
    that alone is too large. Messages made of parts are not touched. The originals stay whole.

    Args:
        messages: finished messages.
        events: events, oldest first.
        budget: tokens that all may take together.

    >>> messages, _ = fit_items([AIMessage("user", "x" * 400)], [], budget=20)
    >>> messages[0].content
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n[... truncated from 400 chars ...]'
    """
    texts = [message_tokens(message) for message in messages if isinstance(message.content, str)]
    parts = sum(message_tokens(message) for message in messages if not isinstance(message.content, str))
    sizes = texts + [event_tokens(event) for event in events]
    if parts + sum(sizes) <= budget:
        return list(messages), list(events)
    cap = fair_cap(sizes, budget - parts)
    return [fit_message(message, cap) for message in messages], [fit_event(event, cap) for event in events]


def fit_message(message: AIMessage, cap: int) -> AIMessage:
    """Return *message* with its text cut towards *cap* tokens: the marker is never cut, and nothing grows."""
    if not isinstance(message.content, str) or message_tokens(message) <= cap:
        return message
    shorter = truncate_text(message.content, chars_within(cap - MESSAGE_OVERHEAD_TOKENS))
    return replace(message, content=min(shorter, message.content, key=len))


def fit_event(event: RoomEvent, cap: int) -> RoomEvent:
    """Return *event* as a text cut towards *cap* tokens: the marker is never cut, and nothing grows."""
    if event_tokens(event) <= cap:
        return event
    shorter = replace(event, content=TextContent(truncate_text(plain_text(event.content), chars_within(cap))))
    return min(shorter, event, key=event_tokens)
