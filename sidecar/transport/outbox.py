"""The outbox: the queue of messages that go out to one client, in order.

The problem: responses and the events of several sessions share one stream. An event must never overtake a
message that was queued before it, nor fall behind one queued after it. A client that stops reading must
not cost memory without bound. And the long past of one session must not hold back everything else.

The queue therefore holds ready messages, as bytes, marks, and pasts. A mark says "send the events of this log
up to number n here"; a past is a series of events that is older than any log. Events stay in their log or
series, and are pulled and encoded only when the stream has room, so a waiting event costs nothing. A new
event moves the newest mark of its log forward, unless a message was queued behind that mark; then a new mark
is queued. ``epoch`` counts the queued messages to tell the two cases apart. For example, with logs a and b
and an answer::

    a:1  b:1  a:2  <answer>  a:3     leads to the queue     [a up to 2] [b up to 1] <answer> [a up to 3]

The waiting events of one log are a :class:`Feed`, a cursor: a client that never reads costs its cursor and
nothing more. Events that the log has dropped meanwhile become a :class:`Gap`; waiting deltas of one message
are merged into one.

A past, or a log of which the client has missed much, may take seconds to send. It keeps its order with the
messages of its own session alone: with it begins a lane, and until that is empty, all messages of the session
are queued there. The lane itself stands in the queue like a message. When it is reached, it leaves the queue
and is sent beside it: each batch takes the messages of the queue first and then some of one lane after the
other. For example, with the past of a::

    <past of a>  b:1  <answer about a>  <answer>    leads to the queue    [lane of a] [b up to 1] <answer>
                                                    and to the lane       [past of a] <answer about a>

Responses are never dropped. When more bytes than the high-water mark wait, :attr:`Outbox.is_full` asks the
owner to accept no more work. Nothing here blocks or waits: the stream reports when it has room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, structs

from sidecar._internal.errors import log_fault
from sidecar._internal.values import Value, replace
from sidecar.transport.bounds import Account
from sidecar.transport.streams import ByteStream

if TYPE_CHECKING:
    from sidecar.conductor.events import Event, TextDelta, ThinkingDelta
    from sidecar.conductor.record.log import EventLog

HIGH_WATER_BYTES: Final = 8 * 1024 * 1024
_LOW_WATER_BYTES: Final = HIGH_WATER_BYTES // 2
_BATCH_BYTES: Final = 64 * 1024
_PULL_EVENTS: Final = 64
_LEAST_BYTES: Final = 16 * 1024
"""The size that so many events count at least: a batch ends also where the client wants few of them."""


class _Mark(Struct):
    """A place in the queue for the events of *feed* up to *up_to*; *epoch* counts the messages before it.

    *waiting_chars* counts the text of deltas that wait for more of their message.
    """

    feed: Feed
    encode: Callable[[FeedItem], Iterable[bytes]]
    up_to: int
    epoch: int
    waiting_chars: int = 0

    def take(self) -> tuple[Sequence[FeedItem], bool]:
        """Return the next events, and whether more follow."""
        items = self.feed.take(self.up_to, _PULL_EVENTS)
        if self.feed.cursor < self.up_to:
            return items, True
        self.epoch = -1  # no event may be added to a mark that has left the queue
        return items, False


class _Past(Struct):
    """A place in the queue for *events*, which are made and encoded when there is room to send them."""

    events: Iterator[Event]
    encode: Callable[[Event], Iterable[bytes]]

    def take(self) -> tuple[Sequence[FeedItem], bool]:
        """Return the next events, and whether more follow."""
        events: list[Event] = []
        try:
            events += islice(self.events, _PULL_EVENTS)
        except Exception as error:
            log_fault("replaying the past", error)
        return events, len(events) == _PULL_EVENTS


_Queue: TypeAlias = deque["bytes | _Mark | _Past | _Queue"]
"""Messages in their order; a queue in a queue is a lane."""


class _FollowedLog(Struct):
    """A followed log: its feed, its newest mark, and the call that ends the subscription.

    *burst* is the kind and the message of the newest delta.
    """

    feed: Feed
    stop: Callable[[], None]
    mark: _Mark
    burst: tuple[str, str] | None = None


class Outbox:
    """The queue of one stream.

    Args:
        stream: the way out.
        frame: wraps one message body for the wire.
        on_room: called when the queue was full and has become half empty.
        account: is told how many bytes wait.

    Attributes:
        is_full: whether the client reads too slowly, so that no more work should be accepted from it for now.
        is_corked: whether messages wait for :meth:`uncork`, so that all of them leave in one write.
    """

    def __init__(
        self,
        stream: ByteStream,
        frame: Callable[[bytes], bytes],
        on_room: Callable[[], None],
        account: Account,
    ) -> None:
        self._stream = stream
        self._account = account
        self._frame = frame
        self._on_room = on_room
        self._loop = asyncio.get_running_loop()
        self._queue: _Queue = deque()
        self._lanes: dict[str, _Queue] = {}
        self._begun: deque[_Queue] = deque()
        self._queued_states: set[bytes] = set()
        self._queued_bytes = 0
        self._written_bytes = 0
        self._epoch = 0
        self.is_full = False
        self._is_closed = False
        self._logs: dict[str, _FollowedLog] = {}
        self.is_corked = False
        self._is_due = False
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def unsent_bytes(self) -> int:
        """Bytes of ready messages that the kernel does not have yet."""
        return self._queued_bytes + (0 if self._stream.has_room else self._written_bytes)

    @property
    def has_lanes(self) -> bool:
        """Whether a past is being sent, so that it matters which session a message is about."""
        return bool(self._lanes)

    def put(self, body: bytes, sid: str | None = None) -> None:
        """Queue one message, of session *sid*; None for one that needs no order with any session."""
        self._put_framed(self._frame(body), sid)

    def _put_framed(self, framed: bytes, sid: str | None) -> None:
        if self._is_closed:
            return
        self._queue_of(sid).append(framed)
        self._queued_bytes += len(framed)
        unsent_bytes = self.unsent_bytes
        self._account.set(unsent_bytes)
        self.is_full = self.is_full or unsent_bytes >= HIGH_WATER_BYTES
        self._epoch += 1
        self._schedule()

    def put_state(self, body: bytes, sid: str | None = None) -> None:
        """Queue one message about a state, unless the queue is full and holds the same message already."""
        framed = self._frame(body)
        if not (self.is_full and framed in self._queued_states):
            self._queued_states.add(framed)
            self._put_framed(framed, sid)

    def put_past(self, sid: str, events: Iterator[Event], encode: Callable[[Event], Iterable[bytes]]) -> None:
        """Queue a series of events that may be long; each is made and encoded when there is room to send it.

        Args:
            sid: the session of the events.
            events: makes the events, the oldest first.
            encode: returns the message bodies for one event.
        """
        if not self._is_closed:
            self._open_lane(sid)
            self._queue_of(sid).append(_Past(events, encode))
            self._schedule()

    def put_if_room(self, body: bytes) -> None:
        """Queue one message that may be dropped when the queue is full."""
        if not self.is_full:
            self.put(body)

    def follow(
        self, log: EventLog, after_seq: int, projection: Projection, parent: str | None = None
    ) -> None:
        """Send the events of *log* from now on; a second call for the same log only skips ahead.

        Args:
            log: the event log of one session.
            after_seq: the number of the last event that the client has.
            projection: selects and encodes the events.
            parent: the session that started this one as a sub-agent; its events introduce this one.
        """
        if self._is_closed:
            return
        if parent is not None and parent in self._lanes:
            self._lanes.setdefault(log.sid, self._lanes[parent])
        followed = self._logs.get(log.sid)
        if followed is None or followed.feed.log is not log:
            self.unfollow(log.sid)
            feed = Feed(log, after_seq, projection)
            followed = _FollowedLog(
                feed, log.follow(self._on_event), _Mark(feed, projection.encode, after_seq, -1)
            )
            self._logs[log.sid] = followed
        followed.feed.skip_to(after_seq)
        if log.seq - followed.feed.cursor > _PULL_EVENTS:
            self._open_lane(log.sid)
        self._advance_mark(followed)
        self._schedule()

    def unfollow(self, sid: str) -> None:
        """Stop sending new events of session *sid*."""
        followed = self._logs.pop(sid, None)
        if followed is not None:
            followed.stop()

    def uncork(self) -> None:
        """Write the messages that were queued meanwhile, in this tick; deltas may wait for more of theirs."""
        self.is_corked = False
        if self._is_due:
            self.pump()

    def pump(self) -> None:
        """Write the next batch if the stream has room; further batches are scheduled."""
        self._unschedule()
        if self._stream.has_room and (self._queue or self._begun):
            batch = self._take_batch()
            self._written_bytes = len(batch)
            if batch:
                self._stream.write(batch)
        if self._stream.has_room:
            if self._queue or self._begun:
                self._schedule()
            else:
                self._idle.set()
        unsent_bytes = self.unsent_bytes
        self._account.set(unsent_bytes)
        if self.is_full and unsent_bytes <= _LOW_WATER_BYTES:
            self.is_full = False
            self._on_room()

    async def drain(self) -> None:
        """Return once the kernel has everything, or the queue was closed."""
        await self._idle.wait()

    def close(self) -> None:
        """Drop the queue and unfollow every log."""
        self._is_closed = True
        for sid in tuple(self._logs):
            self.unfollow(sid)
        self._queue.clear()
        self._lanes.clear()
        self._begun.clear()
        self._queued_states.clear()
        self._queued_bytes = self._written_bytes = 0
        self._account.set(0)
        self.is_full = False
        self._unschedule()
        self._idle.set()

    def _on_event(self, log: EventLog) -> None:
        """Mark a new event; a delta may wait for more of its message, up to a size and for a short time.

        The first delta of a message leaves in the same tick: a model that yields many at once keeps the loop.
        """
        followed = self._logs.get(log.sid)
        if followed is None or followed.feed.log is not log:
            return  # unfollowed while the log was notifying its followers
        self._advance_mark(followed)
        event = log.newest
        if event is None or event.data.kind not in MERGEABLE:
            self._schedule()
            return
        delta: TextDelta | ThinkingDelta = event.data  # type: ignore[assignment]  # its kind was checked
        burst = (delta.kind, delta.message_id)
        is_first, followed.burst = burst != followed.burst, burst
        coalesce_s = followed.feed.projection.coalesce_s
        followed.mark.waiting_chars += len(delta.delta)
        if is_first and not self.is_corked and not self.is_full:
            self.pump()
        elif not is_first and coalesce_s and followed.mark.waiting_chars < MERGED_CHARS:
            self._later = self._later or self._loop.call_later(coalesce_s, self.pump)
        else:
            self._schedule()

    def _advance_mark(self, followed: _FollowedLog) -> None:
        """Move the newest mark of this log to the log's end, or add one behind the last queued message."""
        up_to = followed.feed.log.seq
        if followed.mark.epoch == self._epoch:
            followed.mark.up_to = up_to
        else:
            feed = followed.feed
            followed.mark = _Mark(feed, feed.projection.encode, up_to, self._epoch)
            self._queue_of(feed.log.sid).append(followed.mark)
            self._idle.clear()

    def _schedule(self) -> None:
        self._idle.clear()
        if self.is_corked:
            self._is_due = True
        elif self._soon is None and self._stream.has_room:
            self._soon = self._loop.call_soon(self.pump)

    def _unschedule(self) -> None:
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()
        self._soon = self._later = None
        self._is_due = False

    def _queue_of(self, sid: str | None) -> _Queue:
        """Return the queue in which the messages of session *sid* stand in order."""
        return self._lanes.get(sid, self._queue) if sid is not None else self._queue

    def _open_lane(self, sid: str) -> None:
        """Queue the messages of session *sid* in a lane from now on; the caller queues the first one."""
        self._epoch += 1
        if sid not in self._lanes:
            self._lanes[sid] = lane = _Queue()
            self._queue.append(lane)

    def _take_batch(self) -> bytes:
        """Take framed messages until a batch is full; at least one lane that has begun gets its turn."""
        batch: list[bytes] = []
        size = 0
        while self._queue and size < _BATCH_BYTES:
            size += self._take(self._queue, batch)
        while self._begun:
            lane = self._begun.popleft()
            size += self._take(lane, batch)
            if lane:
                self._begun.append(lane)
            else:
                self._lanes = {sid: each for sid, each in self._lanes.items() if each is not lane}
            if size >= _BATCH_BYTES:
                break
        return b"".join(batch)

    def _take(self, queue: _Queue, batch: list[bytes]) -> int:
        """Move the first message of *queue* to *batch*, or events of its first mark; return their size."""
        head = queue[0]
        if isinstance(head, bytes):
            queue.popleft()
            self._queued_states.discard(head)
            self._queued_bytes -= len(head)
            batch.append(head)
            return len(head)
        if isinstance(head, deque):
            queue.popleft()
            self._begun.append(head)
            return 0
        items, has_more = head.take()
        if not has_more:
            queue.popleft()
        size = 0
        for item in items:
            try:
                for framed in map(self._frame, head.encode(item)):  # type: ignore[arg-type]  # of a past no gap
                    size += len(framed)
                    batch.append(framed)
            except Exception as error:
                # One event that cannot be encoded must not stop all others.
                log_fault("encoding an event", error)
        return max(size, _LEAST_BYTES) if has_more else size


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
