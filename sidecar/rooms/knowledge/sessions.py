"""The index of the sessions of a folder: stored conversations, and the one that goes on now.

It is filled at its start with the stored sessions that changed since they were indexed, later with new
messages. It remembers when each session was indexed, so that a start costs only the changes. It reads no
store; the archive is a port.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

from sidecar._internal.async_cancel import keep_until_done
from sidecar._internal.state_folder import make_private_folder
from sidecar.rooms.events import RoomEvent, query_text
from sidecar.rooms.knowledge.index import Document, IndexHit, IndexThread, TextIndex

EVENTS_PER_BATCH = 64


class SessionArchive(Protocol):
    """The stored sessions of a daemon, for reading."""

    async def sessions(self, folder: Path) -> Mapping[str, int]:
        """Return the time of the last change of each session of *folder*, in epoch milliseconds, by id."""
        ...

    async def events(self, session_id: str) -> Sequence[RoomEvent]:
        """Return the messages of a session, oldest first; an event's id is its own within the session."""
        ...


class SessionsIndex:
    """The index of the sessions that work in *folder*, at *database*. Made and used on the event loop.

    *on_error* receives the errors that kept sessions from being indexed. Contract: never raises.
    """

    def __init__(
        self,
        archive: SessionArchive,
        folder: Path,
        database: Path | None,
        *,
        on_error: Callable[[Exception], None],
    ) -> None:
        self._archive = archive
        self._folder = folder
        self._record = database.with_suffix(".fed.json") if database is not None else None
        self._on_error = on_error
        self._tasks: set[asyncio.Task[None]] = set()

        def index_all_again() -> None:
            # The index was broken or outdated, and is empty now.
            self._run(partial(self._catch_up, is_empty=True))

        self._thread = IndexThread(database, index_all_again)

    def start(self) -> None:
        """Begin to index the stored sessions that changed; it goes on in the background."""
        self._run(self._catch_up)

    def ingest(self, events: Sequence[RoomEvent]) -> None:
        """Index new messages, in the background."""
        self._run(partial(self.add, events))

    def forget(self, session_id: str) -> None:
        """Forget a deleted session, in the background."""
        self._run(partial(self._clear, session_id))

    async def find(self, query: str, *, limit: int, exclude: Collection[str] = ()) -> list[IndexHit]:
        """Return messages for *query*, best first, newer ones first among equals.

        Args:
            query: the words to look for.
            limit: the most messages to return.
            exclude: events that are not to be found, such as those in the model's view anyway.
        """
        return await self._thread.call(lambda index: index.find(query, limit=limit, exclude=exclude))

    async def add(self, events: Iterable[RoomEvent]) -> None:
        """Index *events*; one that is indexed already costs next to nothing.

        An event replaces the text under its session and id; an empty one removes it.
        """

        def put(batch: Sequence[RoomEvent], index: TextIndex) -> None:
            with index.batch():
                for event in batch:
                    text, at_ms = query_text(event.content), round(event.created_at.timestamp() * 1000)
                    if text.strip():
                        index.put(
                            Document(
                                room=event.room_id, key=event.id, title="", text=text, created_at_ms=at_ms
                            )
                        )
                    else:
                        index.drop(event.room_id, event.id)

        remaining = iter(events)
        while batch := list(islice(remaining, EVENTS_PER_BATCH)):
            await self._thread.call(partial(put, batch))

    async def wait_until_idle(self) -> None:
        """Return when all messages so far are indexed."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Stop indexing, and close the index, which stays on disk."""
        for task in self._tasks:
            task.cancel()
        await self.wait_until_idle()
        await self._thread.close()

    async def _catch_up(self, *, is_empty: bool = False) -> None:
        if is_empty:
            await asyncio.to_thread(self._write_record, {})
        stored = await self._archive.sessions(self._folder)
        indexed_at = await asyncio.to_thread(read_record, self._record)
        for session_id in indexed_at.keys() - stored.keys():
            await self._clear(session_id)
            del indexed_at[session_id]
        for session_id, changed_at in stored.items():
            if indexed_at.get(session_id) != changed_at:
                await self.add(await self._archive.events(session_id))
                indexed_at[session_id] = changed_at
                await asyncio.to_thread(self._write_record, dict(indexed_at))

    async def _clear(self, session_id: str) -> None:
        await self._thread.call(lambda index: index.drop_room(session_id))

    def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        async def contain_errors() -> None:
            try:
                await work()
            except Exception as error:
                # The next start indexes the rest: nothing was recorded as done.
                self._on_error(error)

        keep_until_done(asyncio.create_task(contain_errors()), self._tasks)

    def _write_record(self, indexed_at: Mapping[str, int]) -> None:
        if self._record is not None:
            make_private_folder(self._record.parent)
            self._record.touch(mode=0o600)
            self._record.write_text(json.dumps(indexed_at), "utf-8")


def read_record(path: Path | None) -> dict[str, int]:
    """Return when each session was indexed; nothing without a record or with a broken one."""
    try:
        found = json.loads(path.read_text("utf-8")) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
