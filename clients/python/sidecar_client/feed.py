"""A bounded log of what came in, followed by any number of readers, each with its own place.

Readers pull; nothing here waits for a reader. When more than the limit is kept, the oldest items go, and a
reader that had not got to them is told so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final, Generic, TypeVar

__all__ = ["LIMIT_BYTES", "Feed", "Stream"]

T = TypeVar("T")

LIMIT_BYTES: Final = 8 * 1024 * 1024


class Feed(Generic[T]):
    """The newest items, in the order they came, at most *limit_bytes* of them by their sizes.

    *lose* makes the notice of what was let go: of the notice so far, None at first, and one item more.
    """

    def __init__(self, lose: Callable[[T | None, T], T], limit_bytes: int = LIMIT_BYTES) -> None:
        self._lose = lose
        self._limit = limit_bytes
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
        """Add an item of *size* bytes; the newest is kept whatever it weighs."""
        self._items.append((size, item))
        self._bytes += size
        while self._bytes > self._limit and len(self._items) > 1:
            gone, oldest = self._items.popleft()
            self._bytes -= gone
            self._begin += 1
            self._lost = self._lose(self._lost, oldest)
        self._wake()

    def close(self, error: Exception | None = None) -> None:
        """Let readers finish what is kept; then they stop, or raise *error*. Only the first call counts."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    async def next(self, place: int) -> tuple[int, T]:
        """Wait for the item at *place*, or the notice that it is lost, and return it with the place after.

        Raises StopAsyncIteration, or the error, at the end.
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


class Stream(AsyncIterator[T]):
    """One reader of a feed, from *place* on. It holds nothing open: leave it whenever you like."""

    def __init__(self, feed: Feed[T], place: int) -> None:
        self._feed = feed
        self._place = place

    async def __anext__(self) -> T:
        """Return the next item, waiting for it."""
        self._place, item = await self._feed.next(self._place)
        return item
