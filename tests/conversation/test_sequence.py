"""Append-only sequences: versions of one buffer that never disturb each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.conversation.history import AppendOnlySeq

PIECES = st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(), max_size=3)), max_size=12)


@given(PIECES)
def test_every_version_equals_the_list_it_stands_for(pieces: list[tuple[int, list[int]]]) -> None:
    versions: list[tuple[AppendOnlySeq[int], list[int]]] = [(AppendOnlySeq(), [])]
    for which, added in pieces:
        grown, plain = versions[which % len(versions)]
        versions.append((grown.extended(added), plain + added))
    assert [list(grown) for grown, _ in versions] == [plain for _, plain in versions]
    assert [len(grown) for grown, _ in versions] == [len(plain) for _, plain in versions]


def test_since_gives_what_came_after() -> None:
    first = AppendOnlySeq([1])
    second = first.extended([2, 3])
    assert (second.since(first), second.since(second), first.since(second)) == ((2, 3), (), None)


def test_since_is_none_between_branches() -> None:
    root = AppendOnlySeq([1])
    left, right = root.extended([2]), root.extended([2])
    assert (left.since(root), right.since(root), right.since(left)) == ((2,), None, None)


def test_an_extension_that_fails_half_way_leaves_the_version_as_it_was() -> None:
    first = AppendOnlySeq([1])
    with pytest.raises(ZeroDivisionError):
        first.extended(1 // divisor for divisor in (1, 0))
    assert (list(first), list(first.extended([9]))) == ([1], [1, 9])


@pytest.mark.parametrize("index", [-3, 2])
def test_an_index_reaches_only_the_items_of_its_version(index: int) -> None:
    first = AppendOnlySeq("ab")
    first.extended("c")
    with pytest.raises(IndexError):
        first[index]


@pytest.mark.parametrize(
    ("part", "expected"),
    [(slice(1, 9), ("b",)), (slice(None, None, -1), ("b", "a")), (slice(-1, None), ("b",))],
)
def test_a_slice_ends_with_the_version(part: slice, expected: tuple[str, ...]) -> None:
    first = AppendOnlySeq("ab")
    first.extended("c")
    assert first[part] == expected
