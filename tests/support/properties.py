"""How many cases of a property are tried: all of them, and a tenth in ``make quick``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

_USUAL = 100
"""The cases of a property that says nothing, outside of ``make quick``."""


def cases(n_cases: int) -> settings:
    """Return settings for *n_cases*, or for as large a part of them as the loaded profile tries."""
    return settings(max_examples=max(1, n_cases * _examples() // _USUAL))


def sample(each: Sequence[T]) -> Sequence[T]:
    """Return every case, or as large a part of them as the loaded profile tries.

    >>> sample(range(3))
    range(0, 3)
    """
    return each[:: max(1, _USUAL // _examples())]


def cuts_of(data: bytes, start: int = 0) -> list[int]:
    """Return the lengths of *data* from *start* on that a crash may leave: within each line, and at its end.

    >>> cuts_of(b"abcd\\nef\\n")
    [2, 4, 5, 6, 7, 8]
    """
    cuts = set[int]()
    for line in data[start:].splitlines(keepends=True):
        end = start + len(line)
        cuts |= {start + len(line) // 2, end - 1, end}
        start = end
    return sorted(cuts)


def _examples() -> int:
    profile = settings.default
    assert profile is not None
    return profile.max_examples
