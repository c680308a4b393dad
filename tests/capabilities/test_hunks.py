"""Hunks of a change: found alike for every client, and kept, refused or edited one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import cases
from sidecar.capabilities.apply_patch import APPLY_PATCH
from sidecar.capabilities.edit import WRITE
from sidecar.capabilities.hunks import choose_hunks, find_hunks, lines_of
from sidecar.capabilities.read import READ

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk

TEXTS = st.lists(st.sampled_from("abc"), max_size=8).map(lambda lines: "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        pytest.param({}, "A\nb\nC\nd\ne", id="all as proposed"),
        pytest.param({0: None}, "a\nb\nC\nd\ne", id="one is refused"),
        pytest.param({1: "X\nY"}, "A\nb\nX\nY\nd\ne", id="one is edited, and ends its line"),
        pytest.param({2: ""}, "A\nb\nC\nd\n", id="an end that is edited away"),
        pytest.param({0: None, 1: None, 2: None}, "a\nb\nc\nd\n", id="none is kept"),
    ],
)
def test_hunks_are_kept_one_by_one(chosen: Mapping[int, str | None], expected: str) -> None:
    assert choose_hunks("a\nb\nc\nd\n", "A\nb\nC\nd\ne", chosen) == expected


@cases(200)
@given(before=TEXTS, after=TEXTS)
def test_all_hunks_make_the_new_text_and_none_the_old_one(before: str, after: str) -> None:
    found = find_hunks(before, after)
    assert choose_hunks(before, after, {}) == after
    assert choose_hunks(before, after, dict.fromkeys(range(len(found)))) == before


def test_long_texts_without_a_common_line_are_one_hunk() -> None:
    before, after = "".join(f"{n}\n" for n in range(3000)), "".join(f"x{n}\n" for n in range(3000))
    assert len(find_hunks(before, after)) == 1


def test_only_a_line_feed_ends_a_line() -> None:
    assert lines_of("a\r\nb\u2028c\x0c\n\nd") == ["a\r\n", "b\u2028c\x0c\n", "\n", "d"]


TWO_BLOCKS = (
    "import os\nimport sys\n\nA = 1\nB = 2\n\n\ndef one():\n    x = 1\n\n    y = 2\n    return x + y\n"
)
"""The imports are too few lines for a hunk of their own, and the empty line in a function ends none."""


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        pytest.param({}, TWO_BLOCKS, id="all as proposed"),
        pytest.param({0: None}, TWO_BLOCKS[TWO_BLOCKS.index("def") :], id="the first is refused"),
        pytest.param({1: None}, TWO_BLOCKS[: TWO_BLOCKS.index("def")], id="the last is refused"),
        pytest.param({0: "C = 3", 1: None}, "C = 3\n", id="one is edited, and ends its line"),
        pytest.param({0: None, 1: None}, "", id="none is kept"),
    ],
)
def test_blocks_of_a_new_file_are_kept_one_by_one(chosen: Mapping[int, str | None], expected: str) -> None:
    assert len(find_hunks(None, TWO_BLOCKS)) == 2
    assert choose_hunks(None, TWO_BLOCKS, chosen) == expected


def test_a_long_new_file_has_no_more_than_twenty_blocks() -> None:
    assert len(find_hunks(None, "a\n\n" * 1000)) == 20
    assert [(each.new_start, each.new_end) for each in find_hunks(None, "a\n" * 1000)] == [(0, 1000)]


async def test_a_new_file_is_written_with_the_blocks_that_the_user_kept(desk: Desk) -> None:
    desk.hunks = {(0, 0): None}
    reply = await desk.run(WRITE, path="a.py", content=TWO_BLOCKS)
    assert desk.text("a.py") == TWO_BLOCKS[TWO_BLOCKS.index("def") :] == reply.diffs[0].new_text
    assert str(reply.output).startswith(
        "created a.py, 5 lines\n[the user kept 1 of 2 hunks as proposed, refused 1"
    )


async def test_a_new_file_of_which_nothing_is_kept_is_not_made(desk: Desk) -> None:
    desk.hunks = {(0, 0): None, (0, 1): None}
    said = await desk.failure(WRITE, path="a.py", content=TWO_BLOCKS)
    assert "the user refused each of its hunks" in said
    desk.hunks = {(0, 0): None}
    reply = await desk.run(APPLY_PATCH, input=PATCH.format("+one\n*** Add File: b\n+two"))
    assert [diff.path.name for diff in reply.diffs] == ["b"]
    assert "refused 1 in a. What was written" in str(reply.output)
    assert sorted(path.name for path in desk.root.iterdir()) == ["b"]


PATCH = "*** Begin Patch\n*** Add File: a\n{}\n*** End Patch"


async def test_a_file_that_moves_is_kept_or_refused_as_a_whole(desk: Desk) -> None:
    desk.put("old", "one\ntwo\n")
    await desk.output(READ, path="old")
    desk.hunks = {(0, 0): None}
    patch = "*** Begin Patch\n*** Update File: old\n*** Move to: new\n-one\n+ONE\n*** End Patch"
    await desk.run(APPLY_PATCH, input=patch)
    assert desk.text("new") == "ONE\ntwo\n"
    assert [diff.is_whole for diff in desk.asked[0].diffs] == [True, True]
