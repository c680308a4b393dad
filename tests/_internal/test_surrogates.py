"""Half a surrogate pair is kept inside the daemon, and replaced where text leaves it."""

from __future__ import annotations

import pytest

from sidecar._internal.surrogates import has_halves, join_halves, replace_halves


@pytest.mark.parametrize(
    ("text", "joined", "replaced"),
    [
        pytest.param("plain é 😀", "plain é 😀", "plain é 😀", id="nothing to do"),
        pytest.param("a\ud83d", "a\ud83d", "a\ufffd", id="a lone half at the end"),
        pytest.param("\ud83dab", "\ud83dab", "\ufffdab", id="a lone half before a letter"),
        pytest.param("\ud83d\ude00", "😀", "😀", id="halves that belong together"),
        pytest.param("\udc00\ud83d\udc00", "\udc00🐀", "\ufffd🐀", id="a lone half before a pair"),
    ],
)
def test_halves(text: str, joined: str, replaced: str) -> None:
    assert (join_halves(text), replace_halves(text), has_halves(text)) == (joined, replaced, "pl" not in text)
