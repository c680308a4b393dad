"""Watching trees on disk: one thread for each tree, shared by all its users; none where a client watches.

The operating system's notifications come through watchfiles. Its engine is driven from a thread of our own
rather than through ``awatch``: setting up the watches of a large tree takes long, and thousands of changes
have to be filtered; both would hold up the event loop.

Never raises for a tree that is missing, vanishes or cannot be watched: the status has a note of it, the tree
is polled where notifications fail, and it is watched again when it is back.

Changes come in bursts. :class:`Coalescer` does the work on a path soon after the first of them, and never
twice at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from sidecar._internal.async_cancel import keep_until_done
from sidecar.workspace.contract import Dispose, WatchStatus
from sidecar.workspace.ignore import IGNORE_FILES, IgnoreRules
from sidecar.workspace.paths import is_inside

_STEP_MS = 200
_DEBOUNCE_MS = 800
_WAKE_UP_MS = 5000
_POLL_DELAY_MS = 2000
_RETRY_S = 5.0
_DELETED = 3
"""How watchfiles numbers the removal of a path, also of one that was renamed."""


class WatchSource(Protocol):
    """Watches one tree in the calling thread.

    Contract: calls *emit* with the paths that changed until *stop* is set, then returns within a second;
    raises FileNotFoundError when the tree is gone and another exception when it cannot be watched this way.
    """

    def __call__(
        self, root: str, *, polling: bool, stop: threading.Event, emit: Callable[[set[str]], None]
    ) -> None:
        """Watch *root*; the first *emit*, of nothing, means that the watch is active."""
        ...


def load_watchfiles() -> None:
    """Load the library that watches trees; it takes as long as the rest of this room together."""
    import watchfiles._rust_notify  # noqa: F401  # loaded for the first watch


def watch_with_watchfiles(
    root: str, *, polling: bool, stop: threading.Event, emit: Callable[[set[str]], None]
) -> None:
    """Watch *root* with watchfiles; a :class:`WatchSource`."""
    from watchfiles._rust_notify import RustNotify

    # A watch follows a folder and not its name, and a watch of a missing folder watches nothing.
    folder = _identify_folder(root)
    with RustNotify([root], False, polling, _POLL_DELAY_MS, True, True) as notify:
        changes: set[tuple[int, str]] = set()
        while not stop.is_set():
            emit({path for _, path in changes})
            if (_DELETED, root) in changes or _identify_folder(root) != folder:
                raise FileNotFoundError(root)
            found = notify.watch(_DEBOUNCE_MS, _STEP_MS, _WAKE_UP_MS, stop)
            changes = found if isinstance(found, set) else set()


def _identify_folder(path: str) -> tuple[int, int]:
    """Return the device and number of the folder at *path*. Raises FileNotFoundError."""
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise FileNotFoundError(path)
    return status.st_dev, status.st_ino


class _Tree(Struct, eq=False):
    """One watched tree: the number of its users, and its task while there is one."""

    path: Path
    n_users: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    is_active: bool = False
    note: str | None = None


class DiskWatch:
    """Watches trees and calls *on_change* on the event loop with the paths that may have changed.

    Paths that the ignore rules leave out are skipped, unless *is_read* (called from other threads) returns
    True for them. When a watch becomes active, and when it has ended, the tree itself is reported: everything
    below it may have changed unseen.
    """

    def __init__(
        self,
        on_change: Callable[[Iterable[Path]], None],
        *,
        is_read: Callable[[Path], bool],
        source: WatchSource = watch_with_watchfiles,
        retry_s: float = _RETRY_S,
    ) -> None:
        self._on_change = on_change
        self._is_read = is_read
        self._source = source
        self._retry_s = retry_s
        self._trees: dict[Path, _Tree] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._client_folders: list[tuple[Path, ...]] = []
        self._n_dropped = 0

    def add(self, root: Path) -> Dispose:
        """Watch the resolved *root*, shared with other users; must be called on the event loop."""
        tree = self._trees.setdefault(root, _Tree(root))
        tree.n_users += 1
        if not self._is_clients(tree):
            self._start(tree)

        def release() -> None:
            tree.n_users -= 1
            if tree.n_users == 0 and self._trees.get(tree.path) is tree:
                del self._trees[tree.path]
                self._stop(tree)

        return _once(release)

    def leave_to_client(self, folders: tuple[Path, ...]) -> Dispose:
        """Run no thread for trees inside the resolved *folders*, which a client watches, until disposed."""
        self._client_folders.append(folders)
        self._start_and_stop()

        def take_back() -> None:
            self._client_folders.remove(folders)
            self._start_and_stop()

        return _once(take_back)

    def status(self) -> WatchStatus:
        """Return the state of watching."""
        trees = self._trees.values()
        clients = tuple(tree.path for tree in trees if self._is_clients(tree))
        active = tuple(tree.path for tree in trees if tree.is_active)
        notes = tuple(tree.note for tree in trees if tree.note is not None)
        names = [name for name, paths in (("client", clients), ("watchfiles", active)) if paths]
        return WatchStatus("+".join(names) or "none", clients + active, self._n_dropped, notes)

    async def close(self) -> None:
        """Stop watching. Each thread ends by itself within a second, and reports nothing more.

        It is not waited for: the end of a daemon, and of each command with one, would take as long.
        """
        for tree in tuple(self._trees.values()):
            self._stop(tree)
        self._trees.clear()
        for task in self._ending:
            task.cancel()
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _is_clients(self, tree: _Tree) -> bool:
        return any(is_inside(tree.path, folders) for folders in self._client_folders)

    def _start_and_stop(self) -> None:
        for tree in self._trees.values():
            if self._is_clients(tree):
                self._stop(tree)
            else:
                self._start(tree)

    def _start(self, tree: _Tree) -> None:
        if tree.task is None:
            tree.stop, tree.wake = threading.Event(), asyncio.Event()
            tree.task = asyncio.get_running_loop().create_task(self._follow(tree, tree.stop, tree.wake))

    def _stop(self, tree: _Tree) -> None:
        if tree.task is None:
            return
        tree.stop.set()
        tree.wake.set()
        keep_until_done(tree.task, self._ending)
        tree.task = None
        tree.is_active, tree.note = False, None

    async def _follow(self, tree: _Tree, stop: threading.Event, wake: asyncio.Event) -> None:
        """Watch *tree* until it is stopped, again and again where watching ends by itself."""
        polling = False
        while not stop.is_set():
            error = await self._watch_once(tree, polling, stop)
            if stop.is_set():
                return
            is_new = tree.is_active or tree.note is None
            tree.is_active = False
            if isinstance(error, FileNotFoundError):
                tree.note = f"{tree.path} is gone; watching starts again when it is back"
            else:
                polling = True
                reason = "the watcher ended" if error is None else str(error) or type(error).__name__
                tree.note = f"{tree.path} cannot be watched by notifications ({reason}); it is polled instead"
            if is_new:
                self._n_dropped += 1
                self._on_change((tree.path,))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), self._retry_s)

    async def _watch_once(self, tree: _Tree, polling: bool, stop: threading.Event) -> Exception | None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Exception | None] = loop.create_future()
        rules = IgnoreRules(tree.path)

        def post(function: Callable[..., None], *arguments: object) -> None:
            # A closed loop takes no calls any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(function, *arguments)

        def emit(paths: set[str]) -> None:
            changed = [Path(path) for path in sorted(paths)]
            if any(path.name in IGNORE_FILES for path in changed):
                rules.forget()
            kept = (path for path in changed if self._is_read(path) or not rules.is_ignored(path))
            post(report, tuple(kept))

        def report(paths: tuple[Path, ...]) -> None:
            if stop.is_set():
                return
            if not tree.is_active:
                tree.is_active, tree.note = True, f"{tree.path} is watched by polling" if polling else None
                paths = (*paths, tree.path)
            if paths:
                self._on_change(paths)

        def run() -> None:
            error: Exception | None = None
            try:
                self._source(str(tree.path), polling=polling, stop=stop, emit=emit)
            except Exception as problem:  # however the watcher fails, the tree is watched again
                error = problem
            post(ended.set_result, error)

        threading.Thread(target=run, name=f"watch {tree.path.name}", daemon=True).start()
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            stop.set()
            raise


def _once(action: Callable[[], None]) -> Dispose:
    pending = [action]

    def dispose() -> None:
        if pending:
            pending.pop()()

    return dispose


class _Job(Struct, eq=False):
    task: asyncio.Task[None]
    must_run_again: bool = False


class Coalescer:
    """Runs *work* for each scheduled path, *delay_s* seconds after it was scheduled.

    A path that is scheduled again during the delay runs once; one that is scheduled while its work is under
    way runs exactly once more. *work* contract: never raises.
    """

    def __init__(self, work: Callable[[Path], Awaitable[None]], *, delay_s: float) -> None:
        self._work = work
        self._delay_s = delay_s
        self._jobs: dict[Path, _Job] = {}
        self._waiting: set[Path] = set()
        self._closed = False

    def schedule(self, path: Path) -> None:
        """Run the work on *path* soon; after :meth:`close` nothing happens."""
        if self._closed or path in self._waiting:
            return
        job = self._jobs.get(path)
        if job is None:
            self._waiting.add(path)
            self._jobs[path] = _Job(asyncio.get_running_loop().create_task(self._run(path)))
        else:
            job.must_run_again = True

    async def wait(self, paths: Iterable[Path], timeout_s: float) -> None:
        """Wait until the work scheduled on *paths* is done, for *timeout_s* seconds at most."""
        tasks = [self._jobs[path].task for path in paths if path in self._jobs] if self._jobs else ()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    async def drain(self) -> None:
        """Wait until nothing is scheduled or under way."""
        while self._jobs:
            await asyncio.wait([job.task for job in self._jobs.values()])

    async def close(self) -> None:
        """Drop scheduled work and wait for work under way to end."""
        self._closed = True
        tasks = [job.task for job in self._jobs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, path: Path) -> None:
        try:
            while True:
                await asyncio.sleep(self._delay_s)
                self._waiting.discard(path)
                await self._work(path)
                if not self._jobs[path].must_run_again:
                    return
                self._jobs[path].must_run_again = False
                self._waiting.add(path)
        finally:
            self._waiting.discard(path)
            self._jobs.pop(path, None)
