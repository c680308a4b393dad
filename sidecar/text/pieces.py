"""Texts in pieces: divided where they are too large, and grouped up to a size.

Each engine has its own unit and its own way to divide a message; the loop that fills a request until the next
piece does not fit is the same. The cost is linear in the pieces. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def group_pieces(pieces: Iterable[T], room: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield *pieces* in groups of at most *room*, in order; one that is larger is a group of its own.

    >>> list(group_pieces(["aa", "b", "cc", "dddd"], 3, len))
    [['aa', 'b'], ['cc'], ['dddd']]
    """
    group: list[T] = []
    used = 0
    for piece in pieces:
        size = size_of(piece)
        if group and used + size > room:
            yield group
            group, used = [], 0
        group.append(piece)
        used += size
    if group:
        yield group


def split_bytes(text: str, max_bytes: int) -> Iterator[str]:
    """Yield *text* in parts of at most *max_bytes* bytes in UTF-8, or one character where that is longer.

    >>> list(split_bytes("aé日", 3))
    ['aé', '日']
    """
    data = text.encode("utf-8", "replace")
    start, step = 0, max(max_bytes, 4)
    while start < len(data):
        end = min(start + step, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[start:end].decode()
        start = end
