"""A knowledge source over stored conversations: what was said before, in this session or in others.

It holds what its caller feeds it, and reads no store itself. What it answers is what was said, not what it
means.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sidecar.rooms.knowledge.index import Document, Hit, TextIndex
from sidecar.rooms.knowledge.worker import IndexThread
from sidecar.rooms.source import KnowledgeResult, KnowledgeSource

__all__ = ["SessionEntry", "SessionsSource"]

ENTRIES_PER_BATCH = 64


class SessionEntry(NamedTuple):
    """One message of a stored conversation; *node_id* is its own within the session."""

    session_id: str
    node_id: str
    text: str
    created_at_ms: int


class SessionsSource(KnowledgeSource):
    """Find what was said in the conversations that were fed to :meth:`add` or :meth:`index`.

    Args:
        database: where the index is kept between runs, None for memory.
        scope: whether a room finds only what was said in it, or what was said anywhere. Rooms of several
            people should find their own only.
        on_lost: is told that the index was broken or outdated and is empty now, so that the caller feeds it
            again. Contract: never raises.
        clock_ms: the time of what comes through :meth:`index`.
    """

    def __init__(
        self,
        database: Path | None = None,
        *,
        scope: Literal["room", "all"] = "room",
        on_lost: Callable[[], None] = lambda: None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._scope = scope
        self._clock_ms = clock_ms
        self._thread = IndexThread(database, on_lost)

    @property
    def name(self) -> str:
        """``sessions``."""
        return "sessions"

    async def add(self, entries: Iterable[SessionEntry]) -> int:
        """Take in *entries* and return how many were new or changed; the others cost next to nothing.

        An entry replaces what was held under its session and node; one that says nothing takes it out.
        """
        remaining = iter(entries)
        n_changed = 0
        while batch := list(islice(remaining, ENTRIES_PER_BATCH)):
            n_changed += await self._thread.call(partial(_absorb, batch))
        return n_changed

    async def node_ids(self, session_id: str) -> frozenset[str]:
        """Return the nodes held of a session, for a caller that wants to feed only what is missing."""
        return await self._thread.call(lambda index: index.keys(session_id))

    async def search(
        self,
        query: str,
        *,
        room_id: str | None = None,
        limit: int = 5,
        exclude: Collection[str] = (),
    ) -> list[KnowledgeResult]:
        """Return at most *limit* messages for *query*, best first, newer ones first among equals.

        Args:
            query: what to look for.
            room_id: the session that asks; the only one searched unless the scope is ``all``.
            limit: how many.
            exclude: nodes that are not to be found, such as those the model is shown anyway.
        """
        room = room_id if self._scope == "room" else None
        hits = await self._thread.call(
            lambda index: index.find(query, limit=limit, room=room, exclude=exclude)
        )
        return [_result(hit) for hit in hits]

    async def index(self, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Take in *content* as ``metadata["event_id"]`` of ``metadata["room_id"]``."""
        given = metadata or {}
        event_id = given.get("event_id") or hashlib.blake2b(content.encode("utf-8", "replace")).hexdigest()
        await self.add([SessionEntry(given.get("room_id") or "", event_id, content, self._clock_ms())])

    async def delete(self, event_ids: Sequence[str]) -> None:
        """Forget the nodes *event_ids* of all sessions."""
        await self._thread.call(lambda index: index.drop_keys(event_ids))

    async def clear(self, room_id: str) -> None:
        """Forget a session."""
        await self._thread.call(lambda index: index.drop_room(room_id))

    async def close(self) -> None:
        """Close the index; what it holds stays on disk."""
        await self._thread.close()


def _absorb(batch: Sequence[SessionEntry], index: TextIndex) -> int:
    n_changed = 0
    with index.batch():
        for session_id, node_id, text, created_at_ms in batch:
            if text.strip():
                n_changed += index.put(Document(session_id, node_id, "", text, created_at_ms))
            else:
                index.drop(session_id, node_id)
    return n_changed


def _result(hit: Hit) -> KnowledgeResult:
    return KnowledgeResult(
        content=hit.chunk.text,
        score=hit.score,
        source="sessions",
        metadata={"session_id": hit.room, "event_id": hit.key, "created_at_ms": hit.created_at_ms},
    )
