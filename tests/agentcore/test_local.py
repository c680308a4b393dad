"""The digest made without a model (B-A7): bounded, deterministic, and never without the previous summary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.agentcore.local import LOCAL_HEADING, local_digest
from sidecar.agentcore.text import byte_length

PARTS = [
    "[User]: fix the parser",
    "[Assistant thinking]: hm",
    "[Assistant tool calls]: read(path=a.py)",
    "[Tool result]: def f(): ...",
    "[Tool result error]: no such file",
    "[Assistant]: it is broken",
]


def test_everything_is_told_where_it_fits() -> None:
    assert local_digest(PARTS, "Before.", 5000) == "\n".join(
        ["Before.", "", LOCAL_HEADING, *(f"- {part}" for part in PARTS)]
    )


def test_what_matters_most_goes_first() -> None:
    digest = local_digest(PARTS, "", 165)
    assert digest == "\n".join(
        [LOCAL_HEADING, "- (4 earlier or lesser entries left out)", f"- {PARTS[0]}", f"- {PARTS[4]}"]
    )


def test_newest_first_within_a_kind() -> None:
    digest = local_digest([f"[User]: wish number {i}" for i in range(50)], "", 400)
    assert "wish number 49" in digest
    assert "wish number 0\n" not in digest


def test_an_entry_is_one_line() -> None:
    digest = local_digest(["[User]: first\nsecond\n\n  third " + "x" * 900], "", 5000)
    (line,) = digest.split("\n")[1:]
    assert line.startswith("- [User]: first second third xxx")
    assert line.endswith("...")


def test_b_a7_the_previous_summary_is_kept_whole_while_it_fits() -> None:
    previous = "p" * 300
    assert local_digest(PARTS, previous, 400).startswith(previous)


def test_a_previous_summary_that_does_not_fit_keeps_both_ends() -> None:
    digest = local_digest(PARTS, "begin" + "p" * 5000 + "end", 1000)
    assert digest.startswith("begin")
    assert "characters left out ...]" in digest
    assert "[User]: fix the parser" in digest


@given(st.lists(st.text(max_size=60), max_size=20), st.text(max_size=300), st.integers(40, 2000))
def test_a_digest_is_within_its_limit(parts: list[str], previous: str, limit: int) -> None:
    digest = local_digest(parts, previous, limit)
    assert byte_length(digest) <= limit
    assert digest == local_digest(parts, previous, limit)
