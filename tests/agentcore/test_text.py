"""Cutting text: never inside a character (B-A6), never over the limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agentcore.text import byte_length, clip_middle, fair_cap, first_bytes, shorten

TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)


@given(TEXTS, st.integers(-1, 120))
def test_b_a6_a_cut_keeps_characters_whole(text: str, limit: int) -> None:
    cut = first_bytes(text, limit)
    assert text.startswith(cut)
    assert byte_length(cut) <= max(limit, 0)
    missing = text[len(cut) :]
    assert not missing or byte_length(cut + missing[0]) > limit


@given(TEXTS, st.integers(3, 120))
def test_a10_shorten_is_the_text_or_its_beginning_and_dots(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert byte_length(short) <= limit
    assert short == text or (short.endswith("...") and text.startswith(short[:-3]))


@given(TEXTS, st.integers(0, 200))
def test_a_clipped_text_is_within_its_limit_and_says_so(text: str, limit: int) -> None:
    clipped = clip_middle(text, limit)
    assert byte_length(clipped) <= limit
    assert clipped == text or "left out ...]" in clipped or text.startswith(clipped)


def test_a_clipped_text_has_its_beginning_and_its_end() -> None:
    text = "a" * 500 + "m" * 500 + "z" * 500
    clipped = clip_middle(text, 400)
    assert clipped.startswith("a" * 200)
    assert clipped.endswith("z" * 80)
    kept = len(clipped) - len("\n[... 1135 characters left out ...]\n")
    assert f"\n[... {1500 - kept} characters left out ...]\n" in clipped


def test_a_lone_surrogate_is_replaced_where_text_is_cut() -> None:
    assert first_bytes("\ud800" + "x" * 10, 4) == "?xxx"


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(-5, 300))
def test_a_fair_cap_fits_and_is_the_largest(sizes: list[int], total: int) -> None:
    cap = fair_cap(sizes, total)
    if sum(sizes) <= total:
        assert cap == max(sizes, default=0)
    else:
        assert sum(min(size, cap) for size in sizes) <= max(total, 0)
        assert sum(min(size, cap + 1) for size in sizes) > total


@pytest.mark.parametrize("text", ["plain", "日本", "\ud83d\ude00"])
def test_byte_length_is_that_of_utf_8(text: str) -> None:
    assert byte_length(text) == len(text.encode("utf-8", "surrogatepass"))
