"""Histories and indexes: one value that grows or moves, and states that follow it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar import conversation
from sidecar.conversation import (
    AppendOnlySeq,
    Entry,
    EntryKind,
    FileRead,
    History,
    Index,
    LineRange,
    SeenFile,
    files_seen_index,
    merge_ranges,
    merge_reads,
)
from sidecar.llmgateway.contract import ToolTurn
from turns import user


def entry(text: str, kind: EntryKind = "user", origin: tuple[str, ...] = ()) -> Entry:
    return Entry(user(text), kind, origin=origin, node_id=f"node-{text}")


def names(history: History) -> list[str]:
    return [each.node_id for each in history]


A, B, C = entry("a"), entry("b"), entry("c")


def test_an_extended_history_shares_its_entries_and_tells_the_new_ones() -> None:
    first = History([A])
    second = first.extended([B, C])
    assert second.since(first) == (B, C)
    assert first.since(second) is None
    assert (first.head, second.head, History().head) == ("node-a", "node-c", None)
    assert tuple(second.turns) == (A.turn, B.turn, C.turn)
    assert second.turns.since(first.turns) == (B.turn, C.turn)


def test_a_moved_history_did_not_grow_out_of_the_one_before() -> None:
    first = History([A, B])
    assert History([A]).since(first) is None
    assert History([A, B]).since(first) is None


def test_a_summary_reaches_the_entries_of_an_earlier_summary_in_their_order() -> None:
    early = entry("s1", "summary", ("node-a", "node-b"))
    late = entry("s2", "summary", ("node-s1", "node-c", "node-gone"))
    archive = {each.node_id: each for each in (A, B, C, early)}
    assert list(History([late], archive).unfold(late)) == [A, B, C]


def test_a_file_that_a_compaction_brought_back_is_told_from_a_mention_that_was_stored_again() -> None:
    mention, read = (replace(entry(name, "file"), node_id=name) for name in ("mention", "read"))
    history = History((), {each.node_id: each for each in (mention, read)})
    again = replace(mention, node_id="again", origin=("mention",))
    restored = replace(entry("as it is now", "file", ("read",)), node_id="restored")
    assert [history.is_restored(each) for each in (mention, again, restored)] == [False, False, True]


def counting_index(*, reaches_folded: bool = False) -> tuple[Index[list[tuple[str, bool]]], list[int]]:
    steps = [0]

    def step(state: list[tuple[str, bool]], found: Entry, in_view: bool) -> list[tuple[str, bool]]:
        steps[0] += 1
        return [*state, (found.node_id, in_view)]

    return Index(list, step, reaches_folded=reaches_folded), steps


def test_an_index_sees_folded_entries_first_and_out_of_view() -> None:
    summary = entry("s", "summary", ("node-a", "node-b"))
    history = History([summary, C], {"node-a": A, "node-b": B})
    index, _ = counting_index(reaches_folded=True)
    found = [("node-a", False), ("node-b", False), ("node-s", True), ("node-c", True)]
    assert index.of(history) == found
    assert counting_index()[0].of(history) == found[2:]


def test_an_advance_costs_only_the_new_entries() -> None:
    index, steps = counting_index()
    history = History([A] * 100)
    index.of(history)
    steps[0] = 0
    index.of(history.extended([B]))
    index.of(history.extended([B]).extended([]))
    assert steps[0] == 1


def mutable_index() -> Index[list[tuple[str, bool]]]:
    """An index whose step changes the state that it is given."""

    def step(state: list[tuple[str, bool]], found: Entry, in_view: bool) -> list[tuple[str, bool]]:
        state.append((found.node_id, in_view))
        return state

    return Index(list, step, reaches_folded=True)


MOVES = st.sampled_from(["append", "move", "fork", "summarise", "back"])


@given(st.lists(st.tuples(MOVES, st.integers(0, 9), st.booleans())))
def test_an_advanced_index_equals_one_that_is_folded_anew(moves: list[tuple[str, int, bool]]) -> None:
    indexes = [counting_index(reaches_folded=True)[0], mutable_index()]
    archive: dict[str, Entry] = {}
    history = before = History((), archive)
    for number, (move, at, is_prepared) in enumerate(moves):
        present = history
        new = replace(entry(f"{number}"), node_id=f"node-{number}")
        if move == "summarise":
            new = replace(new, kind="summary", origin=tuple(names(history)[:at]))
            history = History([new, *history[at:]], archive)
        elif move == "append":
            history = history.extended([new])
        elif move == "back":
            history = before
        else:
            history = History(history[:at], archive) if move == "move" else history.extended([new, new])
        before = present
        archive[new.node_id] = new
        expected = counting_index(reaches_folded=True)[0].of(history)
        for index in indexes:
            if is_prepared:
                known = [*index.of(present)]
                index.prepare(history)
                assert index.of(present) == known
            assert index.of(history) == expected


@pytest.mark.parametrize("is_healed", [False, True])
def test_a_prepared_move_folds_nothing_more(is_healed: bool) -> None:
    """A conversation that is healed after its move is a copy of what was prepared, with entries behind it."""
    index, steps = counting_index()
    path = History([entry(f"{n}") for n in range(100)])
    index.of(path)
    back = History(path[:60])
    index.prepare(back)
    steps[0] = 0
    index.of(History([*back, A]) if is_healed else back.extended([A]))
    assert steps[0] == 1


def test_a_prepared_move_looks_at_no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session has a dozen indexes, and each would compare 100,000 entries twice."""
    index, _ = counting_index()
    path = History([entry(f"{n}") for n in range(100)])
    index.of(path)
    back = History(path[:60])
    index.prepare(back)
    monkeypatch.setattr(conversation, "count_shared", lambda *_: pytest.fail("it compared entries"))
    looked = index.peek(back)
    assert index.of(back) == looked


def test_a_look_at_a_prepared_move_folds_nothing_more_and_moves_nothing() -> None:
    index, steps = counting_index()
    path = History([entry(f"{n}") for n in range(100)])
    here = index.of(path)
    back = History(path[:60])
    index.prepare(back)
    steps[0] = 0
    moved = back.extended([A])
    looked = index.peek(moved)
    assert (steps[0], index.of(path), steps[0]) == (1, here, 1)
    assert (index.of(moved), steps[0]) == (looked, 2)


def test_an_index_that_nobody_asked_prepares_nothing() -> None:
    index, steps = counting_index()
    index.prepare(History([A, B]))
    assert steps[0] == 0


@given(
    st.lists(st.tuples(st.sampled_from(["grow", "grow", "compact", "restore", "undo"]), st.integers(0, 5)))
)
def test_a_path_that_grew_and_was_compacted_is_known_as_one_that_is_read_anew(
    steps: list[tuple[str, int]],
) -> None:
    """A compaction pins a prompt now and then, and brings back a file that an entry had shown."""
    archive: dict[str, Entry] = {}

    def make_index() -> Index[list[tuple[str, bool]]]:
        return Index(
            list, lambda state, entry, in_view: [*state, (entry.node_id, in_view)], reaches_folded=True
        )

    index = make_index()

    def store(*entries: Entry) -> tuple[Entry, ...]:
        stored = tuple(replace(each, node_id=f"node-{len(archive) + at}") for at, each in enumerate(entries))
        archive.update((each.node_id, each) for each in stored)
        return stored

    def store_again(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        return store(*(replace(each, origin=each.origin or (each.node_id,)) for each in entries))

    history, before = History((), archive), History((), archive)
    for step, number in steps:
        cut = min(len(history), number)
        if step == "grow":
            history = history.extended(store(*[Entry(A.turn, "user")] * (number + 1)))
        elif step == "undo":
            history = before
        elif cut:
            pinned = history[:1] if number % 2 and history[0].kind == "user" else ()
            origin = tuple(each.node_id for each in history[len(pinned) : cut])
            file = store(Entry(C.turn, "file", origin=origin[-1:])) if step == "restore" and origin else ()
            summary = store(Entry(B.turn, "summary", origin=origin))
            before, kept = history, store_again((*pinned, *history[cut:]))
            history = History((), archive).extended((*summary, *file, *kept)).share_originals(before)
        view = history.with_entries(history[: number * 2])
        assert tuple(view.originals()) == tuple(History(view, archive).originals())
        assert tuple(history.originals()) == tuple(History(history, archive).originals())
        assert index.of(history) == make_index().of(History(history, archive))


PIECES = st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(), max_size=3)), max_size=12)


@given(PIECES)
def test_every_version_equals_the_list_it_stands_for(pieces: list[tuple[int, list[int]]]) -> None:
    versions: list[tuple[AppendOnlySeq[int], list[int]]] = [(AppendOnlySeq(), [])]
    for which, added in pieces:
        grown, plain = versions[which % len(versions)]
        versions.append((grown.extended(added), plain + added))
    assert [list(grown) for grown, _ in versions] == [plain for _, plain in versions]
    assert [len(grown) for grown, _ in versions] == [len(plain) for _, plain in versions]


def test_since_gives_what_came_after() -> None:
    first = AppendOnlySeq([1])
    second = first.extended([2, 3])
    assert (second.since(first), second.since(second), first.since(second)) == ((2, 3), (), None)


def test_since_is_none_between_branches() -> None:
    root = AppendOnlySeq([1])
    left, right = root.extended([2]), root.extended([2])
    assert (left.since(root), right.since(root), right.since(left)) == ((2,), None, None)


def test_an_extension_that_fails_half_way_leaves_the_version_as_it_was() -> None:
    first = AppendOnlySeq([1])
    with pytest.raises(ZeroDivisionError):
        first.extended(1 // divisor for divisor in (1, 0))
    assert (list(first), list(first.extended([9]))) == ([1], [1, 9])


@pytest.mark.parametrize("index", [-3, 2])
def test_an_index_reaches_only_the_items_of_its_version(index: int) -> None:
    first = AppendOnlySeq("ab")
    first.extended("c")
    with pytest.raises(IndexError):
        first[index]


@pytest.mark.parametrize(
    ("part", "expected"),
    [(slice(1, 9), ("b",)), (slice(None, None, -1), ("b", "a")), (slice(-1, None), ("b",))],
)
def test_a_slice_ends_with_the_version(part: slice, expected: tuple[str, ...]) -> None:
    first = AppendOnlySeq("ab")
    first.extended("c")
    assert first[part] == expected


def read(path: str, content: str = "v1", ranges: tuple[LineRange, ...] = ()) -> FileRead:
    return FileRead(path=path, uri=f"file://{path}", hash=content, source="disk", ranges=ranges)


def showing(node: str, *reads: FileRead, kind: EntryKind = "tool", origin: tuple[str, ...] = ()) -> Entry:
    turn = ToolTurn(()) if kind == "tool" else user(node)
    return Entry(turn, kind, reads=reads, origin=origin, node_id=node)


def seen(history: History) -> dict[str, SeenFile]:
    return files_seen_index(lambda found, call_id: len(found.reads)).of(history).files


def test_the_newest_read_of_a_file_counts_and_files_come_in_the_order_of_their_reads() -> None:
    history = History([showing("1", read("/a")), showing("2", read("/b")), showing("3", read("/a", "v2"))])
    found = seen(history)
    assert [(path, each.read.hash, each.node_id) for path, each in found.items()] == [
        ("/b", "v1", "2"),
        ("/a", "v2", "3"),
    ]


def test_after_a_move_the_older_read_counts_again() -> None:
    index = files_seen_index(lambda found, call_id: 1)
    first, second = showing("1", read("/a")), showing("2", read("/a", "v2"))
    moved = History([first])
    assert index.of(moved.extended([second])).files["/a"].read.hash == "v2"
    assert index.of(History([first])).files["/a"].read.hash == "v1"


def test_a_read_behind_a_summary_stays_known_and_is_out_of_view() -> None:
    first, second = showing("1", read("/a")), showing("2", read("/b"))
    summary = showing("s", kind="summary", origin=("1", "2"))
    restored = showing("r", read("/a", "v2"), kind="file")
    found = seen(History([summary, restored], {"1": first, "2": second}))
    assert {path: (each.in_view, each.read.hash, each.tokens) for path, each in found.items()} == {
        "/b": (False, "v1", 0),
        "/a": (True, "v2", 1),
    }


def test_files_that_one_entry_showed_are_all_in_view_once_they_are_restored() -> None:
    shown = showing("n", read("/a"), read("/b"))
    files = [showing(f"f{p}", read(f"/{p}", "v2"), kind="file", origin=("n",)) for p in "ab"]
    summary = showing("s", kind="summary", origin=("n",))
    found = seen(History([summary, *files], {"n": shown}))
    assert {path: (file.read.hash, file.in_view) for path, file in found.items()} == {
        "/a": ("v2", True),
        "/b": ("v2", True),
    }


def test_prompts_are_counted_up_to_the_entry_that_shows_a_file() -> None:
    prompt = showing("p", kind="user")
    index = files_seen_index(lambda found, call_id: 1)
    state = index.of(History([prompt, showing("1", read("/a")), prompt, prompt]))
    assert (state.files["/a"].n_prompts, state.n_prompts) == (1, 3)


def test_the_touched_paths_are_told_once() -> None:
    index = files_seen_index(lambda found, call_id: 1)
    history = History([showing("1", read("/a"), read("/b"))])
    assert index.of(history).take_touched() == ("/a", "/b")
    longer = history.extended([showing("2", read("/b"))])
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
