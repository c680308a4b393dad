"""The parts of source code that are coloured."""

from __future__ import annotations

from itertools import count

import pytest

from sidecar.text.highlight import MOST_CHARS, highlight, language_of


def check(text: str, language: str, expected: str) -> None:
    runs = list(highlight(text, language, lambda: 0.0))
    units = text.encode("utf-16-le")
    found = [f"{kind}:{units[2 * at : 2 * (at + n)].decode('utf-16-le')}" for at, n, kind in runs]
    assert " ".join(found) == expected


HIGHLIGHTED = {
    "keywords and numbers": ("return 1", "python", "keyword:return number:1"),
    "UTF-16": ("'\U0001f600' #x", "python", "string:' string:\U0001f600 string:' comment:#x"),
    "names that are defined": ("fn a() {}", "rust", "keyword:fn name:a"),
    "lines at the ends stay where they are": ("\n\nx = 1\r\n", "python", "number:1"),
    "an unknown language": ("return 1", "unheard-of", ""),
    "too long": ("1 " * MOST_CHARS, "python", ""),
    "nothing": ("", "python", ""),
}


@pytest.mark.parametrize(("text", "language", "expected"), HIGHLIGHTED.values(), ids=HIGHLIGHTED)
def test_highlight(text: str, language: str, expected: str) -> None:
    check(text, language, expected)


def test_a_text_that_takes_too_long_is_coloured_in_part() -> None:
    seconds = count(0.0, 0.4)
    assert list(highlight("1 2 3 4", "python", lambda: next(seconds))) == [(0, 1, "number")]


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a/b.py", "python"),
        ("C:\\x\\Main.rs", "rust"),
        ("Makefile", "make"),
        ("file:///p/a.ts", "typescript"),
        ("notes", ""),
    ],
)
def test_language_of(path: str, language: str) -> None:
    assert language_of(path) == language
