"""Events of sessions and other notifications, kept in bounded logs for any number of readers.

Readers pull; a log never waits for a reader. When a log is over its limit its oldest items are dropped, and
a reader that had not read them gets a notice. Payloads stay the JSON that the daemon sent, so that unknown
kinds get through.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

LIMIT_BYTES: Final = 8 * 1024 * 1024
GAP: Final = "gap"
"""The kind of the notice of lost events: ``data = {from, to, reason}``."""

UNREAD: Final = "unread"
"""The reason of a gap that this client made, because it did not read; any kind may be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEvent:
    """One event of a session.

    Attributes:
        sid: the session.
        seq: its number in the session's log; 0 for the past that a load sends again; for a gap the last lost.
        at: epoch milliseconds; for a gap the time at which it was noticed.
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
    """One notification that is not a session event; *method* is ``gap`` where some are lost."""

    method: str
    params: Mapping[str, Any]


def event_of(params: Mapping[str, Any]) -> ClientEvent:
    """Return the event in the params of ``sidecar/event``. Raises KeyError for a missing field."""
    return ClientEvent(
        sid=params["sid"],
        seq=params["seq"],
        at=params["at"],
        kind=params["kind"],
        data=params.get("data", {}),
        turn_id=params.get("turnId"),
    )


def gap_of(params: Mapping[str, Any]) -> ClientEvent:
    """Return the notice in the params of ``sidecar/gap``. Raises KeyError for a missing field."""
    return _gap(params["sid"], params["from"], params["to"], params.get("reason", ""))


def count_lost_notification(before: Notification | None, _gone: Notification) -> Notification:
    """Return the notice *before*, or a new one, with one more lost notification."""
    return Notification(GAP, {"count": 1 if before is None else before.params["count"] + 1})


class BoundedLog(Generic[T]):
    """The newest items, in the order in which they came.

    Args:
        lose: returns the notice of lost items, from the notice so far, None at first, and one more item.
        limit_bytes: the most bytes to keep. An item counts for little more than half of them, however long
            it is: so one that no reader has seen yet does not give way to the next short one.
    """

    def __init__(self, lose: Callable[[T | None, T], T], limit_bytes: int = LIMIT_BYTES) -> None:
        self._lose = lose
        self._limit = limit_bytes
        self._most_of_one = limit_bytes // 2 + 1
        self._items: deque[tuple[int, T]] = deque()
        self._bytes = 0
        self._begin = 0
        self._lost: T | None = None
        self._ended = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()

    @property
    def end(self) -> int:
        """The place after the newest item; places count from 0 and are never used again."""
        return self._begin + len(self._items)

    def push(self, item: T, size: int) -> None:
        """Add an item of *size* bytes; the newest one is always kept."""
        size = min(size, self._most_of_one)
        self._items.append((size, item))
        self._bytes += size
        while self._bytes > self._limit and len(self._items) > 1:
            gone, oldest = self._items.popleft()
            self._bytes -= gone
            self._begin += 1
            self._lost = self._lose(self._lost, oldest)
        self._wake()

    def close(self, error: Exception | None = None) -> None:
        """End the log; readers get the remaining items, then stop or raise *error*. The first call counts."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    async def next(self, place: int) -> tuple[int, T]:
        """Wait for the item at *place*, or the notice that it is lost; return it with the next place.

        Raises StopAsyncIteration, or the error of :meth:`close`, at the end.
        """
        while place >= self.end:
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self._ended:
                raise StopAsyncIteration
            await self._changed.wait()
        if place < self._begin and self._lost is not None:
            return self._begin, self._lost
        return place + 1, self._items[place - self._begin][1]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class LogReader(AsyncIterator[T]):
    """One reader of a log, from *place* on. It can be abandoned at any time."""

    def __init__(self, log: BoundedLog[T], place: int) -> None:
        self._log = log
        self._place = place

    async def __anext__(self) -> T:
        """Return the next item, waiting for it."""
        self._place, item = await self._log.next(self._place)
        return item


class SessionEventLog(BoundedLog[ClientEvent]):
    """The events of one session; ``seq`` is the number of the newest one."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(_extend_gap, limit_bytes)
        self.seq = 0

    def push(self, item: ClientEvent, size: int) -> None:
        """Add an event of *size* bytes."""
        self.seq = max(self.seq, item.seq)
        super().push(item, size)

    def read(self, after_seq: int | None) -> EventStream:
        """Return a reader of all events after *after_seq*, kept or future; with None only of future ones."""
        if after_seq is None:
            return EventStream(self, self.end, self.seq, takes_past=True)
        return EventStream(self, 0, after_seq, takes_past=False)


class EventStream(AsyncIterator[ClientEvent]):
    """One reader of a session's events: each number once, ascending.

    Args:
        log: the events of the session.
        place: the place in the log to begin at.
        after_seq: the number of the last event to leave out.
        takes_past: whether events of the past that a load sends again are returned.
    """

    def __init__(self, log: SessionEventLog, place: int, after_seq: int, *, takes_past: bool) -> None:
        self._items = LogReader(log, place)
        self._seq = after_seq
        self._takes_past = takes_past

    async def __anext__(self) -> ClientEvent:
        """Return the next event, waiting for it."""
        while True:
            event = await anext(self._items)
            if event.seq > self._seq:
                first, self._seq = self._seq + 1, event.seq
                return replace(event, data={**event.data, "from": first}) if is_unread(event) else event
            if self._takes_past and (event.seq == 0 or is_unread(event)):
                # A lost event that is not new to this reader belongs to the past, which has number 0.
                return _gap(event.sid, 0, 0, UNREAD) if is_unread(event) else event


def is_unread(event: ClientEvent) -> bool:
    """Whether *event* is the notice that this client did not read some events in time."""
    return event.kind == GAP and event.data["reason"] == UNREAD


def _extend_gap(before: ClientEvent | None, gone: ClientEvent) -> ClientEvent:
    last = gone.seq if before is None else max(before.seq, gone.seq)
    return _gap(gone.sid, 0, last, UNREAD)


def _gap(sid: str, first: int, last: int, reason: str) -> ClientEvent:
    now_ms = time.time_ns() // 1_000_000
    data = {"from": first, "to": last, "reason": reason}
    return ClientEvent(sid=sid, seq=last, at=now_ms, kind=GAP, data=data)
