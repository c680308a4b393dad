"""Hidden characters are shown by a rule: every character that the standard ignores or moves others with."""

from __future__ import annotations

import sys
import time
import unicodedata

import pytest

from sidecar.text.visible import is_hidden, make_visible


@pytest.mark.parametrize(
    "char",
    [
        pytest.param("\u200d", id="zero-width joiner"),
        pytest.param("\u00ad", id="soft hyphen"),
        pytest.param("\u061c", id="arabic letter mark"),
        pytest.param("\u115f", id="hangul filler"),
        pytest.param("\U000e0041", id="tag"),
        pytest.param("\ufe0f", id="variation selector"),
        pytest.param("\u2800", id="blank pattern"),
        pytest.param("\u2028", id="line separator"),
        pytest.param("\u00a0", id="space that does not break"),
        pytest.param("\r", id="return"),
        pytest.param("\udc80", id="half of a pair"),
    ],
)
def test_a_hidden_character_is_shown_by_its_number(char: str) -> None:
    assert make_visible(f"a{char}b") == f"a‹U+{ord(char):04X}›b"


def test_no_control_or_format_character_passes_and_every_letter_does() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        category = unicodedata.category(char)
        if category in ("Cf", "Zl", "Zp"):
            assert is_hidden(char), hex(code)
        elif category in ("Lu", "Ll", "Nd", "Pd", "Sm"):
            assert not is_hidden(char), hex(code)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a" + " " * 80 + "b", "a" + " " * 80 + "b", id="deep indentation stays"),
        pytest.param("a\n\n\n\nb", "a\n\n\n\nb", id="three empty lines stay"),
        pytest.param("a\n\n \n\t\n\nb", "a\n‹4 empty lines›\nb", id="blank lines are counted"),
        pytest.param("a" + "\t" * 90 + "b", "a‹90 blanks›b", id="tabs are counted"),
    ],
)
def test_blanks_that_push_text_out_of_sight_are_counted(text: str, shown: str) -> None:
    assert make_visible(text) == shown


@pytest.mark.parametrize("unit", [" ", "\n", " " * 80 + "\n", "\n" + " " * 99, "\t" * 80 + "a", "\n\n\na"])
def test_a_megabyte_of_blanks_is_read_at_once(unit: str) -> None:
    begun = time.process_time()
    make_visible(unit * (1_000_000 // len(unit)) + "x")
    assert time.process_time() - begun < 2
