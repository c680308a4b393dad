"""Hunks of a change: found alike for every client, and kept, refused or edited one by one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import cases
from sidecar.capabilities.hunks import choose_hunks, find_hunks, lines_of

TEXTS = st.lists(st.sampled_from("abc"), max_size=8).map(lambda lines: "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        pytest.param({}, "A\nb\nC\nd\ne", id="all as proposed"),
        pytest.param({0: None}, "a\nb\nC\nd\ne", id="one is refused"),
        pytest.param({1: "X\nY"}, "A\nb\nX\nY\nd\ne", id="one is edited, and ends its line"),
        pytest.param({2: ""}, "A\nb\nC\nd\n", id="an end that is edited away"),
        pytest.param({0: None, 1: None, 2: None}, "a\nb\nc\nd\n", id="none is kept"),
    ],
)
def test_hunks_are_kept_one_by_one(chosen: Mapping[int, str | None], expected: str) -> None:
    assert choose_hunks("a\nb\nc\nd\n", "A\nb\nC\nd\ne", chosen) == expected


@cases(200)
@given(before=TEXTS, after=TEXTS)
def test_all_hunks_make_the_new_text_and_none_the_old_one(before: str, after: str) -> None:
    found = find_hunks(before, after)
    assert choose_hunks(before, after, {}) == after
    assert choose_hunks(before, after, dict.fromkeys(range(len(found)))) == before


def test_long_texts_without_a_common_line_are_one_hunk() -> None:
    before, after = "".join(f"{n}\n" for n in range(3000)), "".join(f"x{n}\n" for n in range(3000))
    assert len(find_hunks(before, after)) == 1


def test_only_a_line_feed_ends_a_line() -> None:
    assert lines_of("a\r\nb\u2028c\x0c\n\nd") == ["a\r\n", "b\u2028c\x0c\n", "\n", "d"]
