"""The workspace: buffer before disk, careful writes, and word of what changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from changed_files import check_problem, content, put
from fake_tools import expect
from fake_workspace import file_view
from sidecar.workspace.buffers import Editor
from sidecar.workspace.contract import (
    FileAccessError,
    FileView,
    StaleFile,
    TextChange,
    TextRange,
    WatchStatus,
)
from sidecar.workspace.files import text_hash
from sidecar.workspace.paths import path_to_uri
from sidecar.workspace.workspace import FileTracker, Workspace
from watch_nothing import watch_nothing

posix_only = pytest.mark.skipif(os.name == "nt", reason="symbolic links need privileges")


def buffer_view(path: Path, text: str, version: int, *, unsaved: bool = True) -> FileView:
    return file_view(path, text, source="buffer", version=version, unsaved=unsaved)


async def test_disk_then_buffer_then_disk_again(workspace: Workspace, editor: Editor, file: Path) -> None:
    assert await workspace.view(file) == file_view(file, "disk")
    editor.open_buffer(path_to_uri(file), version=1, text="disk")
    assert await workspace.view(file) == buffer_view(file, "disk", 1, unsaved=False)
    change = TextChange("!", TextRange(0, 4, 0, 4))
    editor.change_buffer(path_to_uri(file), version=2, changes=[change], encoding="utf-16")
    assert await workspace.view(file) == buffer_view(file, "disk!", 2)
    editor.close_buffer(path_to_uri(file))
    assert await workspace.view(file) == file_view(file, "disk")


async def test_a_buffer_without_a_file_is_there(workspace: Workspace, editor: Editor, root: Path) -> None:
    path = root / "new.py"
    editor.open_buffer(path_to_uri(path), version=1, text="draft")
    assert await workspace.view(path) == buffer_view(path, "draft", 1)


@posix_only
async def test_a_buffer_stands_for_every_spelling_of_its_file(
    workspace: Workspace, editor: Editor, file: Path
) -> None:
    link = file.parent / "link.py"
    link.symlink_to(file)
    editor.open_buffer(path_to_uri(link), version=1, text="mine")
    view = await workspace.view(file.parent / "x" / ".." / "a.py")
    assert (view.path, view.uri, view.text) == (file, path_to_uri(link), "mine")


async def test_open_views(workspace: Workspace, editor: Editor, file: Path) -> None:
    editor.open_buffer(path_to_uri(file), version=3, text="mine")
    editor.open_buffer("untitled:1", version=1, text="x")
    assert await workspace.open_views() == (buffer_view(file, "mine", 3),)


async def test_a_mark_does_not_tell_a_file_from_its_buffer(
    workspace: Workspace, editor: Editor, file: Path
) -> None:
    put(file, b"\xef\xbb\xbfdisk")
    assert (await workspace.view(file)).hash == text_hash("disk")
    for text in ("disk", "\ufeffdisk"):
        editor.open_buffer(path_to_uri(file), version=1, text=text)
        assert await workspace.view(file) == buffer_view(file, "disk", 1, unsaved=False)


class TestWrite:
    """Writing with and without a buffer."""

    async def test_a_new_file_and_over_it(self, workspace: Workspace, root: Path) -> None:
        path = root / "new" / "a.py"
        first = await workspace.write(path, "one", expected_hash=None)
        assert first == file_view(path, "one")
        assert await workspace.write(path, "two", expected_hash=first.hash) == file_view(path, "two")
        await check_problem(workspace.write(path, "three", expected_hash=first.hash), "changedSinceRead")
        assert content(path) == "two"

    async def test_of_two_writers_one_wins(self, workspace: Workspace, file: Path) -> None:
        writes = [workspace.write(file, text, expected_hash=text_hash("disk")) for text in "abcd"]
        results = await asyncio.gather(*writes, return_exceptions=True)
        won = [result for result in results if isinstance(result, FileView)]
        assert [view.text for view in won] == [content(file)]

    async def test_an_unsaved_buffer_is_refused_with_the_way_out(
        self, workspace: Workspace, editor: Editor, file: Path
    ) -> None:
        editor.open_buffer(path_to_uri(file), version=7, text="mine")
        write = workspace.write(file, "theirs", expected_hash=text_hash("mine"))
        problem = await check_problem(write, "unwritable")
        assert "version 7" in problem.message
        assert problem.hint == "save or revert it in the editor, then read it again"
        assert content(file) == "disk"

    async def test_a_buffer_that_moved_on_is_not_what_was_read(
        self, workspace: Workspace, editor: Editor, file: Path
    ) -> None:
        editor.open_buffer(path_to_uri(file), version=1, text="mine")
        await check_problem(workspace.write(file, "x", expected_hash=text_hash("disk")), "changedSinceRead")
        await check_problem(workspace.write(file, "x", expected_hash=None), "changedSinceRead")

    async def test_beneath_a_clean_buffer_until_the_editor_sends_an_event(
        self, workspace: Workspace, editor: Editor, file: Path
    ) -> None:
        editor.open_buffer(path_to_uri(file), version=1, text="disk")
        written = await workspace.write(file, "ours", expected_hash=text_hash("disk"))
        assert written == await workspace.view(file) == file_view(file, "ours")
        assert await workspace.open_views() == ()
        again = await workspace.write(file, "ours 2", expected_hash=written.hash)
        assert again == file_view(file, "ours 2")
        reload = TextChange("ours 2")
        editor.change_buffer(path_to_uri(file), version=2, changes=[reload], encoding="utf-16")
        assert await workspace.view(file) == buffer_view(file, "ours 2", 2, unsaved=False)

    async def test_an_edit_typed_while_the_file_is_written_wins(
        self, workspace: Workspace, editor: Editor, file: Path
    ) -> None:
        editor.open_buffer(path_to_uri(file), version=1, text="disk")
        uri = path_to_uri(file)

        def type_when_written(path: Path) -> None:
            if content(path) == "ours":
                dispose()
                editor.change_buffer(uri, version=2, changes=[TextChange("typed")], encoding="utf-16")

        dispose = workspace.on_change(type_when_written)
        await workspace.write(file, "ours", expected_hash=text_hash("disk"))
        assert await workspace.view(file) == buffer_view(file, "typed", 2)


class Landing:
    """An editor that applies edits the way editors do: a didChange, before or after its answer."""

    def __init__(self, workspace: Workspace, *, accepts: bool = True, reports: str | None = "same") -> None:
        self.editor = workspace.editor(self._apply)
        self.accepts = accepts
        self.reports = reports
        self.asked: list[tuple[str, int | None, str]] = []

    def open(self, file: Path) -> Landing:
        self.editor.open_buffer(path_to_uri(file), version=4, text="mine")
        return self

    def type(self, uri: str, version: int, text: str) -> None:
        self.editor.change_buffer(uri, version=version, changes=[TextChange(text)], encoding="utf-16")

    async def _apply(self, before: FileView, new_text: str) -> bool:
        self.asked.append((before.uri, before.version, new_text))
        if self.reports is not None:
            text = new_text if self.reports == "same" else self.reports
            asyncio.get_running_loop().call_soon(self.type, before.uri, (before.version or 0) + 1, text)
        return self.accepts


class TestWriteThroughTheEditor:
    """An open buffer is edited by the editor that has it open, where that offers it."""

    async def test_the_edit_lands_in_the_buffer_and_not_on_disk(
        self, workspace: Workspace, file: Path
    ) -> None:
        landing = Landing(workspace).open(file)
        view = await workspace.write(file, "ours", expected_hash=text_hash("mine"))
        assert view == buffer_view(file, "ours", 5)
        assert landing.asked == [(path_to_uri(file), 4, "ours")]
        assert content(file) == "disk"

    async def test_of_several_that_have_the_file_open_the_last_touched_is_asked(
        self, workspace: Workspace, file: Path
    ) -> None:
        first, second = Landing(workspace).open(file), Landing(workspace).open(file)
        first.type(path_to_uri(file), 5, "typed")
        view = await workspace.write(file, "ours", expected_hash=text_hash("typed"))
        assert (view.text, view.version) == ("ours", 6)
        assert (len(first.asked), len(second.asked)) == (1, 0)

    async def test_an_edit_that_is_reported_in_two_changes_is_waited_for(
        self, workspace: Workspace, file: Path
    ) -> None:
        """Neovim sends the lines that it added first, and what it tidied up afterwards."""
        landing = Landing(workspace, reports="ours and a line").open(file)
        write = asyncio.ensure_future(workspace.write(file, "ours", expected_hash=text_hash("mine")))
        is_changed = asyncio.Event()
        workspace.on_change(lambda _: is_changed.set())
        await is_changed.wait()
        assert (await workspace.view(file)).version == 5
        landing.type(path_to_uri(file), 6, "ours")
        assert await write == buffer_view(file, "ours", 6)

    async def test_what_the_editor_made_of_it_is_the_truth(self, file: Path) -> None:
        workspace = Workspace(edit_settles_s=0)
        Landing(workspace, reports="ours, formatted").open(file)
        view = await workspace.write(file, "ours", expected_hash=text_hash("mine"))
        assert view.text == "ours, formatted"
        await workspace.close()

    async def test_an_editor_that_refuses(self, workspace: Workspace, file: Path) -> None:
        Landing(workspace, accepts=False, reports=None).open(file)
        write = workspace.write(file, "ours", expected_hash=text_hash("mine"))
        assert "did not accept" in (await check_problem(write, "unwritable")).message

    async def test_an_editor_that_refuses_because_the_user_typed(
        self, workspace: Workspace, file: Path
    ) -> None:
        async def refuse(before: FileView, new_text: str) -> bool:
            typed = [TextChange("typed")]
            editor.change_buffer(before.uri, version=5, changes=typed, encoding="utf-16")
            return False

        editor = workspace.editor(refuse)
        editor.open_buffer(path_to_uri(file), version=4, text="mine")
        write = workspace.write(file, "ours", expected_hash=text_hash("mine"))
        await check_problem(write, "changedSinceRead")

    async def test_an_editor_that_says_yes_and_does_nothing(self, file: Path) -> None:
        workspace = Workspace(edit_settles_s=0)
        Landing(workspace, reports=None).open(file)
        write = workspace.write(file, "ours", expected_hash=text_hash("mine"))
        assert "never reported" in (await check_problem(write, "unwritable")).message
        await workspace.close()

    async def test_an_edit_that_changes_nothing_is_done_at_once(
        self, workspace: Workspace, file: Path
    ) -> None:
        Landing(workspace, reports=None).open(file)
        view = await workspace.write(file, "mine", expected_hash=text_hash("mine"))
        assert view == buffer_view(file, "mine", 4)


class Files:
    """A workspace with an editor, and the files *a.py*, with its buffer open, and *src/b.py*."""

    def __init__(self, workspace: Workspace, root: Path) -> None:
        self.workspace = workspace
        self.root = root
        self.file, self.deep = root / "a.py", root / "src" / "b.py"
        for path in (self.file, self.deep):
            put(path, "disk")
        (root / "alias").symlink_to(root / "src")
        self.editor = workspace.editor()
        self.editor.open_buffer(path_to_uri(self.file), version=1, text="typed")

    def type(self) -> None:
        typed = [TextChange("more")]
        self.editor.change_buffer(path_to_uri(self.file), version=2, changes=typed, encoding="utf-16")

    def close_without_saving(self) -> None:
        self.editor.close_buffer(path_to_uri(self.file))

    def change_disk(self, text: str | bytes, told: str) -> None:
        put(self.deep, text)
        self.workspace.disk_changed([self.root / told])

    def remove_folder(self) -> None:
        self.deep.unlink()
        self.workspace.disk_changed([self.root / "src"])


STALE_AFTER = {
    "an edit in the buffer": ("a.py", Files.type, "more", "buffer"),
    "a buffer closed unsaved": ("a.py", Files.close_without_saving, "disk", "disk"),
    "on disk": ("src/b.py", lambda at: at.change_disk("y", "src/b.py"), "y", "disk"),
    "by any spelling": ("src/b.py", lambda at: at.change_disk("y", "alias/b.py"), "y", "disk"),
    "no text now": ("src/b.py", lambda at: at.change_disk(b"\0", "src/b.py"), None, "disk"),
    "a folder that is deleted": ("src/b.py", Files.remove_folder, None, "disk"),
}


@posix_only
@pytest.mark.parametrize(("name", "change", "now", "source"), STALE_AFTER.values(), ids=STALE_AFTER)
async def test_what_changes_after_it_was_read_is_stale(
    workspace: Workspace, root: Path, name: str, change: Callable[[Files], None], now: str | None, source: str
) -> None:
    stale_files: list[StaleFile] = []
    files = Files(workspace, root)
    tracker = workspace.tracker("s", stale_files.append)
    view = await workspace.view(root / name)
    expect(tracker, view)
    await workspace.settle()
    assert stale_files == []
    change(files)
    await workspace.settle()
    now_hash = None if now is None else text_hash(now)
    assert [(stale.uri, stale.read_hash, stale.now_hash, stale.source) for stale in stale_files] == [
        (path_to_uri(root / name), view.hash, now_hash, source)
    ]
    assert tracker.is_stale(root / name)


async def test_what_changed_while_the_daemon_was_away_is_stale(workspace: Workspace, file: Path) -> None:
    """The session knows its content from an earlier daemon; this one has never read the file."""
    stale_files: list[StaleFile] = []
    tracker = workspace.tracker("s", stale_files.append)
    tracker.expect(file, path_to_uri(file), text_hash("as it was"))
    await workspace.settle()
    assert [(each.uri, each.now_hash) for each in stale_files] == [(path_to_uri(file), text_hash("disk"))]


async def test_a_write_of_ours_and_a_save_of_what_was_read_are_no_news(
    workspace: Workspace, editor: Editor, root: Path, file: Path
) -> None:
    stale_files: list[StaleFile] = []
    tracker = workspace.tracker("s", stale_files.append)
    expect(tracker, await workspace.write(file, "ours", expected_hash=text_hash("disk")))
    saved = root / "b.py"
    editor.open_buffer(path_to_uri(saved), version=1, text="mine\n")
    expect(tracker, await workspace.view(saved))
    put(saved, "mine\n")
    editor.save_buffer(path_to_uri(saved))
    editor.close_buffer(path_to_uri(saved))
    workspace.disk_changed([file, saved])
    await workspace.settle()
    assert (stale_files, tracker.is_stale(file)) == ([], False)


async def test_trackers_are_apart_and_may_be_dropped_or_report_elsewhere(
    workspace: Workspace, file: Path
) -> None:
    stale_files: dict[str, list[StaleFile]] = {"one": [], "two": [], "three": []}
    for session_id, found in stale_files.items():
        expect(workspace.tracker(session_id, found.append), await workspace.view(file))
    workspace.drop_tracker("one")
    elsewhere: list[StaleFile] = []
    workspace.tracker("three", elsewhere.append)
    put(file, "other")
    workspace.disk_changed([file])
    await workspace.settle()
    assert [len(found) for found in (*stale_files.values(), elsewhere)] == [0, 1, 0, 1]


async def test_listeners_are_called_for_buffers_and_disk_until_they_are_disposed_of(
    workspace: Workspace, editor: Editor, file: Path
) -> None:
    found: list[Path] = []
    dispose = workspace.on_change(found.append)
    editor.open_buffer(path_to_uri(file), version=1, text="x")
    editor.save_buffer(path_to_uri(file))
    editor.close_buffer(path_to_uri(file))
    workspace.disk_changed(path for path in (file, file.parent / "b"))
    dispose()
    dispose()
    workspace.disk_changed([file])
    assert found == [file, file, file, file, file.parent / "b"]


async def test_a_watched_tree_feeds_the_ledgers(workspace: Workspace, file: Path) -> None:
    stale: asyncio.Queue[StaleFile] = asyncio.Queue()
    stands = asyncio.Event()
    workspace.on_change(lambda path: stands.set() if path == file.parent else None)
    dispose = workspace.watch(file.parent)
    await stands.wait()
    assert workspace.watch_status().roots == (file.parent,)
    expect(workspace.tracker("s", stale.put_nowait), await workspace.view(file))
    await workspace.settle()
    put(file, "other")
    async with asyncio.timeout(30):
        assert (await stale.get()).now_hash == text_hash("other")
    dispose()


async def test_a_file_is_deleted_as_it_was_read_or_not_at_all(workspace: Workspace, root: Path) -> None:
    file = root / "a.txt"
    put(file, "one")
    view = await workspace.view(file)
    put(file, "other")
    with pytest.raises(FileAccessError, match="last read"):
        await workspace.delete(file, expected_hash=view.hash)
    put(file, "one")
    workspace.editor().open_buffer(view.uri, version=1, text="one")
    await workspace.delete(file, expected_hash=view.hash)
    with pytest.raises(FileAccessError, match="no such file"):
        await workspace.view(file)


@posix_only
async def test_a_client_watches_what_lies_below_its_folders(root: Path) -> None:
    workspace = Workspace(watch_source=watch_nothing)
    link = root / "link"
    link.symlink_to(root)
    give_back = workspace.leave_to_client([link])
    workspace.watch(root)
    assert workspace.watch_status() == WatchStatus("client", (root,), 0)
    give_back()
    assert workspace.watch_status().backend == "none"
    await workspace.close()


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
