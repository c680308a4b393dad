"""Bounded output, with every cut in sight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.capabilities.output import HeadTail, NumberedLines, number_lines


@pytest.mark.parametrize(
    ("lines", "cap_chars", "n_lines"),
    [
        pytest.param(["aa", "bb", "cc"], 100, 3, id="all fit"),
        pytest.param(["aa", "bb", "cc"], 20, 2, id="two fit"),
        pytest.param(["aa", "bb", "cc"], 0, 1, id="one is shown in any case"),
        pytest.param([], 10, 0, id="none"),
    ],
)
def test_numbered_lines(lines: list[str], cap_chars: int, n_lines: int) -> None:
    text = "\n".join(["     1\taa", "     2\tbb", "     3\tcc"][:n_lines])
    assert number_lines(lines, first=1, cap_chars=cap_chars) == NumberedLines(text, n_lines)


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
