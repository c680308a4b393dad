"""A knowledge source over the files of a workspace: code and prose, found by words, names and paths.

It reads what its caller lists and nothing else, so the caller's ignore rules hold; it never writes to the
workspace. Listing, reading and indexing happen off the event loop, in small batches between which it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from sidecar.rooms.knowledge.index import Document, Hit, TextIndex
from sidecar.rooms.knowledge.worker import IndexThread
from sidecar.rooms.source import KnowledgeResult, KnowledgeSource

__all__ = ["IndexProgress", "ListFiles", "ReadFile", "WorkspaceSource"]

FILES_PER_BATCH = 32
BINARY_PROBE_CHARS = 8192
ROOM = ""

ListFiles: TypeAlias = Callable[[], Iterable[Path]]
"""Lists the files to index. Contract: may block; is called in a worker thread."""

ReadFile: TypeAlias = Callable[[Path], str | None]
"""Returns a file's text as it is now, None for what is gone, ignored or no text.

Contract: may block; is called in a worker thread; may raise, which costs only this file.
"""


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far a build is: *done* of *total* files; *failed* ones could not be read and keep the old text."""

    done: int
    total: int
    failed: int


@dataclass(frozen=True, slots=True)
class Change:
    """A file to look at again; *gone* says that there is nothing left to read."""

    key: str
    path: Path
    gone: bool


class WorkspaceSource(KnowledgeSource):
    """Find lines of the files that *files* lists.

    Args:
        files: lists the files; see :data:`ListFiles`.
        read: reads one; see :data:`ReadFile`.
        root: what paths are shown relative to, and searched by; None shows them as they are given.
        database: where the index is kept between runs, None for memory.
        max_file_chars: a longer file is found by its path only.
        on_progress: is told after each batch, in the event loop. Contract: never raises.
        on_error: is told what kept files from being indexed. Contract: never raises.
    """

    def __init__(
        self,
        files: ListFiles,
        read: ReadFile,
        *,
        root: Path | None = None,
        database: Path | None = None,
        max_file_chars: int = 400_000,
        on_progress: Callable[[IndexProgress], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self._files = files
        self._read = read
        self._root = root
        self._max_file_chars = max_file_chars
        self._on_progress = on_progress
        self._on_error = on_error
        self._thread = IndexThread(database, self.refresh)
        self._must_list = False
        self._waiting: dict[str, Change] = {}
        self._pump: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """``workspace``."""
        return "workspace"

    def refresh(self) -> None:
        """List the files and index what differs, in the background. This begins the first build, too."""
        self._must_list = True
        self._start()

    def changed(self, path: Path) -> None:
        """Note that *path* is new or says something else now; it is read in the background."""
        self._note(path, gone=False)

    def deleted(self, path: Path) -> None:
        """Note that *path*, a file or a folder, is no more."""
        self._note(path, gone=True)

    async def settled(self) -> None:
        """Return when nothing is left to be indexed, or something keeps it from going on."""
        while self._pump is not None and not self._pump.done():
            await asyncio.wait({self._pump})

    async def search(
        self, query: str, *, room_id: str | None = None, limit: int = 5
    ) -> list[KnowledgeResult]:
        """Return at most *limit* files for *query*, best first: ``path:line``, then the lines from there.

        All rooms share the workspace. During a build, what is indexed so far is searched.
        """
        hits = await self._thread.call(lambda index: index.find(query, limit=limit))
        return [_result(hit) for hit in hits]

    async def close(self) -> None:
        """Stop indexing and close the index; what it holds stays on disk."""
        self._closed = True
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait({self._pump})
        await self._thread.close()

    def _note(self, path: Path, *, gone: bool) -> None:
        change = Change(path.as_posix(), path, gone)
        self._waiting[change.key] = change
        self._start()

    def _start(self) -> None:
        if not self._closed and (self._pump is None or self._pump.done()):
            self._pump = asyncio.create_task(self._work())

    async def _work(self) -> None:
        try:
            await self._drain()
        except Exception as error:
            # What is waiting goes on waiting: the next notice, or a refresh, tries again.
            self._report(error)

    async def _drain(self) -> None:
        done = failed = 0
        while self._must_list or self._waiting:
            if self._must_list:
                await self._list()
            batch = list(islice(self._waiting.values(), FILES_PER_BATCH))
            failed += await self._thread.call(partial(self._absorb, batch))
            for change in batch:
                if self._waiting[change.key] is change:
                    del self._waiting[change.key]
            done += len(batch)
            if self._on_progress is not None:
                self._on_progress(IndexProgress(done, done + len(self._waiting), failed))

    async def _list(self) -> None:
        """Set all listed files waiting, and forget those that are listed no more."""
        self._must_list = False
        try:
            listed = {path.as_posix(): path for path in await asyncio.to_thread(lambda: list(self._files()))}
            await self._thread.call(partial(_keep_only, listed.keys()))
        except BaseException:
            self._must_list = True
            raise
        self._waiting.update((key, Change(key, path, gone=False)) for key, path in listed.items())

    def _absorb(self, batch: Sequence[Change], index: TextIndex) -> int:
        """Index *batch*, in the index's thread, and return how many files could not be read."""
        texts: list[tuple[Change, str | None]] = []
        for change in batch:
            try:
                texts.append((change, None if change.gone else self._read(change.path)))
            except Exception:
                # One unreadable file is counted, and keeps what was indexed of it; the others go on.
                continue
        with index.batch():
            for change, text in texts:
                if change.gone:
                    index.drop_tree(ROOM, change.key)
                elif text is None or "\0" in text[:BINARY_PROBE_CHARS]:
                    index.drop(ROOM, change.key)
                else:
                    index.put(Document(ROOM, change.key, self._shown(change.path), self._bounded(text)))
        return len(batch) - len(texts)

    def _shown(self, path: Path) -> str:
        if self._root is not None and path.is_relative_to(self._root):
            return path.relative_to(self._root).as_posix()
        return path.as_posix()

    def _bounded(self, text: str) -> str:
        return text if len(text) <= self._max_file_chars else ""

    def _report(self, error: Exception) -> None:
        if self._on_error is not None:
            self._on_error(error)


def _keep_only(keys: Collection[str], index: TextIndex) -> None:
    with index.batch():
        index.keep_only(ROOM, keys)


def _result(hit: Hit) -> KnowledgeResult:
    place = f"{hit.title}:{hit.chunk.line}"
    return KnowledgeResult(
        content=f"{place}\n{hit.chunk.text}" if hit.chunk.text else place,
        score=hit.score,
        source="workspace",
        metadata={"path": hit.key, "line": hit.chunk.line},
    )
