"""What goes out to one client, in order: ready messages, and marks for "the events of this log up to here".

Messages keep the order in which they were put, and events never overtake a message that was put before them
nor fall behind one put after. Events are pulled and encoded only when the stream has room, many to a write.
Responses are never dropped; when more than the high-water mark waits, :attr:`Outbox.is_full` asks the owner
to take no more work. Never blocks and never waits: the stream says when it has room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sidecar._internal.errors import log_fault
from sidecar.transport.feed import MERGED_CHARS, Feed, Projection, is_mergeable
from sidecar.transport.streams import ByteStream

if TYPE_CHECKING:
    from sidecar.conductor.log import EventLog

__all__ = ["HIGH_WATER_BYTES", "Outbox"]

HIGH_WATER_BYTES: Final = 8 * 1024 * 1024
_LOW_WATER_BYTES: Final = HIGH_WATER_BYTES // 2
_BATCH_BYTES: Final = 64 * 1024
_PULL_EVENTS: Final = 64


@dataclass(slots=True)
class _Mark:
    """Events of *feed* up to *up_to* go out here; *epoch* counts the messages put before."""

    feed: Feed
    up_to: int
    epoch: int


@dataclass(slots=True)
class _Following:
    """A followed log: its feed, its newest mark and how to stop hearing of it."""

    feed: Feed
    stop: Callable[[], None]
    mark: _Mark | None = None
    waiting_chars: int = 0


class Outbox:
    """The queue of one stream.

    Args:
        stream: where the bytes go.
        frame: wraps one body for the wire.
        on_room: called when the queue was full and is half empty again.
    """

    def __init__(
        self, stream: ByteStream, frame: Callable[[bytes], bytes], on_room: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._frame = frame
        self._on_room = on_room
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes | _Mark] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0
        self._epoch = 0
        self._is_full = False
        self._is_closed = False
        self._logs: dict[str, _Following] = {}
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def unsent_bytes(self) -> int:
        """Bytes of ready messages that the kernel does not have yet."""
        return self._queued_bytes + (0 if self._stream.has_room else self._written_bytes)

    @property
    def is_full(self) -> bool:
        """Whether the client reads too slowly for more work to be taken from it, until it has caught up."""
        return self._is_full

    def put(self, body: bytes) -> None:
        """Queue one message."""
        if self._is_closed:
            return
        framed = self._frame(body)
        self._queue.append(framed)
        self._queued_bytes += len(framed)
        self._is_full = self._is_full or self.unsent_bytes >= HIGH_WATER_BYTES
        self._epoch += 1
        self._schedule()

    def put_state(self, body: bytes) -> None:
        """Queue one message that tells a state: when full, one that waits already says the same."""
        if not (self.is_full and self._frame(body) in self._queue):
            self.put(body)

    def put_if_room(self, body: bytes) -> None:
        """Queue one message that nobody misses."""
        if not self.is_full:
            self.put(body)

    def follow(self, log: EventLog, after_seq: int, projection: Projection) -> None:
        """Send the events of *log* after *after_seq* from now on; following again only moves on."""
        if self._is_closed:
            return
        following = self._logs.get(log.sid)
        if following is None or following.feed.log is not log:
            self.unfollow(log.sid)
            following = _Following(Feed(log, after_seq, projection), log.follow(self._woken))
            self._logs[log.sid] = following
        following.feed.skip_to(after_seq)
        self._mark(following)
        self._schedule()

    def unfollow(self, sid: str) -> None:
        """Send nothing of session *sid* that happens from now on."""
        following = self._logs.pop(sid, None)
        if following is not None:
            following.stop()

    def pump(self) -> None:
        """Write the next batch if the stream has room; the rest follows by itself."""
        self._unschedule()
        if self._stream.has_room and self._queue:
            batch = b"".join(self._batch())
            self._written_bytes = len(batch)
            if batch:
                self._stream.write(batch)
        if self._stream.has_room and self._queue:
            self._schedule()
        if self._stream.has_room and not self._queue:
            self._idle.set()
        if self._is_full and self.unsent_bytes <= _LOW_WATER_BYTES:
            self._is_full = False
            self._on_room()

    async def drain(self) -> None:
        """Return once the kernel has everything, or the queue was closed."""
        await self._idle.wait()

    def close(self) -> None:
        """Drop what waits and follow nothing any more."""
        self._is_closed = True
        for sid in tuple(self._logs):
            self.unfollow(sid)
        self._queue.clear()
        self._queued_bytes = self._written_bytes = 0
        self._is_full = False
        self._unschedule()
        self._idle.set()

    def _woken(self, log: EventLog) -> None:
        """Take note of a new event; a delta may wait a little for more of its message."""
        following = self._logs.get(log.sid)
        if following is None or following.feed.log is not log:
            return  # stopped while the log was telling its followers
        self._mark(following)
        coalesce_s = following.feed.projection.coalesce_s
        if coalesce_s and self._soon is None and self._may_wait(following, log):
            self._later = self._later or self._loop.call_later(coalesce_s, self.pump)
        else:
            self._schedule()

    def _may_wait(self, following: _Following, log: EventLog) -> bool:
        newest = log.after(log.seq - 1, 1)
        if not newest or not is_mergeable(newest[0]):
            return False
        following.waiting_chars += len(newest[0].data.delta)  # type: ignore[union-attr]  # told by its kind
        return following.waiting_chars < MERGED_CHARS

    def _mark(self, following: _Following) -> None:
        """Let the newest mark of this log reach the log's end, unless a message was put behind it."""
        up_to = following.feed.log.seq
        if following.mark is not None and following.mark.epoch == self._epoch:
            following.mark.up_to = up_to
        else:
            following.mark = _Mark(following.feed, up_to, self._epoch)
            self._queue.append(following.mark)
        self._idle.clear()

    def _schedule(self) -> None:
        self._idle.clear()
        if self._soon is None and self._stream.has_room:
            self._soon = self._loop.call_soon(self.pump)

    def _unschedule(self) -> None:
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()
        self._soon = self._later = None

    def _batch(self) -> Iterator[bytes]:
        """Take messages off the queue until a batch is full."""
        size = 0
        while self._queue and size < _BATCH_BYTES:
            head = self._queue[0]
            if isinstance(head, _Mark):
                for framed in self._pull(head):
                    size += len(framed)
                    yield framed
            else:
                self._queue.popleft()
                self._queued_bytes -= len(head)
                size += len(head)
                yield head

    def _pull(self, mark: _Mark) -> Iterator[bytes]:
        """Take the next events of a mark; the last ones take it off the queue."""
        items = mark.feed.take(mark.up_to, _PULL_EVENTS)
        if mark.feed.cursor >= mark.up_to:
            self._queue.popleft()
            self._forget(mark)
        for item in items:
            try:
                yield from map(self._frame, mark.feed.projection.encode(item))
            except Exception as error:
                # One event that cannot be told must not end the telling of all others.
                log_fault("encoding an event", error)

    def _forget(self, mark: _Mark) -> None:
        following = self._logs.get(mark.feed.log.sid)
        if following is not None and following.mark is mark:
            following.mark = None
            following.waiting_chars = 0
