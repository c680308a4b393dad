"""An immutable sequence that is cheap to extend: every version shares one append-only buffer.

A version never changes and never sees later items. Extending the newest version costs only the new items;
extending an older one copies it once. Extend from one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class AppendOnlySeq(Sequence[T], Generic[T]):
    """The first ``len(self)`` items of a buffer that only grows.

    Two versions compare equal only when they are the same object: compare tuples of them by content.

    >>> first = AppendOnlySeq("ab")
    >>> second = first.extended("cd")
    >>> tuple(first), tuple(second), second.since(first)
    (('a', 'b'), ('a', 'b', 'c', 'd'), ('c', 'd'))
    >>> second[1:3], second[-1]
    (('b', 'c'), 'd')
    """

    __slots__ = ("_buffer", "_n")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._buffer = list(items)
        self._n = len(self._buffer)

    def extended(self, items: Iterable[T]) -> AppendOnlySeq[T]:
        """Return this sequence followed by *items*."""
        longer: AppendOnlySeq[T] = object.__new__(AppendOnlySeq)
        is_newest = self._n == len(self._buffer)
        longer._buffer = self._buffer if is_newest else self._buffer[: self._n]
        longer._buffer.extend(items)
        longer._n = len(longer._buffer)
        return longer

    def since(self, older: AppendOnlySeq[T]) -> tuple[T, ...] | None:
        """Return the items after *older*, or None when this sequence did not grow out of it."""
        if older._buffer is not self._buffer or older._n > self._n:
            return None
        return tuple(self._buffer[older._n : self._n])

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._n)
            return tuple(self._buffer[start:stop:step] if step > 0 else self._buffer[: self._n][index])
        at = index + self._n if index < 0 else index
        if not 0 <= at < self._n:
            raise IndexError(f"index {index} is outside of a sequence of {self._n} items")
        return self._buffer[at]

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[T]:
        return iter(self._buffer[: self._n])
