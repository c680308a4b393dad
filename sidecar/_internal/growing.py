"""An immutable sequence that is cheap to extend: every version shares one append-only buffer.

A version never changes and never sees what was appended after it. Extending the newest version costs what is
new; extending an older one copies it once. Extend from one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

__all__ = ["Growing"]

T = TypeVar("T")


class Growing(Generic[T]):
    """The first ``len(self)`` items of a buffer that only grows.

    >>> first = Growing("ab")
    >>> second = first.extended("cd")
    >>> tuple(first), tuple(second), second.since(first)
    (('a', 'b'), ('a', 'b', 'c', 'd'), ('c', 'd'))
    """

    __slots__ = ("_buffer", "_n")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._buffer = list(items)
        self._n = len(self._buffer)

    def extended(self, items: Iterable[T]) -> Growing[T]:
        """Return this sequence followed by *items*."""
        longer: Growing[T] = object.__new__(Growing)
        is_newest = self._n == len(self._buffer)
        longer._buffer = self._buffer if is_newest else self._buffer[: self._n]
        longer._buffer.extend(items)
        longer._n = len(longer._buffer)
        return longer

    def since(self, older: Growing[T]) -> tuple[T, ...] | None:
        """Return what came after *older*, or None when this did not grow out of it."""
        if older._buffer is not self._buffer or older._n > self._n:
            return None
        return tuple(self._buffer[older._n : self._n])

    def span(self, start: int, stop: int) -> Sequence[T]:
        """Return the items from *start* up to *stop*, both within 0..n."""
        return self._buffer[start : min(stop, self._n)]

    def at(self, index: int) -> T:
        """Return the item at *index*, within 0..n-1."""
        if not 0 <= index < self._n:
            raise IndexError(f"index {index} is outside of 0..{self._n - 1}")
        return self._buffer[index]

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[T]:
        return iter(self._buffer[: self._n])
