"""Plain-text helpers: one key for all spellings of a path."""

from __future__ import annotations

import pytest

from sidecar.window_budget.text import path_key


@pytest.mark.parametrize(
    ("spelling", "key"),
    [
        ("a.py", "a.py"),
        (" ./a.py ", "a.py"),
        ("src/./x/../a.py", "src/a.py"),
        ("//srv/a.py", "/srv/a.py"),
        ("/srv//a.py", "/srv/a.py"),
        ("file:///srv/a.py", "/srv/a.py"),
        ("C:\\Work\\a.py", "c:/Work/a.py"),
        ("file:///C:/Work/a.py", "c:/Work/a.py"),
        ("../a.py", "../a.py"),
    ],
)
def test_lexical_spellings_of_a_path_have_one_key(spelling: str, key: str) -> None:
    """Lexical spellings of one path are one path; letters keep their case."""
    assert path_key(spelling) == key
