"""The workspace of the daemon: open buffers over the disk, the reads of each session, and changes since.

Belongs to one event loop. Every read, write and hash happens in a worker thread.

:class:`FileTracker` compares the files of one session with the content that its model knows, by hashes that
others have computed. The session decides about that content, from its conversation.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from sidecar.workspace.buffers import Buffer, Buffers, ClientFileSources, Editor, add_until_disposed
from sidecar.workspace.contract import (
    ClientFileSource,
    Dispose,
    EditApplier,
    FileAccessError,
    FileBytes,
    FileSource,
    FileView,
    RenameListener,
    StaleFile,
    WatchStatus,
)
from sidecar.workspace.disk_write import delete_text, write_text
from sidecar.workspace.files import (
    BOM,
    READ_LIMIT_BYTES,
    DiskText,
    read_text,
    real_path,
    require_resolved,
    text_hash,
)
from sidecar.workspace.paths import ResolvedPath, path_to_uri, resolve_path, resolve_project_file
from sidecar.workspace.watch import Coalescer, DiskWatch, WatchSource, watch_with_watchfiles

_CHECK_DELAY_S = 0.05
_EDIT_SETTLES_S = 2.0


class Workspace:
    """The files as they are now, for every session of the daemon.

    Args:
        limit_bytes: files over this size are not read.
        check_delay_s: how long changes of a read file are gathered before it is compared.
        edit_settles_s: how long to wait for an editor to report an edit it has accepted.
        watch_source: watches trees on disk.
    """

    def __init__(
        self,
        *,
        limit_bytes: int = READ_LIMIT_BYTES,
        check_delay_s: float = _CHECK_DELAY_S,
        edit_settles_s: float = _EDIT_SETTLES_S,
        watch_source: WatchSource = watch_with_watchfiles,
    ) -> None:
        self._limit_bytes = limit_bytes
        self._edit_settles_s = edit_settles_s
        self._buffers = Buffers()
        self._client_files = ClientFileSources()
        self._trackers: dict[str, FileTracker] = {}
        self._listeners: list[Callable[[Path], None]] = []
        self._rename_listeners: list[RenameListener] = []
        self._writing: Counter[Path] = Counter()
        self._n_written = 0
        self._disk_lock = threading.Lock()
        self._checks = Coalescer(self._compare, delay_s=check_delay_s)
        self._watch = DiskWatch(self._on_disk_change, is_read=self._is_read, source=watch_source)

    def editor(self, apply: EditApplier | None = None) -> Editor:
        """Add an editor; *apply* applies edits in its open buffers, None where it takes none."""

        def on_event(buffer: Buffer) -> None:
            if buffer.path is None:
                return
            if self._is_read(buffer.path):
                self._checks.schedule(buffer.path)
            self._notify(buffer.path)

        return Editor(self._buffers, apply, on_event=on_event)

    async def view(self, path: Path) -> FileView:
        """Return *path* as it is now, buffer first. Raises FileAccessError."""
        return await self._view(*await asyncio.to_thread(_look, path, self._limit_bytes))

    async def view_spelled(
        self, spelled: str, cwd: Path, roots: Sequence[Path]
    ) -> tuple[ResolvedPath, FileView | FileAccessError | None]:
        """Resolve a path as ``resolve_path`` does, and view the file there, in one thread together.

        Returns:
            Where it leads, and the file as it is now or the reason why it cannot be read. None stands for a
            file outside of *roots*, which nobody has looked at.

        Raises:
            FileAccessError: *spelled* can name no file.
        """

        def look() -> tuple[ResolvedPath, DiskText | FileAccessError | None]:
            resolved = resolve_path(spelled, cwd, roots)
            return resolved, _read(resolved.path, self._limit_bytes) if resolved.inside else None

        resolved, disk = await asyncio.to_thread(look)
        try:
            return resolved, None if disk is None else await self._view(resolved.path, disk)
        except FileAccessError as problem:
            return resolved, problem

    async def view_project_file(self, path: Path, roots: Sequence[Path], *, limit_bytes: int) -> FileView:
        """Return a file of the project that nobody asked for, buffer first.

        Raises FileAccessError, ``outsideRoots`` when links lead out of *roots*, the folders of the project.
        """
        real = await asyncio.to_thread(resolve_project_file, path, roots)
        found, disk = await asyncio.to_thread(_look, real, limit_bytes)
        if found != real:  # it has become a link meanwhile
            await asyncio.to_thread(resolve_project_file, found, roots)
        return await self._view(found, disk)

    async def _view(self, real: Path, disk: DiskText | FileAccessError) -> FileView:
        buffer = self._buffers.find(real)
        if buffer is not None and not buffer.superseded:
            disk_hash = disk.hash if isinstance(disk, DiskText) else None
            return await asyncio.to_thread(_view_of_text, buffer.content.text, real, buffer, disk_hash)
        if isinstance(disk, FileAccessError):
            raise disk
        unsaved = await self._client_files.find_unsaved(real, disk.text)
        if unsaved is not None:
            return await asyncio.to_thread(_view_of_text, unsaved, real, None, disk.hash)
        return _view_of_disk(real, disk)

    async def find_existing(self, paths: Sequence[Path]) -> Sequence[Path]:
        """Return the existing ones of *paths*, on disk or as an open buffer, in order. Follows no links."""
        if not paths:
            return ()
        on_disk = await asyncio.to_thread(lambda: [path for path in paths if os.path.lexists(path)])
        if not self._buffers.by_key:
            return on_disk
        known = {*on_disk, *(buffer.path for buffer in self._buffers.all())}
        return [path for path in paths if path in known]

    async def open_views(self) -> Sequence[FileView]:
        """Return every open buffer that stands for a file, one view a file."""
        paths = {buffer.path: None for buffer in self._buffers.all() if buffer.path and not buffer.superseded}
        views = [await self._view_or_none(path) for path in paths]
        return tuple(view for view in views if view is not None and view.source == "buffer")

    async def write(
        self, path: Path, text: str, *, expected_hash: str | None, original: FileBytes | None = None
    ) -> FileView:
        """Make *text* the content of *path* and return the new view.

        *expected_hash* is the hash the caller has seen, None for a file that must not exist yet; anything
        else there raises FileAccessError ``changedSinceRead``. An open buffer is edited through the editor
        when it offers that; else a clean buffer's file is written, and an unsaved one is refused with the way
        out. Disk writes are atomic and keep mode and line ends of *text* as given. With *original*, a file
        that was kept, a write to the disk restores its bytes and its mode instead.
        """
        real = path
        await asyncio.to_thread(require_resolved, path)
        self._writing[real] += 1
        try:
            buffer = self._buffers.find(real)
            if buffer is None or buffer.superseded:
                return await self._write_unshared(real, text, expected_hash, original)
            view = await self.view(real)
            if view.hash != expected_hash:
                raise _error_of_change(real, "the open buffer")
            if buffer.apply is not None:
                return await self._write_through_editor(buffer.apply, view, text)
            if view.unsaved:
                raise _error_of_unsaved(view)
            # The buffer is clean: it is out of date until the editor has loaded the file anew.
            n_events = buffer.n_events
            view = await self._write_disk(real, text, expected_hash, original)
            buffer.superseded = buffer.n_events == n_events
            return view
        finally:
            # The session that writes records the new view at once; for all others the file is compared now.
            self._writing[real] -= 1
            self._writing += Counter()  # drops the paths that nothing writes any more
            self._n_written += 1
            if self._is_read(real):
                self._checks.schedule(real)

    async def delete(self, path: Path, *, expected_hash: str) -> None:
        """Delete the file *path*.

        Raises FileAccessError ``changedSinceRead`` unless its content has *expected_hash*, and ``unwritable``
        while an editor holds unsaved changes of it.
        """
        view = await self.view(path)
        if view.hash != expected_hash or view.path != path:
            raise _error_of_change(path, "the file")
        if view.unsaved:
            raise _error_of_unsaved(view)
        await asyncio.to_thread(delete_text, path, expected_hash, self._limit_bytes)
        buffer = self._buffers.find(path)
        if buffer is not None:  # the editor still shows it, until it has seen that the file is gone
            buffer.superseded = True
        self._on_disk_change((path,))

    def watch(self, root: Path) -> Dispose:
        """Watch the tree *root*, shared with every other caller of the same tree."""
        return self._watch.add(real_path(root))

    def leave_to_client(self, folders: Iterable[Path]) -> Dispose:
        """Leave the trees below *folders* to a client that watches them, until the disposer is called."""
        return self._watch.leave_to_client(tuple(map(real_path, folders)))

    def disk_changed(self, paths: Iterable[Path]) -> None:
        """Record that *paths* changed, appeared or vanished on disk."""
        self._on_disk_change(with_real_parents(paths))

    async def report_renames(self, paths: Iterable[tuple[Path, Path]]) -> None:
        """Record that the user renamed files or folders, each from its old to its new path."""
        found = with_real_parents(path for pair in paths for path in pair)
        self._on_disk_change(found)
        for old, new in zip(found[::2], found[1::2], strict=True):
            for listener in tuple(self._rename_listeners):
                await listener(old, new)

    def tracker(
        self,
        session_id: str,
        on_stale: Callable[[StaleFile], None],
        on_fresh: Callable[[str], None] = lambda uri: None,
    ) -> FileTracker:
        """Return the file tracker of a session; asking again replaces its callbacks.

        Args:
            session_id: the session.
            on_stale: called once when a tracked file stops having the expected content.
            on_fresh: called with the URI of such a file when that is over.
        """
        tracker = self._trackers.get(session_id)
        if tracker is None:
            tracker = FileTracker(on_stale, on_fresh, on_expect=self._checks.schedule)
            self._trackers[session_id] = tracker
        tracker.on_stale, tracker.on_fresh = on_stale, on_fresh
        return tracker

    def drop_tracker(self, session_id: str) -> None:
        """Forget a session's tracker."""
        self._trackers.pop(session_id, None)

    async def wait_for_checks(self, paths: Iterable[Path]) -> None:
        """Wait for the comparisons of *paths* that are due, for a second at most."""
        await self._checks.wait(paths, timeout_s=1.0)

    def on_change(self, listener: Callable[[Path], None]) -> Dispose:
        """Call *listener* with the path of every file that may have changed, in a buffer or on disk.

        A folder stands for everything below it.
        """
        return add_until_disposed(self._listeners, listener)

    def on_rename(self, listener: RenameListener) -> Dispose:
        """Call *listener* with the old and the new path of every file and folder that the user renames."""
        return add_until_disposed(self._rename_listeners, listener)

    def add_client_files(self, root: Path, source: ClientFileSource) -> Dispose:
        """Use *source* for the files below *root* until the returned disposer is called.

        It comes after the open buffers and before the disk, and is used only for text files that exist on
        disk. Writes below *root* go through it where it takes them. Of several the newest counts.
        """
        return self._client_files.add(real_path(root), source)

    def watch_status(self) -> WatchStatus:
        """Return the state of watching."""
        return self._watch.status()

    async def settle(self) -> None:
        """Wait until every comparison that is due has been made."""
        await self._checks.drain()

    async def close(self) -> None:
        """Stop watching and drop all buffers."""
        await self._watch.close()
        await self._checks.close()
        self._buffers.by_key.clear()
        self._client_files.clear()
        self._trackers.clear()
        self._listeners.clear()
        self._rename_listeners.clear()

    def _on_disk_change(self, paths: Iterable[Path]) -> None:
        changed = sorted(set(paths))
        for path in changed:
            for tracker in self._trackers.values():
                for file in tracker.below(path):
                    self._checks.schedule(file)
        for path in changed:
            self._notify(path)

    def _notify(self, path: Path) -> None:
        for listener in tuple(self._listeners):
            listener(path)

    def _is_read(self, path: Path) -> bool:
        return any(tracker.holds(path) for tracker in tuple(self._trackers.values()))

    async def _view_or_none(self, path: Path) -> FileView | None:
        try:
            return await self.view(path)
        except FileAccessError:
            return None

    async def _compare(self, path: Path) -> None:
        n_written = self._n_written
        if not self._is_read(path):
            return
        now = await self._view_or_none(path)
        if path in self._writing:
            return  # compared again when the write is over
        if self._n_written != n_written:
            self._checks.schedule(path)  # the view may be from before the write
            return
        for tracker in tuple(self._trackers.values()):
            tracker.compare(path, now)

    async def _write_unshared(
        self, real: Path, text: str, expected_hash: str | None, original: FileBytes | None
    ) -> FileView:
        """Write a file that no open buffer stands for: through a client that takes it, else to the disk."""
        if not self._client_files.cover(real):
            return await self._write_disk(real, text, expected_hash, original)
        write = self._client_files.writer(real)
        before: FileView | None = None
        try:
            before = await self.view(real)
        except FileAccessError as error:
            if error.problem != "notFound":
                raise
        if write is None and before is not None and before.unsaved:
            raise _error_of_unsaved(before)
        if write is None:
            return await self._write_disk(real, text, expected_hash, original)
        if (None if before is None else before.hash) != expected_hash:
            raise _error_of_change(real, "the file")
        if not await write(real, text):
            raise _error_of_refusal(real)
        self._on_disk_change((real,))
        return await self.view(real)

    async def _write_disk(
        self, real: Path, text: str, expected_hash: str | None, original: FileBytes | None
    ) -> FileView:
        def write() -> DiskText:
            with self._disk_lock:
                return write_text(real, text, expected_hash, self._limit_bytes, original)

        view = _view_of_disk(real, await asyncio.to_thread(write))
        self._on_disk_change((real,))
        return view

    async def _write_through_editor(self, apply: EditApplier, before: FileView, text: str) -> FileView:
        moved = asyncio.Event()
        dispose = self.on_change(lambda path: moved.set() if path == before.path else None)
        try:
            if await apply(before, text):
                return await self._view_after_edit(before, text, moved)
        finally:
            dispose()
        now = await self.view(before.path)
        if now.hash != before.hash:
            raise _error_of_change(before.path, "the open buffer")
        raise _error_of_refusal(before.path)

    async def _view_after_edit(self, before: FileView, text: str, moved: asyncio.Event) -> FileView:
        """Return the view once the buffer has come to *text*, at the latest when the time for that is over.

        One edit may be reported in several changes, with pauses; only the last one shows whether the editor
        has altered it.
        """
        wanted = text_hash(text)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._edit_settles_s):
                while True:
                    moved.clear()
                    now = await self.view(before.path)
                    if now.hash == wanted:
                        return now
                    await moved.wait()
        # The time may have run out while the file was being looked at.
        now = await self.view(before.path)
        if now.hash == before.hash:
            raise FileAccessError(
                "unwritable",
                f"the state of {before.path} is unknown: the editor took the edit and never reported it",
                hint="read it again",
            )
        return now


def with_real_parents(paths: Iterable[Path]) -> Sequence[Path]:
    """Return *paths*, which need not exist, with the links of the folders that they are in followed."""
    given = tuple(paths)
    real_parents = {parent: real_path(parent) for parent in {path.parent for path in given}}
    return [real_parents[path.parent] / path.name for path in given]


def _look(path: Path, limit_bytes: int) -> tuple[Path, DiskText | FileAccessError]:
    """Return the real path of *path*, and its text on disk or the reason why there is none."""
    real = real_path(path)
    return real, _read(real, limit_bytes)


def _read(real: Path, limit_bytes: int) -> DiskText | FileAccessError:
    try:
        return read_text(real, limit_bytes, follow_links=False)
    except FileAccessError as problem:
        return problem


def _view_of_disk(path: Path, disk: DiskText) -> FileView:
    return FileView(
        path=path,
        uri=path_to_uri(path),
        text=disk.text,
        hash=disk.hash,
        source="disk",
        version=None,
        size_bytes=disk.size_bytes,
        codec=disk.codec,
    )


def _view_of_text(text: str, path: Path, buffer: Buffer | None, disk_hash: str | None) -> FileView:
    """Return the view of the *text* that *buffer*, or a client without shared buffers, has for *path*."""
    body = text.removeprefix(BOM)
    now_hash = text_hash(body)
    return FileView(
        path=path,
        uri=path_to_uri(path) if buffer is None else buffer.uri,
        text=body,
        hash=now_hash,
        source="buffer",
        version=None if buffer is None else buffer.version,
        size_bytes=len(body.encode("utf-8", "surrogatepass")),
        unsaved=now_hash != disk_hash,
    )


def _error_of_unsaved(view: FileView) -> FileAccessError:
    what = "the file" if view.version is None else f"version {view.version}"
    return FileAccessError(
        "unwritable",
        f"cannot write {view.path}: {what} has unsaved changes in the editor",
        hint="save or revert it in the editor, then read it again",
    )


def _error_of_refusal(path: Path) -> FileAccessError:
    return FileAccessError(
        "unwritable",
        f"cannot write {path}: the editor did not accept the edit",
        hint="ask the user what to do",
    )


def _error_of_change(path: Path, what: str) -> FileAccessError:
    return FileAccessError(
        "changedSinceRead",
        f"cannot write {path}: {what} is not what was last read",
        hint="read it again, then decide",
    )


class _Expected(Struct):
    """The content that a file is expected to have, and whether it was reported to differ."""

    uri: str
    hash: str
    is_stale: bool = False


class FileTracker:
    """The tracked files of one session, by resolved path.

    Args:
        on_stale: called once when a file stops having the expected content.
        on_fresh: called with the URI of a file that was reported stale and is not any more: it has the
            expected content again, another content is expected, or the file is not tracked any more.
        on_expect: called with every path that is newly expected to have some content, so that it is compared.
    """

    def __init__(
        self,
        on_stale: Callable[[StaleFile], None],
        on_fresh: Callable[[str], None],
        *,
        on_expect: Callable[[Path], None],
    ) -> None:
        self.on_stale = on_stale
        self.on_fresh = on_fresh
        self._on_expect = on_expect
        self._files: dict[Path, _Expected] = {}
        self._above: set[Path] = set()
        self._n_holds = 0
        self._held: dict[Path, None] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The tracked files."""
        return tuple(self._files)

    def expect(self, path: Path, uri: str, content_hash: str) -> None:
        """Compare *path* with *content_hash* from now on; the same expectation again changes nothing."""
        before = self._files.get(path)
        if before is not None and (before.uri, before.hash) == (uri, content_hash):
            return
        self._files[path] = _Expected(uri, content_hash)
        # Never removed: a folder too many costs a look-up, and nearly all changes are in none of them.
        if path.parent not in self._above:  # else all above it are there as well
            self._above.update(path.parents)
        self._withdraw(before)
        # A change between the read and this call was reported to nobody: compare once more.
        self._on_expect(path)

    def forget(self, path: Path) -> None:
        """Stop tracking *path*."""
        self._withdraw(self._files.pop(path, None))

    def is_stale(self, path: Path) -> bool:
        """Whether the file is known to differ from its expected content."""
        expected = self._files.get(path)
        return expected is not None and expected.is_stale

    def below(self, path: Path) -> tuple[Path, ...]:
        """Return the tracked files at *path* or, where it is a folder, below it."""
        if path in self._files:
            return (path,)
        return tuple(file for file in self._files if path in file.parents) if path in self._above else ()

    def holds(self, path: Path) -> bool:
        """Whether *path* is tracked; any thread may ask."""
        return path in self._files

    def compare(self, path: Path, now: FileView | None) -> None:
        """Compare *path* with its content now; None when it is gone or no readable text."""
        expected = self._files.get(path)
        if self._n_holds:
            self._held[path] = None
            return
        if expected is None:
            return
        now_hash = None if now is None else now.hash
        was_stale, expected.is_stale = expected.is_stale, now_hash != expected.hash
        if was_stale and not expected.is_stale:
            self.on_fresh(expected.uri)
        elif expected.is_stale and not was_stale:
            source: FileSource = "disk" if now is None else now.source
            self.on_stale(StaleFile(expected.uri, expected.hash, now_hash, source))

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Compare no file until the end of the block, which moves expectations and files together."""
        self._n_holds += 1
        try:
            yield
        finally:
            self._n_holds -= 1
            if not self._n_holds:
                held, self._held = self._held, {}
                for path in held:
                    self._on_expect(path)

    def _withdraw(self, expected: _Expected | None) -> None:
        """Report that nobody needs to know any more that a file was stale."""
        if expected is not None and expected.is_stale:
            self.on_fresh(expected.uri)
