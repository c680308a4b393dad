"""The store of sessions: one file of lines a session, under one folder.

Reading never changes a file and never waits for a writer. Everything that touches the disk runs in a worker
thread, but for taking a lock, which is a few system calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from sidecar.conversation import kind_by_role
from sidecar.runtime.contract import Migrator, SessionNode
from sidecar.runtime.store.codec import RecogniseKind, encode_line, head_record, node_record
from sidecar.runtime.store.dag import Clock, SessionGraph, wall_clock_ms
from sidecar.runtime.store.errors import StoreUnavailable
from sidecar.runtime.store.journal import SessionJournal
from sidecar.runtime.store.lines import torn_path
from sidecar.runtime.store.lock import SessionLock
from sidecar.runtime.store.names import session_id_of, stem_of
from sidecar.runtime.store.reading import StoredSession, read_session
from sidecar.runtime.store.summaries import StoredSummary, read_summary
from sidecar.runtime.store.writer import LineWriter, append_to

__all__ = ["SessionStore"]

_SUFFIX = ".jsonl"


class SessionStore:
    """The sessions stored under *root*, which is made when something is first written.

    *migrators* run over every record on load, in order. *recognise* tells the kind of a turn that an earlier
    version stored without one.
    """

    def __init__(
        self,
        root: str | Path,
        migrators: Sequence[Migrator] = (),
        *,
        clock: Clock = wall_clock_ms,
        recognise: RecogniseKind = kind_by_role,
    ) -> None:
        self._root = Path(root)
        self._migrators = tuple(migrators)
        self._clock = clock
        self._recognise = recognise
        self._writers: dict[str, LineWriter] = {}

    async def append_node(self, session_id: str, node: SessionNode) -> None:
        """Store *node* and make it the head: one write of two lines.

        Raises:
            StoreUnavailable: the lines wait and go with the next write to this session.
        """
        lines = (encode_line(node_record(node)), encode_line(head_record(node.id)))
        await self._writer(session_id).write(lines)

    async def load_session(self, session_id: str) -> SessionGraph:
        """Return the graph of *session_id*, empty when nothing is stored; see :meth:`open` for reports."""
        return (await self.open(session_id)).graph

    async def list_sessions(self) -> list[str]:
        """Return the ids of the stored sessions, sorted; none when there is no folder yet."""
        return sorted(session_id for session_id, _ in await asyncio.to_thread(lambda: list(self._files())))

    async def open(self, session_id: str) -> StoredSession:
        """Return the graph of *session_id*, its other records, and what was wrong with the file.

        Takes no lock and changes nothing.

        Raises:
            StoreUnavailable: the file is there and cannot be read.
        """
        return await asyncio.to_thread(self._read, session_id)

    def journal(self, session_id: str) -> SessionJournal:
        """Return the journal of *session_id*, stored or not. Its holder should hold :meth:`lock` too."""
        return SessionJournal(self._writer(session_id), lambda: self._read(session_id))

    def lock(self, session_id: str) -> SessionLock:
        """Take the right to write *session_id*; a dead process's is taken over.

        Raises:
            SessionLockedError: somebody has it.
            StoreUnavailable: the lock file cannot be made.
        """
        try:
            return SessionLock(self._path(session_id).with_suffix(".lock"), session_id)
        except OSError as error:
            raise StoreUnavailable(session_id, error) from error

    async def exists(self, session_id: str) -> bool:
        """Whether anything is stored under *session_id*."""
        return await asyncio.to_thread(self._path(session_id).exists)

    async def delete(self, session_id: str) -> bool:
        """Remove *session_id* for good and say whether there was anything.

        Raises:
            SessionLockedError: somebody writes it.
            StoreUnavailable: it cannot be removed.
        """
        with self.lock(session_id):
            writer = self._writers.pop(session_id, None)
            if writer is not None:
                await writer.abandon()
            return await asyncio.to_thread(self._remove, session_id)

    async def summary(self, session_id: str) -> StoredSummary | None:
        """Return the newest meta record, age and size of *session_id*, or None when it is not stored."""
        return await asyncio.to_thread(read_summary, self._path(session_id), session_id)

    async def summaries(self) -> list[StoredSummary]:
        """Return the summaries of all sessions, the newest first; unreadable files are left out."""
        found = await asyncio.to_thread(self._summaries)
        return sorted(found, key=lambda summary: summary.modified_ms, reverse=True)

    def _path(self, session_id: str) -> Path:
        return self._root / f"{stem_of(session_id)}{_SUFFIX}"

    def _writer(self, session_id: str) -> LineWriter:
        writer = self._writers.get(session_id)
        if writer is None:
            writer = self._writers[session_id] = LineWriter(session_id, append_to(self._path(session_id)))
        return writer

    def _read(self, session_id: str) -> StoredSession:
        path = self._path(session_id)
        return read_session(path, session_id, self._clock, self._migrators, self._recognise)

    def _files(self) -> Iterator[tuple[str, Path]]:
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in self._root.iterdir():
                session_id = session_id_of(path.stem) if path.suffix == _SUFFIX else None
                if session_id is not None:
                    yield session_id, path

    def _summaries(self) -> list[StoredSummary]:
        found = (read_summary(path, session_id) for session_id, path in self._files())
        return [summary for summary in found if summary is not None]

    def _remove(self, session_id: str) -> bool:
        path = self._path(session_id)
        try:
            torn_path(path).unlink(missing_ok=True)
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreUnavailable(session_id, error) from error
        return True
