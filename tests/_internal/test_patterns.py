"""A pattern that is compiled when it is used does what one does that is compiled at once."""

from __future__ import annotations

import re

import pytest

from sidecar._internal.patterns import compile_later


def test_a_late_pattern_finds_what_another_one_finds() -> None:
    late, plain = compile_later(r"(?P<name>[a-z]+)=(\d+)", re.IGNORECASE), re.compile(r"([A-Za-z]+)=(\d+)")
    text = "a=1 B=22"
    assert late.pattern == r"(?P<name>[a-z]+)=(\d+)"
    assert late.findall(text) == plain.findall(text) == [("a", "1"), ("B", "22")]
    assert [found.span() for found in late.finditer(text)] == [(0, 3), (4, 8)]
    assert late.sub(r"\2", text) == "1 22"
    assert dict(late.groupindex) == {"name": 1}
    assert compile_later(rb"\d").search(b"a1") is not None


def test_a_wrong_pattern_is_refused_when_it_is_used() -> None:
    late = compile_later("(")
    with pytest.raises(re.error):
        late.search("")


def test_a_pattern_has_no_other_attributes() -> None:
    late = compile_later("a")
    with pytest.raises(AttributeError):
        late.no_such_method  # type: ignore[attr-defined]  # noqa: B018  # there is none
