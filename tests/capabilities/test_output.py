"""Bounded output, with every cut in sight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.capabilities.output import HeadTail, NumberedLines, cut_line, number_lines


@pytest.mark.parametrize(
    ("cap_chars", "n_lines"),
    [
        pytest.param(100, 3, id="all fit"),
        pytest.param(20, 2, id="two fit"),
        pytest.param(0, 1, id="one is shown in any case"),
    ],
)
def test_numbered_lines(cap_chars: int, n_lines: int) -> None:
    text = "\n".join(["     1\taa", "     2\tbb", "     3\tcc"][:n_lines])
    assert number_lines(["aa", "bb", "cc"], first=1, cap_chars=cap_chars) == NumberedLines(text, n_lines)


def test_no_lines() -> None:
    assert number_lines([], first=1, cap_chars=10) == NumberedLines("", 0)


def test_a_long_line_is_cut_in_sight() -> None:
    assert cut_line("x" * 2001).endswith("x [cut: 2000 of 2001 characters]")
    assert cut_line("x" * 2000) == "x" * 2000


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(2, 40))
def test_head_and_tail_are_what_came_first_and_last(chunks: list[bytes], cap: int) -> None:
    stream = HeadTail(cap)
    for chunk in chunks:
        stream.add(chunk)
    whole = b"".join(chunks)
    if len(whole) <= cap:
        assert stream.text() == whole.decode("utf-8", "replace")
        return
    head = whole[: cap // 2].decode("utf-8", "replace")
    tail = whole[len(whole) - (cap - cap // 2) :].decode("utf-8", "replace")
    marker = f"[cut: {len(whole) - cap} bytes of output not shown here]"
    assert stream.text() == f"{head}\n{marker}\n{tail}"


def test_memory_is_bounded() -> None:
    stream = HeadTail(1000)
    for _ in range(1000):
        stream.add(b"x" * 1000)
    assert len(stream._head) + len(stream._tail) <= 3000
