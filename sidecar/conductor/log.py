"""The event log of a session: append-only, numbered, followed by any number of readers with their own cursor.

Readers pull; the log never pushes bytes and never waits for anyone. It lets go of deltas that a later
``message`` restates, and of the oldest events of a very long log: a reader sees that as a jump in ``seq``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from sidecar.conductor.events import Event, Message, Payload, is_delta

__all__ = ["KEEP_EVENTS", "EventLog"]

KEEP_EVENTS = 20_000
"""How many events of a session are kept, about; the oldest go first."""

_SWEEP_EVERY = 1_000


class EventLog:
    """The log of one session. ``seq`` continues from *start*, the last number of an earlier process."""

    def __init__(self, sid: str, clock_ms: Callable[[], int], start: int = 0) -> None:
        self.sid = sid
        self._clock_ms = clock_ms
        self._events: list[Event] = []
        self._seqs: list[int] = []
        self._last = start
        self._since_sweep = 0
        self._followers: list[Callable[[EventLog], None]] = []

    @property
    def seq(self) -> int:
        """The number of the newest event."""
        return self._last

    def append(self, data: Payload, turn_id: str | None = None) -> Event:
        """Add one event and wake the followers."""
        self._last += 1
        event = Event(self.sid, self._last, self._clock_ms(), data, turn_id)
        self._events.append(event)
        self._seqs.append(event.seq)
        self._since_sweep += 1
        if self._since_sweep >= _SWEEP_EVERY:
            self._sweep()
        for follower in tuple(self._followers):
            follower(self)
        return event

    def after(self, seq: int, limit: int = 256) -> tuple[Event, ...]:
        """Return up to *limit* kept events after *seq*; a jump between two numbers is a gap."""
        index = bisect_right(self._seqs, seq)
        return tuple(self._events[index : index + limit])

    def follow(self, wake: Callable[[EventLog], None]) -> Callable[[], None]:
        """Call *wake* after every append until the returned disposer is called; it must not raise."""
        self._followers.append(wake)

        def stop() -> None:
            if wake in self._followers:
                self._followers.remove(wake)

        return stop

    def _sweep(self) -> None:
        self._since_sweep = 0
        restated = max((e.seq for e in self._events if isinstance(e.data, Message)), default=0)
        kept = [event for event in self._events if event.seq > restated or not is_delta(event)]
        if len(kept) > KEEP_EVENTS:
            kept = kept[-KEEP_EVENTS // 2 :]
        self._events = kept
        self._seqs = [event.seq for event in kept]
