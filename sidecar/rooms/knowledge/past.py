"""The conversations of one folder as a knowledge source: fed with what is stored, and with what is said now.

It remembers how far each stored conversation was fed, so that a start costs what came since. What is stored
is read by whoever made it; it reads no store itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from sidecar.rooms.content import query_text
from sidecar.rooms.events import RoomEvent
from sidecar.rooms.knowledge.sessions import SessionEntry, SessionsSource

__all__ = ["PastSource", "SessionArchive"]


class SessionArchive(Protocol):
    """The stored conversations of a daemon, for reading."""

    async def sessions(self, folder: Path) -> Mapping[str, int]:
        """Return when each conversation held in *folder* was changed last, in epoch milliseconds, by id."""
        ...

    async def events(self, session_id: str) -> Sequence[RoomEvent]:
        """Return what was said in one, oldest first; an event's id is its own within the conversation."""
        ...


class PastSource:
    """The conversations held in *folder*, indexed at *database*. Made and used on the event loop.

    *trouble* is told of what kept conversations from being indexed. Contract: never raises.

    Attributes:
        source: what can be searched.
    """

    def __init__(
        self,
        archive: SessionArchive,
        folder: Path,
        database: Path | None,
        *,
        trouble: Callable[[Exception], None],
    ) -> None:
        self._archive = archive
        self._folder = folder
        self._notes = database.with_suffix(".fed.json") if database is not None else None
        self._trouble = trouble
        self._tasks: set[asyncio.Task[None]] = set()
        self.source = SessionsSource(database, scope="all", on_lost=self._begin_anew)

    def start(self) -> None:
        """Begin to feed what is stored and not indexed yet; it goes on in the background."""
        self._run(self._catch_up())

    def ingest(self, events: Sequence[RoomEvent]) -> None:
        """Take in what was just said, in the background."""
        self._run(self._add(events))

    def forget(self, session_id: str) -> None:
        """Forget a conversation that is no more, in the background."""
        self._run(self.source.clear(session_id))

    async def settled(self) -> None:
        """Return when everything told so far is indexed."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Stop feeding, and close the index, which stays on disk."""
        for task in self._tasks:
            task.cancel()
        await self.settled()
        await self.source.close()

    def _begin_anew(self) -> None:
        """Feed everything again: the index was broken or outdated, and is empty now."""
        self._write_notes({})
        self.start()

    async def _catch_up(self) -> None:
        stored, fed = await self._archive.sessions(self._folder), self._read_notes()
        for session_id in fed.keys() - stored.keys():
            await self.source.clear(session_id)
            del fed[session_id]
        for session_id, changed_at in stored.items():
            if fed.get(session_id) != changed_at:
                await self._add(await self._archive.events(session_id))
                fed[session_id] = changed_at
                self._write_notes(fed)

    async def _add(self, events: Sequence[RoomEvent]) -> None:
        await self.source.add(map(_entry, events))

    def _run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:
            # What could not be fed is fed by the next start: nothing was noted as done.
            self._trouble(error)

    def _read_notes(self) -> dict[str, int]:
        try:
            found = json.loads(self._notes.read_text("utf-8")) if self._notes is not None else {}
        except (OSError, ValueError):  # none yet, or cut short: everything is fed again
            return {}
        return found if isinstance(found, dict) else {}

    def _write_notes(self, fed: Mapping[str, int]) -> None:
        if self._notes is not None:
            self._notes.parent.mkdir(parents=True, exist_ok=True)
            self._notes.write_text(json.dumps(fed), "utf-8")


def _entry(event: RoomEvent) -> SessionEntry:
    said_at_ms = round(event.created_at.timestamp() * 1000)
    return SessionEntry(event.room_id, event.id, query_text(event.content), said_at_ms)
