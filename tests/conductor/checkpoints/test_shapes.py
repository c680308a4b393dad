"""Which changes can be taken back, and how they are shown."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.conductor.workbench.kept_changes import KeptChange, find_origin, list_checkpoints, unified_diff


def changes(*pairs: str) -> list[KeptChange]:
    """Return changes: ``AB`` leads from the hash A to B, ``-`` is no file."""
    return [
        KeptChange(
            change_id=str(at),
            checkpoint_id=f"c{at}",
            at=at,
            cause="turn",
            path="/p/a",
            uri="file:///p/a",
            before=None if pair[0] == "-" else pair[0],
            after=None if pair[1] == "-" else pair[1],
        )
        for at, pair in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("made", "wanted", "now", "found"),
    [
        pytest.param(["AB", "BC"], "01", "C", ("0", True), id="both"),
        pytest.param(["AB", "BC"], "1", "C", ("1", True), id="the newest alone"),
        pytest.param(["AB", "BC"], "0", "C", ("0", True), id="an older one takes newer ones along"),
        pytest.param(["AB", "BC"], "01", "D", (None, False), id="others have changed it since"),
        pytest.param(["AB", "DC"], "01", "C", ("1", False), id="others have changed it in between"),
        pytest.param(["AB", "DC"], "1", "C", ("1", True), id="others before all that is wanted"),
        pytest.param(["AB", "AC"], "01", "C", ("1", True), id="one that was never made, or taken back"),
        pytest.param(["AB"], "0", "A", (None, True), id="nothing to take back"),
        pytest.param(["AB", "BA", "AC"], "012", "C", ("0", True), id="a restore in between"),
        pytest.param(["-B"], "0", "B", ("0", True), id="a new file"),
        pytest.param(["A-"], "0", "-", ("0", True), id="a deleted file"),
        pytest.param(["A-"], "0", "B", (None, False), id="a deleted file that others wrote again"),
    ],
)
def test_find_origin(made: list[str], wanted: str, now: str, found: tuple[str | None, bool]) -> None:
    origin, is_whole = find_origin(changes(*made), wanted, None if now == "-" else now)
    assert (None if origin is None else origin.change_id, is_whole) == found


@given(st.lists(st.sampled_from("ABC-"), min_size=2, max_size=8, unique=False), st.data())
def test_an_unbroken_chain_goes_back_to_its_beginning(states: list[str], data: st.DataObject) -> None:
    made = changes(*(a + b for a, b in pairwise(states)))
    first = data.draw(st.integers(0, len(made) - 1))
    wanted = {each.change_id for each in made[first:]}
    origin, is_whole = find_origin(made, wanted, made[-1].after)
    assert is_whole
    assert (made[-1].after if origin is None else origin.before) == made[first].before


def test_a_checkpoint_names_each_file_once() -> None:
    first, second = changes("AB", "BC")
    (listed,) = list_checkpoints([first, replace(second, checkpoint_id="c0")])
    assert [(file.uri, file.created) for file in listed.files] == [("file:///p/a", False)]


def test_a_diff_is_bounded() -> None:
    diff, is_cut = unified_diff("a\n" * 9_000, "b\n" * 9_000, "x")
    assert is_cut
    assert len(diff) <= 30_000
    long, is_cut = unified_diff("a\n" * 50 + "x\n", "a\n" * 50 + "y\n", "x")
    assert long.splitlines() == ["--- a/x", "+++ b/x", "@@ -48,4 +48,4 @@", " a", " a", " a", "-x", "+y"]
    assert not is_cut
