"""Tracked files: which content is expected of them, and what is reported when it changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fake_workspace import file_view
from recorded_reads import expect
from sidecar.workspace.contract import FileView, StaleFile
from sidecar.workspace.files import text_hash
from sidecar.workspace.tracker import FileTracker

A, B = Path("/p/a.py"), Path("/p/b.py")


class Desk:
    """A tracker with everything that it reported, and the paths that it wants compared."""

    def __init__(self) -> None:
        self.reported: list[StaleFile | str] = []
        self.to_compare: list[Path] = []
        self.tracker = FileTracker(
            self.reported.append, self.reported.append, on_expect=self.to_compare.append
        )


def view(text: str, path: Path = A) -> FileView:
    return file_view(path, text)


STALE = StaleFile(A.as_uri(), text_hash("x"), text_hash("y"), "disk")


def stale_desk() -> Desk:
    """A desk whose one file was read and then changed, twice."""
    desk = Desk()
    expect(desk.tracker, view("x"))
    for text in ("x", "y", "z"):
        desk.tracker.compare(A, view(text))
    assert (desk.reported, desk.tracker.is_stale(A)) == ([STALE], True)
    return desk


def test_a_new_expectation_is_compared_and_the_same_one_again_is_not() -> None:
    desk = Desk()
    for text in ("x", "x", "y"):
        expect(desk.tracker, view(text))
    assert desk.to_compare == [A, A]


def test_a_stale_file_is_reported_once_until_another_content_is_expected() -> None:
    desk = stale_desk()
    expect(desk.tracker, view("z"))
    assert not desk.tracker.is_stale(A)
    desk.tracker.compare(A, None)
    assert desk.reported == [STALE, A.as_uri(), replace(STALE, read_hash=text_hash("z"), now_hash=None)]


def test_an_older_expectation_that_returns_withdraws_the_report_and_is_compared() -> None:
    desk = stale_desk()
    expect(desk.tracker, view("older"))
    assert (desk.reported[1:], desk.to_compare) == ([A.as_uri()], [A, A])


def test_a_change_that_is_taken_back_is_reported_and_so_is_the_next_one() -> None:
    desk = stale_desk()
    desk.tracker.compare(A, view("x"))
    assert (desk.reported, desk.tracker.is_stale(A)) == ([STALE, A.as_uri()], False)
    desk.tracker.compare(A, view("y"))
    assert (desk.reported, desk.tracker.is_stale(A)) == ([STALE, A.as_uri(), STALE], True)


def test_a_forgotten_file_is_not_stale() -> None:
    desk = stale_desk()
    for path in (A, B):
        desk.tracker.forget(path)
    assert (desk.reported, desk.tracker.paths) == ([STALE, A.as_uri()], ())


def test_a_file_that_is_not_tracked_is_not_compared() -> None:
    desk = Desk()
    desk.tracker.compare(A, view("y"))
    assert (desk.reported, desk.tracker.is_stale(A), desk.tracker.holds(A)) == ([], False, False)


def test_a_change_of_a_path_touches_only_the_tracked_files_at_it_or_below() -> None:
    desk = Desk()
    deep = Path("/p/src/deep.py")
    for path in (A, deep):
        expect(desk.tracker, view("x", path))
    found = {name: desk.tracker.below(Path(name)) for name in ("/p/a.py", "/p/src", "/p", "/p/b.py", "/q")}
    assert found == {"/p/a.py": (A,), "/p/src": (deep,), "/p": (A, deep), "/p/b.py": (), "/q": ()}
    desk.tracker.forget(deep)
    assert (desk.tracker.below(Path("/p/src")), desk.tracker.below(Path("/p"))) == ((), (A,))
