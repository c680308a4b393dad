"""The files that a conversation shows: the newest read of each, in view or folded away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.conversation import (
    Entry,
    EntryKind,
    FileRead,
    History,
    SeenFile,
    files_seen_index,
    merge_ranges,
    merge_reads,
)
from sidecar.conversation.history import LineRange
from sidecar.llmgateway.contract import TextBlock, ToolTurn, UserTurn


def read(path: str, content: str = "v1", ranges: tuple[LineRange, ...] = ()) -> FileRead:
    return FileRead(path=path, uri=f"file://{path}", hash=content, source="disk", ranges=ranges)


def entry(node: str, *reads: FileRead, kind: EntryKind = "tool", origin: tuple[str, ...] = ()) -> Entry:
    turn = ToolTurn(()) if kind == "tool" else UserTurn((TextBlock(node),))
    return Entry(turn, kind, reads=reads, origin=origin, node_id=node)


def seen(history: History) -> dict[str, SeenFile]:
    return files_seen_index(lambda found, call_id: len(found.reads)).of(history).files


def test_the_newest_read_of_a_file_counts_and_files_come_in_the_order_of_their_reads() -> None:
    history = History([entry("1", read("/a")), entry("2", read("/b")), entry("3", read("/a", "v2"))])
    found = seen(history)
    assert [(path, each.read.hash, each.node_id) for path, each in found.items()] == [
        ("/b", "v1", "2"),
        ("/a", "v2", "3"),
    ]


def test_after_a_move_the_older_read_counts_again() -> None:
    index = files_seen_index(lambda found, call_id: 1)
    first, second = entry("1", read("/a")), entry("2", read("/a", "v2"))
    moved = History([first])
    assert index.of(moved.extended([second])).files["/a"].read.hash == "v2"
    assert index.of(History([first])).files["/a"].read.hash == "v1"


def test_a_read_behind_a_summary_stays_known_and_is_out_of_view() -> None:
    first, second = entry("1", read("/a")), entry("2", read("/b"))
    summary = entry("s", kind="summary", origin=("1", "2"))
    restored = entry("r", read("/a", "v2"), kind="file")
    found = seen(History([summary, restored], {"1": first, "2": second}))
    assert {path: (each.in_view, each.read.hash, each.tokens) for path, each in found.items()} == {
        "/b": (False, "v1", 0),
        "/a": (True, "v2", 1),
    }


def test_files_that_one_entry_showed_are_all_in_view_once_they_are_restored() -> None:
    shown = entry("n", read("/a"), read("/b"))
    files = [entry(f"f{p}", read(f"/{p}", "v2"), kind="file", origin=("n",)) for p in "ab"]
    summary = entry("s", kind="summary", origin=("n",))
    found = seen(History([summary, *files], {"n": shown}))
    assert {path: (file.read.hash, file.in_view) for path, file in found.items()} == {
        "/a": ("v2", True),
        "/b": ("v2", True),
    }


def test_prompts_are_counted_up_to_the_entry_that_shows_a_file() -> None:
    prompt = entry("p", kind="user")
    index = files_seen_index(lambda found, call_id: 1)
    state = index.of(History([prompt, entry("1", read("/a")), prompt, prompt]))
    assert (state.files["/a"].n_prompts, state.n_prompts) == (1, 3)


def test_the_touched_paths_are_told_once() -> None:
    index = files_seen_index(lambda found, call_id: 1)
    history = History([entry("1", read("/a"), read("/b"))])
    assert index.of(history).take_touched() == ("/a", "/b")
    longer = history.extended([entry("2", read("/b"))])
    assert index.of(longer).take_touched() == ("/b",)
    assert index.of(longer).take_touched() == ()


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        pytest.param(((1, 10),), ((11, 5),), ((1, 15),), id="neighbouring lines are joined"),
        pytest.param((), ((3, 1),), (), id="a part of a file that was shown whole adds nothing"),
        pytest.param(((3, 1),), (), (), id="the whole file holds every part"),
    ],
)
def test_reads_of_one_content_are_merged(
    older: tuple[LineRange, ...], newer: tuple[LineRange, ...], expected: tuple[LineRange, ...]
) -> None:
    assert merge_reads(read("/a", ranges=older), read("/a", ranges=newer)).ranges == expected


def test_a_read_of_another_content_replaces_the_older_one() -> None:
    newer = read("/a", "v2", ((2, 2),))
    assert merge_reads(read("/a"), newer) == newer


def lines_of(ranges: tuple[LineRange, ...]) -> set[int]:
    return {
        line
        for first, count in ranges or ((1, None),)
        for line in range(1, 40)
        if first <= line and (count is None or line < first + count)
    }


@given(st.lists(st.tuples(st.integers(1, 20), st.none() | st.integers(1, 10)), min_size=1, max_size=6))
def test_merged_ranges_hold_the_same_lines_in_fewest_pieces(ranges: list[LineRange]) -> None:
    merged = merge_ranges(ranges)
    assert lines_of(merged) == lines_of(tuple(ranges))
    assert merge_ranges(merged or ((1, None),)) == merged
    ends = [first + count for first, count in merged if count is not None]
    assert all(end < start for end, (start, _) in zip(ends, merged[1:], strict=False))


def test_an_empty_range_is_no_line() -> None:
    assert merge_ranges([(5, 0), (1, 2)]) == ((1, 2),)
