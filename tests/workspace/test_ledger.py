"""What was read, and whether it still stands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_workspace import file_view
from sidecar.workspace.contract import FileView, ReadRecord, StaleFile
from sidecar.workspace.files import text_hash
from sidecar.workspace.ledger import ReadLedger, merge_ranges

A, B = Path("/p/a.py"), Path("/p/b.py")
Ranges = tuple[tuple[int, int | None], ...]


class Desk:
    """A ledger with its notifications and the paths it wants compared."""

    def __init__(self) -> None:
        self.notified: list[StaleFile | str] = []
        self.to_compare: list[Path] = []
        self.ledger = ReadLedger(
            self.notified.append,
            self.notified.append,
            real_path=lambda path: Path(str(path).lower()),
            on_read=self.to_compare.append,
        )


def view(text: str, path: Path = A) -> FileView:
    return file_view(path, text)


def record(text: str, path: Path = A, ranges: Ranges = (), call_id: str = "c1") -> ReadRecord:
    return ReadRecord(path, path.as_uri(), text_hash(text), "disk", None, call_id, ranges)


def test_reading_twice_joins_the_ranges_while_the_text_is_the_same() -> None:
    ledger = Desk().ledger
    ledger.record(view("x"), call_id="c1", first_line=1, line_count=10)
    ledger.record(view("x"), call_id="c2", first_line=11, line_count=5)
    assert ledger.get(A) == record("x", ranges=((1, 15),), call_id="c2")
    ledger.record(view("x"), call_id="c3")
    ledger.record(view("x"), call_id="c4", first_line=3, line_count=1)
    assert ledger.get(A) == record("x", call_id="c4")


def test_a_new_text_replaces_the_ranges() -> None:
    ledger = Desk().ledger
    ledger.record(view("x"), call_id="c1")
    ledger.record(view("y"), call_id="c2", first_line=2, line_count=2)
    assert ledger.get(A) == record("y", ranges=((2, 2),), call_id="c2")


def test_spellings_of_one_file_are_one_file() -> None:
    ledger = Desk().ledger
    ledger.record(view("x"), call_id="c1")
    assert ledger.get(Path("/P/A.py")) == record("x")
    ledger.forget([Path("/P/A.py")])
    assert ledger.get(A) is None


def test_files_come_least_recently_read_first() -> None:
    ledger = Desk().ledger
    for path in (A, B, A):
        ledger.record(view("x", path), call_id="c1")
    assert [each.path for each in ledger.files()] == [B, A]


def test_what_was_read_is_compared_once_more() -> None:
    desk = Desk()
    desk.ledger.record(view("x"), call_id="c1")
    assert desk.to_compare == [A]


STALE = StaleFile(A, A.as_uri(), text_hash("x"), text_hash("y"), "disk")


def stale_desk() -> Desk:
    """A desk whose one file was read and then changed, twice."""
    desk = Desk()
    desk.ledger.record(view("x"), call_id="c1")
    for text in ("x", "y", "z"):
        desk.ledger.compare(A, view(text))
    assert (desk.notified, desk.ledger.is_stale(A)) == ([STALE], True)
    return desk


def test_staleness_is_told_once_until_it_is_read_again() -> None:
    desk = stale_desk()
    desk.ledger.record(view("z"), call_id="c2")
    assert not desk.ledger.is_stale(A)
    desk.ledger.compare(A, None)
    assert desk.notified == [STALE, A.as_uri(), replace(STALE, read_hash=text_hash("z"), now_hash=None)]


def test_a_change_that_is_taken_back_is_told_and_so_is_the_next_one() -> None:
    desk = stale_desk()
    desk.ledger.compare(A, view("x"))
    assert (desk.notified, desk.ledger.is_stale(A)) == ([STALE, A.as_uri()], False)
    desk.ledger.compare(A, view("y"))
    assert (desk.notified, desk.ledger.is_stale(A)) == ([STALE, A.as_uri(), STALE], True)


def test_what_is_forgotten_is_not_stale() -> None:
    desk = stale_desk()
    desk.ledger.forget([A, B])
    assert desk.notified == [STALE, A.as_uri()]


def test_files_that_were_not_read_are_nobodys_business() -> None:
    desk = Desk()
    desk.ledger.compare(A, view("y"))
    assert (desk.notified, desk.ledger.is_stale(A), desk.ledger.holds(A)) == ([], False, False)


def test_dump_and_load() -> None:
    desk, other = Desk(), Desk()
    desk.ledger.record(view("x"), call_id="c1", first_line=2, line_count=3)
    desk.ledger.record(view("y", B), call_id="c2")
    other.ledger.record(view("old", Path("/p/old")), call_id="c0")
    other.ledger.load(json.loads(json.dumps(desk.ledger.dump())))
    assert other.ledger.files() == desk.ledger.files()
    assert other.to_compare[1:] == [A, B]


def test_the_news_is_what_was_read_and_forgotten_since_and_is_loaded_after_the_rest() -> None:
    """What is stored after a turn is what is new in it, however many files were read before."""
    desk, other = Desk(), Desk()
    desk.ledger.record(view("x"), call_id="c1")
    desk.ledger.record(view("y", B), call_id="c2")
    first = desk.ledger.take_news()
    assert (len(first), desk.ledger.take_news()) == (2, [])
    desk.ledger.forget([B, Path("/p/never-read")])
    desk.ledger.record(view("z"), call_id="c3")
    second = desk.ledger.take_news()
    assert [entry["path"] for entry in second] == [str(B), str(A)]
    other.ledger.load(json.loads(json.dumps([*first, *second])))
    assert (other.ledger.files(), other.ledger.take_news()) == (desk.ledger.files(), [])


def test_what_was_read_at_a_path_or_below_it() -> None:
    """A change costs what it touches, however many files were read."""
    desk = Desk()
    deep = Path("/p/src/deep.py")
    for path in (A, deep):
        desk.ledger.record(view("x", path), call_id="c1")
    asked = {name: desk.ledger.below(Path(name)) for name in ("/p/a.py", "/p/src", "/p", "/p/b.py", "/q")}
    assert asked == {"/p/a.py": (A,), "/p/src": (deep,), "/p": (A, deep), "/p/b.py": (), "/q": ()}
    desk.ledger.forget([deep])
    assert (desk.ledger.below(Path("/p/src")), desk.ledger.below(Path("/p"))) == ((), (A,))
    desk.ledger.load(desk.ledger.dump())
    assert desk.ledger.below(Path("/p")) == (A,)


GOOD: dict[str, Any] = {"path": "/p/a.py", "uri": "u", "hash": "h", "source": "disk", "callId": "c1"}


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({}, id="empty"),
        pytest.param(7, id="no object"),
        pytest.param(GOOD | {"source": "\ud800"}, id="half a character"),
        pytest.param(GOOD | {"path": 1}, id="a path that is no text"),
        pytest.param(GOOD | {"source": "dream"}, id="an unknown source"),
        pytest.param(GOOD | {"ranges": [[1]]}, id="a range with one end"),
        pytest.param(GOOD | {"version": "new"}, id="a version that is no number"),
    ],
)
def test_malformed_records_are_left_out(bad: Any) -> None:
    ledger = Desk().ledger
    ledger.load([bad, GOOD])
    assert ledger.files() == (ReadRecord(A, "u", "h", "disk", None, "c1"),)


def lines_of(ranges: Ranges) -> set[int]:
    return {
        line
        for first, count in ranges or ((1, None),)
        for line in range(1, 40)
        if first <= line and (count is None or line < first + count)
    }


@given(st.lists(st.tuples(st.integers(1, 20), st.none() | st.integers(1, 10)), min_size=1, max_size=6))
def test_merged_ranges_hold_the_same_lines_in_fewest_pieces(ranges: list[tuple[int, int | None]]) -> None:
    merged = merge_ranges(ranges)
    assert lines_of(merged) == lines_of(tuple(ranges))
    assert merge_ranges(merged or ((1, None),)) == merged
    ends = [first + count for first, count in merged if count is not None]
    assert all(end < start for end, (start, _) in zip(ends, merged[1:], strict=False))


def test_an_empty_range_is_no_line() -> None:
    assert merge_ranges([(5, 0), (1, 2)]) == ((1, 2),)
