"""One client's place in one session's event log: a cursor, pulled when there is room to send.

A client that never reads costs its cursor and nothing more. What the log has let go of meanwhile is a
:class:`Gap`; deltas of one message that wait next to each other are merged. Never waits, never encodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:  # the shim and both faces import this room first; an event is looked at, never made here
    from sidecar.conductor.events import Event, TextDelta, ThinkingDelta
    from sidecar.conductor.log import EventLog

__all__ = ["MERGED_CHARS", "Feed", "FeedItem", "Gap", "Projection", "is_mergeable"]

MERGED_CHARS: Final = 4 * 1024
"""The most text a merged delta holds, unless one was longer by itself."""

_MERGEABLE: Final = frozenset({"textDelta", "thinkingDelta"})


@dataclass(frozen=True, slots=True)
class Gap:
    """Events *first* to *last* of session *sid* are gone.

    *reason* is ``slowClient``, or ``notKept`` for those from before the client joined.
    """

    sid: str
    first: int
    last: int
    reason: str


FeedItem: TypeAlias = "Event | Gap"


@dataclass(frozen=True, slots=True)
class Projection:
    """How one client sees a log.

    *wants* tells by its kind whether an event is sent at all, *encode* makes the bodies of one item.
    *coalesce_s*: a delta may wait so long for more of its message, in seconds.
    """

    wants: Callable[[str], bool]
    encode: Callable[[FeedItem], Iterable[bytes]]
    coalesce_s: float = 0.0


class Feed:
    """A place in *log*, beginning after *after_seq*."""

    def __init__(self, log: EventLog, after_seq: int, projection: Projection) -> None:
        self.log = log
        self.projection = projection
        self.cursor = after_seq
        self._joined_at = log.seq

    def skip_to(self, seq: int) -> None:
        """Leave out what comes before *seq*; never goes back."""
        if seq > self.cursor:
            self.cursor = seq

    def take(self, up_to: int, limit: int) -> list[FeedItem]:
        """Move on by at most *limit* events, not beyond *up_to*, and return what is to be sent."""
        events = self.log.after(self.cursor, limit)
        items: list[FeedItem] = []
        for event in events:
            if event.seq > up_to:
                break
            self._note_gap(items, event.seq - 1)
            self.cursor = event.seq
            if self.projection.wants(event.data.kind):
                _append_or_merge(items, event)
        if len(events) < limit or self.cursor < events[-1].seq:
            # Everything there is was seen: what is missing up to the mark is not in the log any more.
            self._note_gap(items, up_to)
            self.cursor = max(self.cursor, up_to)
        return items

    def _note_gap(self, items: list[FeedItem], last: int) -> None:
        if last > self.cursor:
            reason = "notKept" if last <= self._joined_at else "slowClient"
            items.append(Gap(self.log.sid, self.cursor + 1, last, reason))


def is_mergeable(event: Event) -> bool:
    """Whether *event* may wait for more of its message."""
    return event.data.kind in _MERGEABLE


def _append_or_merge(items: list[FeedItem], event: Event) -> None:
    merged = _merged(items[-1], event) if items and event.data.kind in _MERGEABLE else None
    if merged is None:
        items.append(event)
    else:
        items[-1] = merged


def _merged(before: FeedItem, event: Event) -> Event | None:
    """Return *before* with the delta of *event* added, or None when they do not belong together."""
    if isinstance(before, Gap) or before.data.kind != event.data.kind or before.turn_id != event.turn_id:
        return None
    first: TextDelta | ThinkingDelta = before.data  # type: ignore[assignment]  # told by its kind
    second: TextDelta | ThinkingDelta = event.data  # type: ignore[assignment]  # told by its kind
    if first.message_id != second.message_id or len(first.delta) + len(second.delta) > MERGED_CHARS:
        return None
    return replace(event, data=replace(first, delta=first.delta + second.delta))
