"""The event log of a session: append-only, numbered, read by any number of readers with their own cursors.

A reader pulls events after the ``seq`` that it has; the log pushes nothing and waits for nobody. A long
session would fill the memory, so the log forgets, in sweeps:

* a delta, once a later event holds its whole text and it is 1,000 events old, or after 10,000 events in any
  case;
* a state, such as the queue or the options, once a later event renews it and it is 1,000 events old;
* the oldest other events, when more than 50,000 events or 64 million characters are held.

Other events of the running turn are never forgotten. A reader sees forgotten events as a gap in
``seq``. A sweep looks at every event and runs when the log has grown by half, so an append costs O(1) on
average. The log keeps the parts of its events, numbers as 64 bits each, and makes an event for its readers:
with tens of thousands of them that is a third of the memory.

For example, of the events 1 ``textDelta``, 2 ``textDelta``, 3 ``message`` of one answer a sweep that comes
1,000 events later keeps event 3 alone, because it supersedes the other two.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

from sidecar._internal.errors import call_all
from sidecar.conductor.contract import Compaction, ContextUsage
from sidecar.conductor.events import (
    CommandsChanged,
    CompactionSummaryDelta,
    ConfigChanged,
    Event,
    Faulted,
    InfoChanged,
    Message,
    Payload,
    PlanChanged,
    QueueChanged,
    Retry,
    RulesChanged,
    Settled,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    UserMessage,
)

KEEP_EVENTS: Final = 50_000
"""The most events that are kept after a sweep, deltas excluded."""

_KEEP_CHARS: Final = 64_000_000
"""The most characters that the kept events hold together."""

_KEEP_DELTAS: Final = 10_000
"""The age, in events, at which a delta is forgotten although no event supersedes it."""

_FRESH: Final = 1_000
"""The age, in events, up to which every delta is kept, so that a reader which keeps up misses none."""

_SWEEP_SHARE: Final = 2
"""A sweep runs when the log has grown by one part in this many."""

_LAST_OF_TURN: Final = frozenset({Settled.kind, Faulted.kind})

_TEXT_FIELDS: Final[Mapping[str, str]] = {
    TextDelta.kind: "delta",
    ThinkingDelta.kind: "delta",
    CompactionSummaryDelta.kind: "delta",
    UserMessage.kind: "content",
    Message.kind: "content",
    ToolStarted.kind: "input",
    ToolProgress.kind: "content",
    ToolFinished.kind: "content",
    InfoChanged.kind: "title",
}
"""The field that holds text of any length, by the kind of the event."""

_DELTA_IDS: Final[dict[type[Any], str]] = {
    TextDelta: "message_id",
    ThinkingDelta: "message_id",
    ToolProgress: "tool_call_id",
    CompactionSummaryDelta: "compaction_id",
}
_WHOLE_IDS: Final[dict[type[Any], str]] = {
    Message: "message_id",
    Retry: "withdrawn",
    ToolFinished: "tool_call_id",
    Compaction: "compaction_id",
}
_STATES: Final[frozenset[type[Any]]] = frozenset(
    {PlanChanged, ContextUsage, QueueChanged, ConfigChanged, CommandsChanged, InfoChanged, RulesChanged}
)
"""The events that hold a whole state of the session, of which only the newest counts."""


class EventLog:
    """The log of one session. Numbers continue after *start*, the last one of an earlier process.

    Attributes:
        seq: the number of the newest event.
        newest: the newest event, None before the first one of this process.
    """

    def __init__(self, sid: str, clock_ms: Callable[[], int], start: int = 0) -> None:
        self.sid = sid
        self._clock_ms = clock_ms
        self._payloads: list[Payload] = []
        self._turn_ids: list[str | None] = []
        self._seqs, self._times, self._sizes = array("q"), array("q"), array("q")
        self.seq = start
        self.newest: Event | None = None
        self._sweep_at = _FRESH
        self._n_chars = 0
        self._sweep_at_chars = _KEEP_CHARS
        self._running: str | None = None
        self._running_from = 0
        self._followers: list[Callable[[EventLog], None]] = []

    def append(self, data: Payload, turn_id: str | None = None) -> Event:
        """Add one event and call the followers."""
        self.seq += 1
        event = self.newest = Event(self.sid, self.seq, self._clock_ms(), data, turn_id)
        self._payloads.append(data)
        self._turn_ids.append(turn_id)
        self._seqs.append(event.seq)
        self._times.append(event.at)
        size = _size_of(data)
        self._sizes.append(size)
        self._n_chars += size
        # A turn that never ran settles without having begun.
        if data.kind in _LAST_OF_TURN:
            if turn_id == self._running:
                self._running = None
        elif turn_id is not None and turn_id != self._running:
            self._running, self._running_from = turn_id, self.seq
        if len(self._payloads) >= self._sweep_at or self._n_chars >= self._sweep_at_chars:
            self._sweep()
        call_all(self._followers, "a reader of an event log", self)
        return event

    def after(self, seq: int, limit: int = 256) -> tuple[Event, ...]:
        """Return up to *limit* events after *seq*; a gap between two numbers stands for forgotten events."""
        start = bisect_right(self._seqs, seq)
        part = slice(start, start + limit)
        columns = (self._seqs[part], self._times[part], self._payloads[part], self._turn_ids[part])
        return tuple(map(Event, repeat(self.sid), *columns))

    def follow(self, wake: Callable[[EventLog], None]) -> Callable[[], None]:
        """Call *wake* after every append until the returned disposer is called; exceptions are logged."""
        self._followers.append(wake)

        def stop() -> None:
            if wake in self._followers:
                self._followers.remove(wake)

        return stop

    def _sweep(self) -> None:
        kept = without_superseded(self._seqs, self._payloads, self.seq)
        protected = self._running_from if self._running is not None else self.seq + 1
        within = first_within([self._sizes[at] for at in kept], _KEEP_CHARS)
        oldest = max(0, len(kept) - KEEP_EVENTS, within)
        kept = [at for at in kept[:oldest] if self._seqs[at] >= protected] + kept[oldest:]
        self._payloads = [self._payloads[at] for at in kept]
        self._turn_ids = [self._turn_ids[at] for at in kept]
        self._seqs, self._times, self._sizes = (
            array("q", map(column.__getitem__, kept)) for column in (self._seqs, self._times, self._sizes)
        )
        self._n_chars = sum(self._sizes)
        self._sweep_at_chars = max(_KEEP_CHARS, self._n_chars) * (_SWEEP_SHARE + 1) // _SWEEP_SHARE
        self._sweep_at = len(kept) + max(_FRESH, len(kept) // _SWEEP_SHARE)


def first_within(sizes: Sequence[int], most: int) -> int:
    """Return the first index from which *sizes* add up to at most *most*, at the latest the last index."""
    surplus = sum(sizes) - most
    for index, size in enumerate(sizes):
        if surplus <= 0:
            return index
        surplus -= size
    return max(0, len(sizes) - 1)


def without_superseded(seqs: Sequence[int], payloads: Sequence[Payload], last: int) -> list[int]:
    """Return the indexes of events, without the deltas and states that a later event supersedes.

    Deltas that are too old are left out as well. *seqs* are the numbers of the events, *last* the newest.
    """
    fresh, too_old = last - _FRESH, last - _KEEP_DELTAS
    superseded: set[str] = set()
    renewed: set[type[Any]] = set()
    kept: list[int] = []
    for at in range(len(seqs) - 1, -1, -1):
        seq, data = seqs[at], payloads[at]
        kind = type(data)
        is_gone = False
        if kind in _DELTA_IDS:
            is_gone = seq <= fresh and (seq <= too_old or delta_of(data) in superseded)
        elif kind in _STATES:
            is_gone = seq <= fresh and kind in renewed
            renewed.add(kind)
        elif kind in _WHOLE_IDS and (whole := supersedes(data)) is not None:
            superseded.add(whole)
        if not is_gone:
            kept.append(at)
    kept.reverse()
    return kept


def _size_of(data: Payload) -> int:
    """Return the approximate number of characters of text in *data*.

    >>> _size_of(Message("m", ({"type": "text", "text": "Hello"},)))
    9
    """
    name = _TEXT_FIELDS.get(data.kind)
    n_chars = count_chars(getattr(data, name)) if name is not None else 0
    if isinstance(data, ToolFinished):
        n_chars += sum(len(diff.old_text or "") + len(diff.new_text) for diff in data.diffs)
    return n_chars


def count_chars(value: Any) -> int:
    """Return the number of characters in the texts of a JSON value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(count_chars, value.values()))
    return sum(map(count_chars, value)) if isinstance(value, list | tuple) else 0


def delta_of(data: Payload) -> str | None:
    """Return the id of the message, call or compaction that *data* is a delta of, None for other events.

    A slow client may miss deltas.

    >>> delta_of(TextDelta("m", "Hel")), delta_of(Message("m", ()))
    ('m', None)
    """
    name = _DELTA_IDS.get(type(data))
    return None if name is None else str(getattr(data, name))


def supersedes(data: Payload) -> str | None:
    """Return the id of the message, call or compaction that *data* holds whole or withdraws, else None.

    Such an event supersedes the deltas with the same id.

    >>> supersedes(Message("m", ())), supersedes(TextDelta("m", "lo"))
    ('m', None)
    """
    name = _WHOLE_IDS.get(type(data))
    if name is None or (isinstance(data, Compaction) and data.status == "in_progress"):
        return None
    found = getattr(data, name)
    return None if found is None else str(found)
