"""A bounded log of what came in, followed by any number of readers, each with its own place.

Readers pull; nothing here waits for a reader. When more than the limit is kept, the oldest entries go, and a
reader that had not got to them is told so.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from operator import itemgetter
from typing import Final, Generic, TypeAlias, TypeVar

__all__ = ["Feed", "Stream"]

T = TypeVar("T")
_Entry: TypeAlias = tuple[int, int, T]
"""Number, size in bytes, item."""

_LIMIT_BYTES: Final = 8 * 1024 * 1024
_number_of = itemgetter(0)


class Feed(Generic[T]):
    """The kept entries, ascending by number, at most *limit_bytes* of them by their sizes.

    *gap* makes the item that stands for the lost numbers from its first to its second argument.
    """

    def __init__(self, gap: Callable[[int, int], T], limit_bytes: int = _LIMIT_BYTES) -> None:
        self._gap = gap
        self._limit = limit_bytes
        self._entries: list[_Entry[T]] = []
        self._bytes = 0
        self._lost_to = 0
        self._ended = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()
        self.last = 0

    def push(self, number: int, item: T, size: int) -> None:
        """Add an entry where its number belongs, late or not; one that is kept already is left alone."""
        index = bisect_right(self._entries, number, key=_number_of)
        if index and self._entries[index - 1][0] == number:
            return
        self._entries.insert(index, (number, size, item))
        self._bytes += size
        self._lost_to = min(self._lost_to, number - 1)
        self.last = max(self.last, number)
        if self._bytes > self._limit:
            self._let_go()
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """Let readers finish what is kept; then they stop, or raise *error*. Only the first call counts."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    def read(self, after: int) -> Stream[T]:
        """Return a reader of the entries with a number above *after*."""
        return Stream(self, after)

    async def next(self, after: int) -> tuple[int, T]:
        """Wait for the first entry above *after*. Raises StopAsyncIteration, or the error, at the end."""
        while True:
            if after < self._lost_to:
                return self._lost_to, self._gap(after + 1, self._lost_to)
            index = bisect_right(self._entries, after, key=_number_of)
            if index < len(self._entries):
                number, _, item = self._entries[index]
                return number, item
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self._ended:
                raise StopAsyncIteration
            await self._changed.wait()

    def _let_go(self) -> None:
        """Drop the oldest quarter, so that the cost of moving the rest is paid rarely; the newest stays."""
        count = 0
        while self._bytes > self._limit * 3 // 4 and count < len(self._entries) - 1:
            self._bytes -= self._entries[count][1]
            count += 1
        if count:
            self._lost_to = self._entries[count - 1][0]
            del self._entries[:count]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Stream(AsyncIterator[T]):
    """One reader of a feed. It holds nothing open: leave it whenever you like."""

    def __init__(self, feed: Feed[T], after: int) -> None:
        self._feed = feed
        self._after = after

    async def __anext__(self) -> T:
        """Return the next entry, waiting for it."""
        self._after, item = await self._feed.next(self._after)
        return item
