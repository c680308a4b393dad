"""Replacing a passage, whatever the line ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.text_edit import (
    EditedText,
    Passage,
    Replaced,
    find_similar_lines,
    replace_passage,
    shift_ranges,
    splice_passages,
)


def check(text: str, old: str, new: str, becomes: str, *, all_of_them: bool = False) -> None:
    assert replace_passage(text, old, new, all_of_them=all_of_them).text == becomes


def check_refused(text: str, old: str, new: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        replace_passage(text, old, new, all_of_them=False)
    assert expected in caught.value.message


@pytest.mark.parametrize(
    ("text", "old", "new", "becomes"),
    [
        pytest.param("a\nb\nc", "b", "x\ny", "a\nx\ny\nc", id="LF"),
        pytest.param(
            "a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n", id="CRLF takes LF and keeps its own"
        ),
        pytest.param("a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n", id="CRLF given"),
        pytest.param("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n", id="CRLF given for LF"),
        pytest.param("a\r\nb\nc\nd\n", "b\n", "x\n", "a\r\nx\nc\nd\n", id="mixed ends elsewhere stay"),
        pytest.param(
            "a\r\nb\r\nc\n", "\nb", "\nx\ny", "a\r\nx\r\ny\r\nc\n", id="mixed: the commoner end is put in"
        ),
        pytest.param("a\r\n", "\n", "", "a", id="a line end itself"),
        pytest.param("a\u2028b\x0cc", "b", "x", "a\u2028x\x0cc", id="other separators are characters"),
        pytest.param("a\U0001f600b", "\U0001f600", "x", "axb", id="astral"),
        pytest.param("ab", "ab", "", "", id="to nothing"),
    ],
)
def test_one_passage(text: str, old: str, new: str, becomes: str) -> None:
    check(text, old, new, becomes)


def test_all_of_them() -> None:
    check("a-a\r\na", "a", "aa", "aa-aa\r\naa", all_of_them=True)
    check("aaa", "aa", "b", "ba", all_of_them=True)


def test_says_where_it_replaced() -> None:
    edited = replace_passage("a\nb\na\n", "a\n", "x\ny\n", all_of_them=True)
    assert edited == EditedText("x\ny\nb\nx\ny\n", (Replaced(1, 2, 3), Replaced(3, 2, 3)))


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        pytest.param("a", "", "x", "empty", id="nothing to look for"),
        pytest.param("a\r\n", "a\n", "a\r\n", "the same", id="nothing to change"),
        pytest.param("a\nb\na\n", "a", "x", "2 times, at lines 1, 3", id="twice"),
        pytest.param("aaa", "aa", "x", "2 times", id="twice, one over the other"),
        pytest.param(
            "x\n" * 30, "x", "y", "30 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...", id="very often"
        ),
        pytest.param(
            "def f():\n\treturn  1\n", "    return 1\n", "x", "at line 2 with another", id="other blanks"
        ),
        pytest.param("a = foo(1)\n", "foo(1)\nb", "x", "resembles line 1", id="only its first line"),
        pytest.param("a\n", "zzz", "x", "nor is a line like its first", id="nothing like it"),
        pytest.param("a\n", "\n\n", "x", "nor is a line like its first", id="blanks alone"),
    ],
)
def test_refusals_name_the_lines(text: str, old: str, new: str, expected: str) -> None:
    check_refused(text, old, new, expected)


texts = st.text(alphabet="ab\r\n", max_size=20)


@given(texts, texts, st.text(alphabet="xy\n", max_size=4))
def test_agrees_with_replacing_on_lf(text: str, old: str, new: str) -> None:
    plain, wanted = text.replace("\r\n", "\n"), old.replace("\r\n", "\n")
    try:
        edited = replace_passage(text, old, new, all_of_them=True)
    except InvalidInput:
        assert not wanted or wanted == new or wanted not in plain
        return
    joins_cr_and_lf = "\r" in plain
    if not joins_cr_and_lf:
        assert edited.text.replace("\r\n", "\n") == plain.replace(wanted, new)


@pytest.mark.parametrize(
    ("ranges", "shifted"),
    [
        pytest.param([(1, None)], [(1, None)], id="the whole stays the whole"),
        pytest.param([(1, 4)], [(1, 4)], id="before it"),
        pytest.param([(3, 10)], [(3, 12)], id="around it"),
        pytest.param([(20, 5), (40, None)], [(22, 5), (42, None)], id="behind it"),
    ],
)
def test_ranges_shift(ranges: list[tuple[int, int | None]], shifted: list[tuple[int, int | None]]) -> None:
    assert shift_ranges(ranges, [Replaced(10, 1, 3)]) == tuple(shifted)


def test_positions_count_a_crlf_as_one_character() -> None:
    assert (
        splice_passages("a\r\nb\r\nb", [Passage(2, 3, "c\nd"), Passage(4, 5, "c\nd")])
        == "a\r\nc\r\nd\r\nc\r\nd"
    )


def test_lines_equal_but_for_blanks_are_more_similar_than_those_that_hold_the_passage() -> None:
    assert find_similar_lines("xab\n a  b\n", "\na b\nc") == [2]
    assert find_similar_lines("xab\n", "ab") == [1]
    assert find_similar_lines("xab\n", " \n") == []
