"""The stored sessions, for the hub: opened under a lock for writing, read without one.

The store knows lines and nodes. Here records become summaries and earlier reads, and the files that belong to
a session beside its own are removed with it.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sidecar._internal.allocator import FreedMemory
from sidecar._internal.values import Value
from sidecar.capabilities.output import remove_outputs
from sidecar.conductor.contract import SessionSummary
from sidecar.conductor.record.history import entries_with_earlier_reads
from sidecar.conductor.records import SessionInfo, from_record
from sidecar.runtime.store import (
    Hold,
    SessionGraph,
    SessionJournal,
    SessionPlace,
    StoredSummary,
    StoreUnavailable,
    journal_in_memory,
)
from sidecar.runtime.store.place import ALL_SESSIONS, SessionQuery
from sidecar.workspace.kept_contents import KeptContents


class OpenedSession(Value):
    """A stored session, opened for writing; *release* gives up its lock."""

    journal: SessionJournal
    records: Sequence[Mapping[str, Any]]
    release: Callable[[], Awaitable[None]]


class SessionShelf:
    """The sessions of ``runtime.store`` for the hub: opened under a lock for writing, read without one.

    Attributes:
        place: where they are stored.
        freed: returns the memory of sessions that were closed.
    """

    def __init__(self, place: SessionPlace, home: Path) -> None:
        self.place = place
        self._home = home
        self._list = place.lister(SessionSummary, describe_stored)
        self.freed = FreedMemory()

    async def open(self, sid: str, *, create: bool) -> OpenedSession:
        """Open *sid* under its lock; a new session also when the disk is unavailable, in memory for now.

        The lines of closed sessions that a full disk refused are written first, so that they do not pile up.
        """
        held: Hold | None = None
        await self.place.settle()
        try:
            held = await self.place.hold(sid)
        except StoreUnavailable:
            if not create:
                raise
        return await self._open_held(sid, held, create=create)

    async def take_over(self, sid: str) -> OpenedSession:
        """Open the stored *sid* under its lock, which an idle daemon on another machine gives up for that."""
        await self.place.settle()
        return await self._open_held(sid, await self.place.take_over(sid), create=False)

    async def _open_held(self, sid: str, held: Hold | None, *, create: bool) -> OpenedSession:
        async def release() -> None:
            self.place.close(sid)
            if held is not None:
                held.release()
            self.freed.return_soon()
            await self.place.wait_free(sid)

        try:
            if not create:
                await self.place.write_waiting(sid)
            journal = self.place.journal(sid)
            if held is None:  # the id is new
                journal.start_empty(sid)
            return await _load(journal, release)
        except BaseException:
            await release()
            raise

    async def open_in_memory(self, sid: str) -> OpenedSession:
        """Return a session that is not stored."""

        async def release() -> None:
            """Return its memory; nobody else knows the session."""
            self.freed.return_soon()

        return await _load(journal_in_memory(sid), release)

    async def graph(self, sid: str) -> SessionGraph:
        """Return every branch of *sid*."""
        stored = await self.place.open(sid)
        stored.graph.amend(entries_with_earlier_reads(stored.graph.entries.values(), stored.records))
        return stored.graph

    async def records(self, sid: str) -> Sequence[Mapping[str, Any]]:
        """Return the records of *sid* that are not nodes."""
        return (await self.place.open(sid)).records

    async def delete(self, sid: str) -> bool:
        """Delete *sid* with its long outputs and kept files; False when it is not stored."""
        is_deleted = await self.place.delete(sid)
        await asyncio.to_thread(remove_outputs, self._home, sid)
        await asyncio.to_thread(KeptContents(self._home).remove, sid)
        return is_deleted

    async def list(self, query: SessionQuery = ALL_SESSIONS) -> Sequence[SessionSummary]:
        """Return the lines of the sessions that *query* asks for, the newest first."""
        found = await self._list(query)
        holders = await self.place.holders([each.sid for each in found if each.host is None])
        host = platform.node()
        lines = (
            without_work(replace(each, host=host, pid=holders[each.sid])) if each.sid in holders else each
            for each in found
        )
        return [
            replace(each, task="interrupted") if each.task == "running" and each.host is None else each
            for each in lines
        ]


def describe_stored(stored: StoredSummary) -> SessionSummary | None:
    """Return the line of a stored session in a list, None where its newest record is not one of ours."""
    info = from_record(SessionInfo, {**(stored.meta or {}), "sid": stored.session_id})
    if info is None:
        return None
    summary = replace(info.summary(), host=stored.host, pid=stored.pid, lease=stored.leased_until_ms)
    return summary if summary.pid is None else without_work(summary)


def without_work(line: SessionSummary) -> SessionSummary:
    """Return *line* for a session that another process has open, which alone knows its work."""
    return replace(line, state=None, since=None, waiting_for=None, text=None)


async def _load(journal: SessionJournal, release: Callable[[], Awaitable[None]]) -> OpenedSession:
    await journal.load()
    records = journal.take_records()
    journal.amend(entries_with_earlier_reads(journal.graph.entries.values(), records))
    return OpenedSession(journal, records, release)
