"""A workspace without a disk, for the tests of whoever stands on one.

Everything happens at once and in memory: a change is compared with the trackers before the call returns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from sidecar.workspace.buffers import Buffer, Editor, add_until_disposed
from sidecar.workspace.contract import (
    ClientFileSource,
    Dispose,
    EditApplier,
    FileAccessError,
    FileBytes,
    FileSource,
    FileView,
    StaleFile,
    WatchStatus,
)
from sidecar.workspace.files import text_hash
from sidecar.workspace.paths import ResolvedPath, path_to_uri, resolve_path
from sidecar.workspace.workspace import FileTracker, Workspace


class FakeWorkspace(Workspace):
    """Files in a dict, with :meth:`put` as the hand that changes them.

    >>> workspace = FakeWorkspace({Path("/p/a.py"): "x = 1"})
    >>> stale: list[StaleFile] = []
    >>> now = workspace.now(Path("/p/a.py"))
    >>> workspace.tracker("s", stale.append).expect(now.path, now.uri, now.hash)
    >>> workspace.put(Path("/p/a.py"), "x = 2")
    >>> [file.path.name for file in stale]
    ['a.py']
    """

    def __init__(self, files: Mapping[Path, str] | None = None) -> None:
        super().__init__()
        self.files = dict(files or {})
        self.watched: list[Path] = []
        self.client_folders: list[Path] = []
        self.client_files: list[tuple[Path, ClientFileSource]] = []
        self.closed = False

    def put(self, path: Path, text: str | None) -> None:
        """Change the file *path* on the disk that is not there; None deletes it."""
        if text is None:
            self.files.pop(path, None)
        else:
            self.files[path] = text
        self.disk_changed((path,))

    def now(self, path: Path) -> FileView:
        """Return *path* as it is now. Raises FileAccessError ``notFound``."""
        real = _normal(path)
        buffer = self._buffers.find(real)
        on_disk = self.files.get(real)
        if buffer is not None and not buffer.superseded:
            text = buffer.content.text
            return file_view(
                real,
                text,
                uri=buffer.uri,
                source="buffer",
                version=buffer.version,
                unsaved=text != on_disk,
            )
        if on_disk is None:
            raise FileAccessError("notFound", f"cannot read {path}: there is no such file")
        return file_view(real, on_disk)

    def editor(self, apply: EditApplier | None = None) -> Editor:
        """Add an editor."""
        return Editor(self._buffers, apply, on_event=self._buffer_changed)

    async def view(self, path: Path) -> FileView:
        """Return *path* as it is now."""
        return self.now(path)

    async def view_spelled(
        self, spelled: str, cwd: Path, roots: Sequence[Path]
    ) -> tuple[ResolvedPath, FileView | FileAccessError | None]:
        """Return where *spelled* leads, and the file there as it is now."""
        resolved = resolve_path(spelled, cwd, roots)
        try:
            return resolved, self.now(resolved.path) if resolved.inside else None
        except FileAccessError as problem:
            return resolved, problem

    async def view_project_file(self, path: Path, roots: Sequence[Path], *, limit_bytes: int) -> FileView:
        """Return *path* as it is now; there are no links here."""
        return self.now(path)

    async def find_existing(self, paths: Sequence[Path]) -> Sequence[Path]:
        """Return those of *paths* that are files here."""
        return [path for path in paths if self._now_or_none(path) is not None]

    async def write(
        self, path: Path, text: str, *, expected_hash: str | None, original: FileBytes | None = None
    ) -> FileView:
        """Write *path*; where a buffer is open through its editor, else beneath it if it is clean."""
        real = _normal(path)
        before, buffer = self._now_or_none(real), self._buffers.find(real)
        if (None if before is None else before.hash) != expected_hash:
            raise FileAccessError("changedSinceRead", f"cannot write {path}: it is not what was last read")
        if before is None or before.source == "disk" or buffer is None:
            self.put(real, text)
        elif buffer.apply is None:
            self._write_beneath(buffer, before, text)
        elif not await buffer.apply(before, text):
            raise FileAccessError("unwritable", f"cannot write {path}: the editor did not accept the edit")
        return self.now(real)

    async def delete(self, path: Path, *, expected_hash: str) -> None:
        """Delete *path*."""
        if self.now(path).hash != expected_hash:
            raise FileAccessError("changedSinceRead", f"cannot delete {path}: it is not what was last read")
        self.put(_normal(path), None)

    def watch(self, root: Path) -> Dispose:
        """Note that *root* is watched."""
        self.watched.append(root)

        def dispose() -> None:
            if root in self.watched:
                self.watched.remove(root)

        return dispose

    def leave_to_client(self, folders: Iterable[Path]) -> Dispose:
        """Note who watches."""
        given = tuple(folders)
        self.client_folders += given

        def dispose() -> None:
            self.client_folders = [kept for kept in self.client_folders if kept not in given]

        return dispose

    def tracker(
        self,
        session_id: str,
        on_stale: Callable[[StaleFile], None],
        on_fresh: Callable[[str], None] = lambda uri: None,
    ) -> FileTracker:
        """Return the file tracker of a session."""
        tracker = self._trackers.get(session_id)
        if tracker is None:
            tracker = FileTracker(on_stale, on_fresh, on_expect=self._compare_now)
            self._trackers[session_id] = tracker
        tracker.on_stale, tracker.on_fresh = on_stale, on_fresh
        return tracker

    def add_client_files(self, root: Path, source: ClientFileSource) -> Dispose:
        """Keep *source* for tests to look at; files are read from this disk all the same."""
        return add_until_disposed(self.client_files, (root, source))

    def watch_status(self) -> WatchStatus:
        """Return who watches what."""
        backend = "client" if self.client_folders else "watchfiles" if self.watched else "none"
        return WatchStatus(backend, tuple(self.watched), 0)

    async def close(self) -> None:
        """Note that the workspace is closed."""
        self.closed = True

    def _write_beneath(self, buffer: Buffer, before: FileView, text: str) -> None:
        if before.unsaved:
            raise FileAccessError("unwritable", f"cannot write {before.path}: the editor has unsaved changes")
        buffer.superseded = True
        self.put(before.path, text)

    def _now_or_none(self, path: Path) -> FileView | None:
        try:
            return self.now(path)
        except FileAccessError:
            return None

    def _buffer_changed(self, buffer: Buffer) -> None:
        if buffer.path is not None:
            self._on_disk_change((buffer.path,))

    def _on_disk_change(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self._compare_now(path)
            self._notify(path)

    def _compare_now(self, path: Path) -> None:
        now = self._now_or_none(path)
        for tracker in tuple(self._trackers.values()):
            tracker.compare(path, now)


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))


def file_view(
    path: Path,
    text: str,
    *,
    uri: str | None = None,
    source: FileSource = "disk",
    version: int | None = None,
    unsaved: bool = False,
) -> FileView:
    """Return the view of a file with *text*; its URI is that of *path* unless given."""
    return FileView(
        path=path,
        uri=uri or path_to_uri(path),
        text=text,
        hash=text_hash(text),
        source=source,
        version=version,
        size_bytes=len(text.encode("utf-8", "surrogatepass")),
        unsaved=unsaved,
    )
