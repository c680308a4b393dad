"""Texts are cut to a length, with a mark."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.text.clip import (
    clip,
    compact_json,
    cut_end,
    cut_middle,
    fair_cap,
    group_pieces,
    one_line,
    split_bytes,
    tidy,
)

MARK = "[{} cut]"


@pytest.mark.parametrize(
    ("cut", "shown"),
    [
        pytest.param(clip("abc", 3), "abc", id="nothing to cut"),
        pytest.param(clip("abcd", 3), "ab…", id="the end of a text"),
        pytest.param(clip("abcd", 0), "…", id="no room at all"),
        pytest.param(one_line("a\n  b\tc", 9), "a b c", id="blanks and line ends"),
        pytest.param(one_line("abc def", 5), "abc…", id="no blank before the mark"),
        pytest.param(one_line(" " * 99, 9), "", id="nothing but blanks"),
        pytest.param(cut_middle("abcdef", 3, MARK), "ab\n[3 cut]\nf", id="the middle"),
        pytest.param(cut_middle("abcdef", 6, MARK), "abcdef", id="no middle to cut"),
        pytest.param(cut_end("abcdef", 2, MARK), "ab\n[4 cut]", id="the end, with a line for it"),
        pytest.param(tidy(" a \r\n b\t\n"), "a\n b", id="ends of lines"),
    ],
)
def test_a_cut_text(cut: str, shown: str) -> None:
    assert cut == shown


@given(st.text("ab \n…", max_size=40), st.integers(1, 20))
def test_a_text_that_was_cut_is_no_longer_than_asked_for(text: str, limit: int) -> None:
    for shown in (clip(text, limit), one_line(text, limit)):
        assert len(shown) <= limit
        assert shown.rstrip("…") in " ".join(text.split()) or shown.rstrip("…") in text


@given(st.text(max_size=60), st.integers(0, 40))
def test_a_cut_keeps_as_much_as_asked_for_and_counts_the_rest(text: str, keep: int) -> None:
    end, middle = cut_end(text, keep, MARK), cut_middle(text, keep, MARK)
    if len(text) <= keep:
        assert end == middle == text
    else:
        mark = f"\n[{len(text) - keep} cut]"
        assert end == text[:keep] + mark
        head, tail = middle.split(f"{mark}\n") if text.count(mark) == 0 else (text[:keep], "")
        assert len(head) + len(tail) == keep


@pytest.mark.parametrize("value", [{"a": [1, None, "é"]}, {1, 2}, float("nan"), "x", object], ids=repr)
def test_any_value_has_a_short_text(value: Any) -> None:
    assert compact_json(value)


@given(st.lists(st.text("ab", max_size=9), max_size=12), st.integers(1, 12))
def test_groups_hold_all_pieces_in_order_and_are_filled(pieces: list[str], room: int) -> None:
    groups = list(group_pieces(pieces, room, len))
    assert [piece for group in groups for piece in group] == pieces
    for group, following in zip(groups, [*groups[1:], None], strict=False):
        size = sum(map(len, group))
        assert size <= room or len(group) == 1
        assert following is None or size + len(following[0]) > room


@given(st.text(max_size=40), st.integers(1, 12))
def test_a_text_is_divided_between_characters(text: str, n_bytes: int) -> None:
    parts = list(split_bytes(text, n_bytes))
    assert "".join(parts) == text.encode("utf-8", "replace").decode()
    assert all(parts)
    assert all(len(part.encode()) <= max(n_bytes, 4) for part in parts)


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(-5, 300))
def test_a_fair_cap_fits_and_is_the_largest(sizes: list[int], total: int) -> None:
    cap = fair_cap(sizes, total)
    if sum(sizes) <= total:
        assert cap == max(sizes, default=0)
    else:
        assert sum(min(size, cap) for size in sizes) <= max(total, 0)
        assert sum(min(size, cap + 1) for size in sizes) > total
