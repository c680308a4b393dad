"""What the daemon tells unasked: the events of sessions, and everything else as plain notifications.

Payloads stay the JSON the daemon sent, so that a kind this client does not know gets through.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sidecar_client.feed import LIMIT_BYTES, Feed, Stream

__all__ = [
    "GAP",
    "UNREAD",
    "ClientEvent",
    "EventFeed",
    "EventStream",
    "Notification",
    "event_of",
    "gap_of",
    "lose_notification",
]

GAP: Final = "gap"
"""The kind of the notice that stands for lost events: ``data = {from, to, reason}``."""

UNREAD: Final = "unread"
"""The reason of a gap that this client made, because nobody read for too long; any kind may be lost."""


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """One event of a session.

    Attributes:
        sid: the session.
        seq: its number in the session's log; 0 for the past that a load sends again; for a gap the last lost.
        at: epoch milliseconds; for a gap when it was noticed.
        kind: ``textDelta``, ``toolStarted``, ``settled``, ...; ``gap`` where events are lost.
        data: the payload, as sent.
        turn_id: the turn it belongs to, if any.
    """

    sid: str
    seq: int
    at: int
    kind: str
    data: Mapping[str, Any]
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification that is no session event; *method* is ``gap`` where some are lost."""

    method: str
    params: Mapping[str, Any]


def event_of(params: Mapping[str, Any]) -> ClientEvent:
    """Return the event in the params of ``sidecar/event``. Raises KeyError for a missing field."""
    return ClientEvent(
        params["sid"],
        params["seq"],
        params["at"],
        params["kind"],
        params.get("data", {}),
        params.get("turnId"),
    )


def gap_of(params: Mapping[str, Any]) -> ClientEvent:
    """Return the notice in the params of ``sidecar/gap``. Raises KeyError for a missing field."""
    return _gap(params["sid"], params["from"], params["to"], params.get("reason", ""))


def lose_notification(before: Notification | None, _gone: Notification) -> Notification:
    """Return the notice of one notification more that was let go."""
    return Notification(GAP, {"count": 1 if before is None else before.params["count"] + 1})


class EventFeed(Feed[ClientEvent]):
    """The events of one session; ``seq`` is the number of the newest."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(_lose_event, limit_bytes)
        self.seq = 0

    def push(self, item: ClientEvent, size: int) -> None:
        """Add an event of *size* bytes."""
        self.seq = max(self.seq, item.seq)
        super().push(item, size)

    def read(self, after_seq: int | None) -> EventStream:
        """Return a reader of what comes from now on, or of all after *after_seq* that is kept and comes."""
        if after_seq is None:
            return EventStream(self, self.end, self.seq, takes_past=True)
        return EventStream(self, 0, after_seq, takes_past=False)


class EventStream(AsyncIterator[ClientEvent]):
    """One reader of a session's events: each number once, ascending; the past as it is sent again, or not."""

    def __init__(self, feed: EventFeed, place: int, after_seq: int, *, takes_past: bool) -> None:
        self._items = Stream(feed, place)
        self._seq = after_seq
        self._takes_past = takes_past

    async def __anext__(self) -> ClientEvent:
        """Return the next event, waiting for it."""
        while True:
            event = await anext(self._items)
            if event.seq > self._seq:
                first, self._seq = self._seq + 1, event.seq
                return replace(event, data={**event.data, "from": first}) if _is_unread(event) else event
            if self._takes_past and (event.seq == 0 or _is_unread(event)):
                # What was let go and is not new to this reader is of the past, which has number 0.
                return _gap(event.sid, 0, 0, UNREAD) if _is_unread(event) else event


def _is_unread(event: ClientEvent) -> bool:
    return event.kind == GAP and event.data["reason"] == UNREAD


def _lose_event(before: ClientEvent | None, gone: ClientEvent) -> ClientEvent:
    last = gone.seq if before is None else max(before.seq, gone.seq)
    return _gap(gone.sid, 0, last, UNREAD)


def _gap(sid: str, first: int, last: int, reason: str) -> ClientEvent:
    now_ms = time.time_ns() // 1_000_000
    return ClientEvent(sid, last, now_ms, GAP, {"from": first, "to": last, "reason": reason})
