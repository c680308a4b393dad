"""Watching trees: shared, filtered, self-healing, and silent while a client watches."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest

from sidecar.workspace.contract import WatchStatus
from sidecar.workspace.watch import Coalescer, DiskWatch, watch_with_watchfiles


class ScriptedSource:
    """A watch source that emits the paths a test chooses, and fails as often as it chooses."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.starts: list[tuple[str, bool]] = []
        self.emits: dict[str, Callable[[set[str]], None]] = {}
        self.may_end, self.has_ended = threading.Event(), threading.Event()
        self.may_end.set()

    def __call__(
        self, root: str, *, polling: bool, stop: threading.Event, emit: Callable[[set[str]], None]
    ) -> None:
        self.starts.append((root, polling))
        if self.failures:
            raise self.failures.pop(0)
        self.emits[root] = emit
        emit(set())
        stop.wait()
        self.may_end.wait()
        self.has_ended.set()

    def emit_paths(self, root: Path, *names: str) -> None:
        self.emits[str(root)]({str(root / name) for name in names})


class Desk:
    """A watch, its source, and the reported paths."""

    def __init__(self, root: Path, source: ScriptedSource) -> None:
        self.root = root
        self.source = source
        self.read: set[Path] = set()
        self.reported: asyncio.Queue[list[Path]] = asyncio.Queue()
        self.watch = DiskWatch(self._report, is_read=self.read.__contains__, source=source, retry_s=0)

    def _report(self, paths: Iterable[Path]) -> None:
        self.reported.put_nowait(list(paths))

    async def stands(self) -> None:
        """Wait for the first word of a watch: the tree itself."""
        while self.root not in await self.reported.get():
            pass


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path, ScriptedSource())
    yield desk
    await desk.watch.close()


async def test_one_watch_serves_all_who_ask(desk: Desk) -> None:
    first, second = desk.watch.add(desk.root), desk.watch.add(desk.root)
    await desk.stands()
    assert desk.source.starts == [(str(desk.root), False)]
    first()
    first()
    assert desk.watch.status() == WatchStatus("watchfiles", (desk.root,), 0)
    second()
    assert desk.watch.status() == WatchStatus("none", (), 0)
    await asyncio.to_thread(desk.source.has_ended.wait)


async def test_closing_does_not_wait_for_a_thread_that_ends_later(desk: Desk) -> None:
    desk.source.may_end.clear()
    desk.watch.add(desk.root)
    await desk.stands()
    await desk.watch.close()
    assert not desk.source.has_ended.is_set()
    desk.source.may_end.set()
    await asyncio.to_thread(desk.source.has_ended.wait)
    assert desk.reported.empty()


async def test_tells_changes_but_not_what_is_ignored_unless_it_was_read(desk: Desk) -> None:
    (desk.root / ".gitignore").write_text("*.log\n")
    desk.read.add(desk.root / "read.log")
    desk.watch.add(desk.root)
    await desk.stands()
    desk.source.emit_paths(desk.root, "a.log", "node_modules/x", "read.log", "b.py", ".git/index")
    assert await desk.reported.get() == [desk.root / "b.py", desk.root / "read.log"]


async def test_a_changed_ignore_file_is_read_anew(desk: Desk) -> None:
    desk.watch.add(desk.root)
    await desk.stands()
    desk.source.emit_paths(desk.root, "a.log")
    assert await desk.reported.get() == [desk.root / "a.log"]
    (desk.root / ".gitignore").write_text("*.log\n")
    desk.source.emit_paths(desk.root, "a.log", ".gitignore")
    assert await desk.reported.get() == [desk.root / ".gitignore"]


async def test_a_client_that_watches_stops_ours_and_gives_it_back(desk: Desk) -> None:
    dispose = desk.watch.add(desk.root)
    await desk.stands()
    give_back = desk.watch.leave_to_client((desk.root.parent,))
    assert desk.watch.status() == WatchStatus("client", (desk.root,), 0)
    give_back()
    give_back()
    await desk.stands()
    assert desk.watch.status() == WatchStatus("watchfiles", (desk.root,), 0)
    desk.watch.leave_to_client((desk.root,))
    dispose()
    assert desk.watch.status() == WatchStatus("none", (), 0)


@pytest.mark.parametrize("comes_first", ["client", "tree"])
async def test_a_tree_outside_the_client_s_folders_is_ours(desk: Desk, comes_first: str) -> None:
    theirs = desk.root / "theirs"
    if comes_first == "client":
        desk.watch.leave_to_client((theirs,))
    desk.watch.add(desk.root)
    desk.watch.add(theirs)
    if comes_first == "tree":
        desk.watch.leave_to_client((theirs,))
    await desk.stands()
    assert desk.watch.status() == WatchStatus("client+watchfiles", (theirs, desk.root), 0)


async def test_of_two_clients_one_may_leave(desk: Desk) -> None:
    first = desk.watch.leave_to_client((desk.root,))
    desk.watch.leave_to_client((desk.root,))
    desk.watch.add(desk.root)
    first()
    await desk.watch.close()
    assert desk.source.starts == []


async def test_a_stopped_watch_tells_nothing_more(desk: Desk) -> None:
    dispose = desk.watch.add(desk.root)
    await desk.stands()
    dispose()
    desk.source.emit_paths(desk.root, "late.py")
    await desk.watch.close()
    assert desk.reported.empty()


async def test_where_notifications_fail_the_tree_is_polled(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ScriptedSource(OSError("watch limit reached")))
    desk.watch.add(tmp_path)
    await desk.stands()
    await desk.stands()
    assert desk.source.starts == [(str(tmp_path), False), (str(tmp_path), True)]
    note = f"{tmp_path} is watched by polling"
    assert desk.watch.status() == WatchStatus("watchfiles", (tmp_path,), 1, (note,))
    await desk.watch.close()


async def test_a_tree_that_is_gone_is_taken_up_when_it_is_back(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ScriptedSource(*[FileNotFoundError()] * 3))
    desk.watch.add(tmp_path)
    await desk.stands()
    assert "gone" in desk.watch.status().notes[0]
    await desk.stands()
    assert desk.source.starts == [(str(tmp_path), False)] * 4
    assert desk.watch.status() == WatchStatus("watchfiles", (tmp_path,), 1)
    await desk.watch.close()


async def test_closing_ends_a_wait_for_a_lost_tree(tmp_path: Path) -> None:
    reported: asyncio.Queue[None] = asyncio.Queue()
    source = ScriptedSource(FileNotFoundError())
    watch = DiskWatch(
        lambda _: reported.put_nowait(None), is_read=lambda _: False, source=source, retry_s=3600
    )
    watch.add(tmp_path)
    await reported.get()
    await watch.close()
    assert watch.status() == WatchStatus("none", (), 1)


async def until(reported: asyncio.Queue[list[Path]], is_so: Callable[[list[Path]], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so(await reported.get()):
            pass


def plant(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")


async def test_the_real_watcher(root: Path) -> None:
    tree, first, second = root / "tree", root / "tree" / "src" / "a.py", root / "tree" / "src" / "b.py"
    plant(first)
    reported: asyncio.Queue[list[Path]] = asyncio.Queue()
    watch = DiskWatch(lambda paths: reported.put_nowait(list(paths)), is_read=lambda _: False, retry_s=0.05)
    watch.add(tree)
    await until(reported, lambda paths: tree in paths)
    plant(first)
    await until(reported, lambda paths: first in paths)
    shutil.rmtree(tree)
    await until(reported, lambda _: any("gone" in note for note in watch.status().notes))
    plant(second)
    await until(reported, lambda _: watch.status().roots == (tree,))
    plant(first)
    await until(reported, lambda paths: first in paths)
    await watch.close()


@pytest.mark.parametrize("comes_back", ["the same", "another"])
async def test_a_folder_that_is_moved_away_is_watched_again_when_it_is_back(
    root: Path, comes_back: str
) -> None:
    tree, aside, file = root / "tree", root / "aside", root / "tree" / "src" / "a.py"
    plant(file)
    reported: asyncio.Queue[list[Path]] = asyncio.Queue()
    watch = DiskWatch(lambda paths: reported.put_nowait(list(paths)), is_read=lambda _: False, retry_s=0.05)
    watch.add(tree)
    await until(reported, lambda _: watch.status().roots == (tree,))
    tree.rename(aside)
    if comes_back == "the same":
        await until(reported, lambda _: any("gone" in note for note in watch.status().notes))
        aside.rename(tree)
    else:
        plant(file)
    await until(reported, lambda _: watch.status() == WatchStatus("watchfiles", (tree,), 1))
    plant(file)
    await until(reported, lambda paths: file in paths)
    await watch.close()


def test_a_missing_folder_is_never_reported_as_watched(tmp_path: Path) -> None:
    emitted: list[set[str]] = []
    with pytest.raises(FileNotFoundError):
        watch_with_watchfiles(
            str(tmp_path / "gone"), polling=False, stop=threading.Event(), emit=emitted.append
        )
    assert emitted == []


A, B = Path("/a"), Path("/b")


class Work:
    """Work that waits for a gate, and counts how many runs of one path overlap."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started = asyncio.Event()
        self.runs: list[Path] = []
        self.under_way: list[Path] = []

    async def __call__(self, path: Path) -> None:
        assert path not in self.under_way
        self.under_way.append(path)
        self.runs.append(path)
        self.started.set()
        await self.gate.wait()
        self.under_way.remove(path)


async def test_many_asks_are_one_run_a_path() -> None:
    work = Work()
    work.gate.set()
    jobs = Coalescer(work, delay_s=0)
    for path in (A, B, A, A):
        jobs.schedule(path)
    await jobs.drain()
    assert sorted(work.runs) == [A, B]


async def test_waiting_for_a_path_waits_for_no_other_and_not_for_ever() -> None:
    work = Work()
    jobs = Coalescer(work, delay_s=0)
    jobs.schedule(A)
    await jobs.wait([B], timeout_s=60)
    await jobs.wait([A], timeout_s=0)
    assert work.under_way == work.runs
    work.gate.set()
    await jobs.wait([A, B], timeout_s=60)
    assert (work.runs, work.under_way) == ([A], [])


async def test_an_ask_during_the_run_is_one_more_run() -> None:
    work = Work()
    jobs = Coalescer(work, delay_s=0)
    jobs.schedule(A)
    await work.started.wait()
    for _ in range(3):
        jobs.schedule(A)
    work.gate.set()
    await jobs.drain()
    assert work.runs == [A, A]


async def test_closing_ends_what_is_under_way_and_refuses_more() -> None:
    work = Work()
    jobs = Coalescer(work, delay_s=0)
    jobs.schedule(A)
    await work.started.wait()
    await jobs.close()
    jobs.schedule(B)
    await jobs.drain()
    assert work.runs == [A]
