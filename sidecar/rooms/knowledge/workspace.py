"""The index of the files of a folder: code and text, found by words, names and paths.

:class:`FilesIndex` indexes the files that its caller lists and nothing else, so the caller's ignore
rules hold. :class:`FolderIndex` is such a caller: it lists a folder by its ignore rules, reads unsaved
buffers before files, and follows changes. Listing, reading and indexing happen off the event loop, in small
batches; between them searches are answered. Neither writes to the folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from sidecar._internal.values import Value
from sidecar.rooms.knowledge.index import Document, IndexHit, IndexThread, TextIndex
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.ignore import IGNORE_FILES, IgnoreRules, walk
from sidecar.workspace.paths import read_project_text
from sidecar.workspace.watch import Coalescer
from sidecar.workspace.workspace import Workspace

FILES_PER_BATCH: Final = 32
BINARY_PROBE_CHARS: Final = 8192
ROOM: Final = ""

MAX_ENTRIES: Final = 100_000
READ_LIMIT_BYTES: Final = 2_000_000
MAX_FILE_CHARS: Final = 400_000
"""A longer file is found by its path only."""

SETTLE_S: Final = 0.5
"""How long the changes of one file are gathered: a buffer changes with every key."""

ListFiles: TypeAlias = Callable[[], Iterable[Path]]
"""Lists the files to index. Contract: may block; is called in a worker thread."""

ReadFile: TypeAlias = Callable[[Path], str | None]
"""Returns a file's current text, None for a missing, ignored or binary one.

Contract: may block; is called in a worker thread; may raise, which costs only this file.
"""


class FileNotice(Value):
    """A file to index again; *gone* files are removed."""

    key: str
    path: Path
    gone: bool


class FilesIndex:
    """The index of the files that *files* lists: their lines, their names and their paths.

    Args:
        files: lists the files; see :data:`ListFiles`.
        read: reads one; see :data:`ReadFile`.
        root: the folder that shown and searched paths are relative to.
        database: the path of the index between runs, None for memory.
        on_progress: called with (done, total) files after each batch, in the event loop. Contract: never
            raises.
        on_error: receives the errors that kept files from being indexed. Contract: never raises.
    """

    def __init__(
        self,
        files: ListFiles,
        read: ReadFile,
        *,
        root: Path,
        database: Path | None,
        on_progress: Callable[[int, int], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._files = files
        self._read = read
        self._root = root
        self._on_progress = on_progress
        self._on_error = on_error
        self._thread = IndexThread(database, self.refresh)
        self._must_list = False
        self._waiting: dict[str, FileNotice] = {}
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    def refresh(self) -> None:
        """List the files and index the differences, in the background. This begins the first build, too."""
        self._must_list = True
        self._start_worker()

    def note_change(self, path: Path) -> None:
        """Have *path*, a new or changed file, indexed in the background."""
        self._enqueue(path, gone=False)

    def note_deletion(self, path: Path) -> None:
        """Have *path*, a file or a folder that is gone, removed in the background."""
        self._enqueue(path, gone=True)

    async def wait_until_idle(self) -> None:
        """Return when nothing is left to be indexed, or an error keeps it from going on."""
        while self._worker is not None and not self._worker.done():
            await asyncio.wait({self._worker})

    async def find(self, query: str, *, limit: int) -> list[IndexHit]:
        """Return files for *query*, best first; during a build, of the files indexed so far."""
        return await self._thread.call(lambda index: index.find(query, limit=limit))

    async def close(self) -> None:
        """Stop indexing and close the index; its content stays on disk."""
        self._closed = True
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait({self._worker})
        await self._thread.close()

    def _enqueue(self, path: Path, *, gone: bool) -> None:
        notice = FileNotice(path.as_posix(), path, gone)
        self._waiting[notice.key] = notice
        self._start_worker()

    def _start_worker(self) -> None:
        if not self._closed and (self._worker is None or self._worker.done()):
            self._worker = asyncio.create_task(self._index_waiting())

    async def _index_waiting(self) -> None:
        done = 0
        try:
            while self._must_list or self._waiting:
                if self._must_list:
                    await self._enqueue_listed()
                batch = list(islice(self._waiting.values(), FILES_PER_BATCH))
                await self._thread.call(partial(self._index_batch, batch))
                for notice in batch:
                    if self._waiting[notice.key] is notice:
                        del self._waiting[notice.key]
                done += len(batch)
                self._on_progress(done, done + len(self._waiting))
        except Exception as error:
            # The waiting files stay in the queue: the next notice, or a refresh, tries again.
            self._on_error(error)

    async def _enqueue_listed(self) -> None:
        """Put all listed files into the queue, and forget files that are listed no more."""
        self._must_list = False
        try:
            listed = {path.as_posix(): path for path in await asyncio.to_thread(lambda: list(self._files()))}
            await self._thread.call(lambda index: index.keep_only(ROOM, listed))
        except BaseException:
            self._must_list = True
            raise
        self._waiting.update((key, FileNotice(key, path, gone=False)) for key, path in listed.items())

    def _index_batch(self, batch: Sequence[FileNotice], index: TextIndex) -> None:
        """Index *batch*, in the index's thread."""
        texts: list[tuple[FileNotice, str | None]] = []
        for notice in batch:
            try:
                texts.append((notice, None if notice.gone else self._read(notice.path)))
            except Exception:
                # One unreadable file keeps its indexed text; the others go on.
                continue
        with index.batch():
            for notice, text in texts:
                if notice.gone:
                    index.drop_tree(ROOM, notice.key)
                elif text is None or "\0" in text[:BINARY_PROBE_CHARS]:
                    index.drop(ROOM, notice.key)
                else:
                    path = notice.path
                    if path.is_relative_to(self._root):
                        path = path.relative_to(self._root)
                    bounded = text if len(text) <= MAX_FILE_CHARS else ""
                    index.put(Document(room=ROOM, key=notice.key, title=path.as_posix(), text=bounded))


class FolderIndex:
    """The folder *root*, a resolved path, indexed at *database*. Made and used on the event loop.

    *on_progress* is called with (done, total) files after each batch, *on_error* receives the errors that
    kept files from being indexed; neither may raise.

    Attributes:
        index: the index of its files, to search.
    """

    def __init__(
        self,
        workspace: Workspace,
        root: Path,
        database: Path | None,
        *,
        on_progress: Callable[[int, int], None],
        on_error: Callable[[Exception], None],
        settle_s: float = SETTLE_S,
    ) -> None:
        self._workspace = workspace
        self._root = root
        self._rules = IgnoreRules(root)
        self._buffers: dict[Path, str] = {}
        self.index = FilesIndex(
            lambda: [
                Path(entry.path)
                for entry in walk(root, root, cap=MAX_ENTRIES)
                if entry.is_file(follow_symlinks=False)
            ],
            self._read_file,
            root=root,
            database=database,
            on_progress=on_progress,
            on_error=on_error,
        )
        self._changes = Coalescer(self._look_at, delay_s=settle_s)

        def schedule(path: Path) -> None:
            if path.is_relative_to(root) or root.is_relative_to(path):
                self._changes.schedule(path)

        self._disposers = (workspace.watch(root), workspace.on_change(schedule))

    async def start(self) -> None:
        """Begin to index the present files; it goes on in the background."""
        for view in await self._workspace.open_views():
            self._buffers[view.path] = view.text
        self.index.refresh()

    async def wait_until_idle(self) -> None:
        """Return when every change so far is indexed."""
        await self._changes.drain()
        await self.index.wait_until_idle()

    async def close(self) -> None:
        """Stop following and close the index, which stays on disk."""
        for dispose in self._disposers:
            dispose()
        await self._changes.close()
        await self.index.close()

    async def _look_at(self, path: Path) -> None:
        """Have the index look at *path* again: a file or a folder, there or gone."""
        self._buffers.pop(path, None)
        if path.name in IGNORE_FILES:
            self._rules = IgnoreRules(self._root)
            self.index.refresh()
        try:
            view = await self._workspace.view_project_file(path, (self._root,), limit_bytes=READ_LIMIT_BYTES)
        except FileAccessError as problem:
            if problem.problem == "isDirectory":
                self.index.refresh()
            elif problem.problem in ("notFound", "outsideRoots"):
                self.index.note_deletion(path)
            else:
                self.index.note_change(path)
            return
        if view.source == "buffer":
            self._buffers[view.path] = view.text
        self.index.note_change(view.path)

    def _read_file(self, path: Path) -> str | None:
        """Return the text of *path*, in the index's thread; None for a missing, ignored or binary file."""
        if self._rules.is_ignored(path):
            return None
        text = self._buffers.get(path)
        if text is not None:
            return text
        try:
            return read_project_text(path, (self._root,), READ_LIMIT_BYTES).text
        except FileAccessError:
            return None
