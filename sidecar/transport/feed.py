"""Feeds: cursors in the event logs, each the view that one client has of one session.

A cursor is advanced when there is room to send. A client that never reads costs its cursor and nothing more.
Events that the log has dropped meanwhile become a :class:`Gap`; waiting deltas of one message are merged into
one. A feed never waits and never encodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import structs

from sidecar._internal.values import Value, replace

if TYPE_CHECKING:  # the shim and both faces import this room first; it reads events and never creates one
    from sidecar.conductor.events import Event, TextDelta, ThinkingDelta
    from sidecar.conductor.record.log import EventLog

MERGED_CHARS: Final = 4 * 1024
"""The most text that a merged delta holds, unless one delta was longer by itself."""

MERGEABLE: Final = frozenset({"textDelta", "thinkingDelta"})
"""The kinds of events that may wait for more of their message."""


class Gap(Value):
    """The events *first* to *last* of session *sid*, which are lost.

    *reason* is ``slowClient``, or ``notKept`` for events from before the client joined.
    """

    sid: str
    first: int
    last: int
    reason: str


FeedItem: TypeAlias = "Event | Gap"


class Projection(Value):
    """The view that one client has of a log.

    Attributes:
        wants: decides by an event's kind whether it is sent; None sends all.
        encode: returns the message bodies for one item.
        coalesce_s: how long a delta may wait for more of its message, in seconds.
    """

    wants: Callable[[str], bool] | None
    encode: Callable[[FeedItem], Iterable[bytes]]
    coalesce_s: float = 0.0


class Feed:
    """A cursor in an event log.

    Args:
        log: the events of one session.
        after_seq: the number of the last event that the client has.
        projection: the client's view of the log.
    """

    def __init__(self, log: EventLog, after_seq: int, projection: Projection) -> None:
        self.log = log
        self.projection = projection
        self.cursor = after_seq
        self._joined_at = log.seq

    def skip_to(self, seq: int) -> None:
        """Move the cursor on to *seq*; it never goes back."""
        if seq > self.cursor:
            self.cursor = seq

    def take(self, up_to: int, limit: int) -> list[FeedItem]:
        """Return the next items to send, and advance the cursor.

        Args:
            up_to: the number of the last event that may be taken.
            limit: the most events to read from the log, at least 1.
        """
        events, wants = self.log.after(self.cursor, limit), self.projection.wants
        items: list[FeedItem] = []
        for event in events:
            if event.seq > up_to:
                break
            if event.seq - 1 > self.cursor:
                self._add_gap(items, event.seq - 1)
            self.cursor = event.seq
            if wants is None or wants(event.data.kind):
                merged = merge_deltas(items[-1], event) if items and event.data.kind in MERGEABLE else None
                if merged is None:
                    items.append(event)
                else:
                    items[-1] = merged
        is_at_end = len(events) < limit or self.cursor < events[-1].seq
        if is_at_end and up_to > self.cursor:
            # The log has no more: events that are missing up to the mark were dropped.
            self._add_gap(items, up_to)
            self.cursor = up_to
        return items

    def _add_gap(self, items: list[FeedItem], last: int) -> None:
        reason = "notKept" if last <= self._joined_at else "slowClient"
        items.append(Gap(self.log.sid, self.cursor + 1, last, reason))


def merge_deltas(before: FeedItem, event: Event) -> Event | None:
    """Return *before* with the delta of *event* added, or None when they are not parts of one message."""
    if isinstance(before, Gap) or before.data.kind != event.data.kind or before.turn_id != event.turn_id:
        return None
    first: TextDelta | ThinkingDelta = before.data  # type: ignore[assignment]  # its kind was checked
    second: TextDelta | ThinkingDelta = event.data  # type: ignore[assignment]  # its kind was checked
    if first.message_id != second.message_id or len(first.delta) + len(second.delta) > MERGED_CHARS:
        return None
    return structs.replace(event, data=replace(first, delta=first.delta + second.delta))
