"""Lines, positions and changes, as the language server protocol counts them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import cases
from sidecar._internal.surrogates import join_halves
from sidecar.workspace.contract import PositionEncoding, TextChange, TextRange
from sidecar.workspace.line_index import LineText, index_in_line, split_lines

SMILE = "\U0001f600"
ENCODINGS: tuple[PositionEncoding, ...] = ("utf-8", "utf-16", "utf-32")


def to_units(text: str, encoding: PositionEncoding) -> str:
    """Return *text* with one character for each unit; only UTF-16 has characters that can be halved."""
    if encoding != "utf-16":
        return text
    raw = text.encode("utf-16-le", "surrogatepass")
    return "".join(map(chr, struct.unpack(f"<{len(raw) // 2}H", raw)))


def naive_offset(text: str, line: int, character: int, encoding: PositionEncoding) -> int:
    """Find a position by walking the text one character at a time."""
    offset = 0
    for _ in range(line):
        while offset < len(text) and text[offset] not in "\r\n":
            offset += 1
        if offset == len(text):
            return offset
        offset += 2 if text[offset : offset + 2] == "\r\n" else 1
    used = 0
    while offset < len(text) and text[offset] not in "\r\n":
        used += len(text[offset].encode("utf-8", "surrogatepass")) if encoding == "utf-8" else 1
        if used > character:
            return offset
        offset += 1
    return offset


def naive_apply(text: str, change: TextChange, encoding: PositionEncoding) -> str:
    """Apply a change to the whole string, as an editor does that counts in *encoding*."""
    at = change.range
    if at is None:
        return change.text
    text = to_units(text, encoding)
    start, end = sorted(
        (
            naive_offset(text, at.start_line, at.start_character, encoding),
            naive_offset(text, at.end_line, at.end_character, encoding),
        )
    )
    return join_halves(text[:start] + change.text + text[end:])


def check(text: str, change: TextChange, *, becomes: str, encoding: PositionEncoding = "utf-16") -> None:
    edited = LineText(text)
    edited.apply(change, encoding)
    assert edited.text == becomes == naive_apply(text, change, encoding)


pieces = st.text(
    alphabet=st.sampled_from("ab\n\r\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\u00e9\u20ac\ud83d\ude00" + SMILE),
    max_size=12,
)
positions = st.tuples(st.integers(0, 8), st.integers(0, 8))
changes = st.builds(
    lambda text, start, end: TextChange(text, TextRange(*start, *end)), pieces, positions, positions
)


@cases(150)
@given(pieces, st.lists(changes, max_size=6), st.sampled_from(ENCODINGS))
def test_edits_agree_with_a_naive_model(
    text: str, edits: list[TextChange], encoding: PositionEncoding
) -> None:
    edited, model = LineText(text, block_chars=2), join_halves(text)
    for edit in edits:
        edited.apply(edit, encoding)
        model = naive_apply(model, edit, encoding)
        assert (edited.lines(0, 99), edited.n_lines) == (split_lines(model), len(split_lines(model)))
    assert edited.text == model


@given(st.text(alphabet="a\n\r", max_size=20), st.integers(0, 12), st.integers(0, 12))
def test_lines_can_be_had_from_anywhere(text: str, first: int, n_lines: int) -> None:
    assert LineText(text, block_chars=2).lines(first, n_lines) == split_lines(text)[first : first + n_lines]


@given(pieces)
def test_lines_join_to_the_text(text: str) -> None:
    assert "".join(split_lines(text)) == text


CHANGES = {
    "no range replaces everything": ("ab", TextChange("x"), "x"),
    "into an empty text": ("", TextChange("x", TextRange(0, 0, 0, 0)), "x"),
    "past the line is its end": ("ab\ncd", TextChange("x", TextRange(0, 9, 0, 9)), "abx\ncd"),
    "never between CR and LF": ("ab\r\ncd", TextChange("x", TextRange(0, 3, 0, 3)), "abx\r\ncd"),
    "past the text is its end": ("ab\n", TextChange("x", TextRange(9, 9, 9, 9)), "ab\nx"),
    "a backward range is turned": ("ab\ncd", TextChange("", TextRange(1, 1, 0, 1)), "ad"),
    "removing a line end joins": ("a\nb", TextChange("", TextRange(0, 1, 1, 0)), "ab"),
    "CR and LF meet": ("a\rb\nc", TextChange("", TextRange(1, 0, 1, 1)), "a\r\nc"),
    "LF after CR is one line end": ("a\r", TextChange("\nb", TextRange(1, 0, 1, 0)), "a\r\nb"),
    "inside a character it is halved": (
        f"{SMILE}b",
        TextChange("x", TextRange(0, 1, 0, 1)),
        "\ud83dx\ude00b",
    ),
    "half a character is deleted": (f"{SMILE}b", TextChange("", TextRange(0, 1, 0, 2)), "\ud83db"),
    "two halves meet": ("\ud83db", TextChange("\ude00", TextRange(0, 1, 0, 1)), f"{SMILE}b"),
}


@pytest.mark.parametrize(("text", "change", "becomes"), CHANGES.values(), ids=CHANGES)
def test_one_change(text: str, change: TextChange, becomes: str) -> None:
    check(text, change, becomes=becomes)


@pytest.mark.parametrize(
    ("encoding", "columns"),
    [
        pytest.param("utf-8", [0, 1, 1, 2, 2, 2, 2, 3, 3], id="utf-8"),
        pytest.param("utf-16", [0, 1, 2, 2, 3, 3], id="utf-16"),
        pytest.param("utf-32", [0, 1, 2, 3, 3], id="utf-32"),
    ],
)
def test_columns(encoding: PositionEncoding, columns: list[int]) -> None:
    line = f"a\u00e9{SMILE}\n"
    assert [index_in_line(line, character, encoding) for character in range(len(columns))] == columns
    assert index_in_line(line, -1, encoding) == 0


def test_a_negative_line_is_the_start() -> None:
    text = LineText("ab")
    text.apply(TextChange("x", TextRange(-1, 5, -1, 5)), "utf-16")
    assert text.text == "xab"


def test_a_character_that_is_typed_in_halves_is_whole_for_the_next_edit() -> None:
    text = LineText("line0\nline1")
    for new, start, end in (("\ud83d", 0, 0), ("\ude00 EMOJI ", 1, 1), ("", 2, 9)):
        text.apply(TextChange(new, TextRange(0, start, 0, end)), "utf-16")
    assert text.text == f"{SMILE}line0\nline1"
