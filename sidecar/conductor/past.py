"""What was said in the stored sessions, as those who make it findable want to read it. It writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sidecar.conductor.info import SessionInfo
from sidecar.conductor.knowledge import saying
from sidecar.conductor.records import from_record
from sidecar.conductor.stored import StorePort
from sidecar.rooms import RoomEvent

__all__ = ["PastSessions"]


class PastSessions:
    """The stored sessions, by the folder each worked in."""

    def __init__(self, store: StorePort) -> None:
        self._store = store

    async def sessions(self, folder: Path) -> Mapping[str, int]:
        """Return when each session of *folder* was changed last, in epoch milliseconds, by id."""
        infos = [from_record(SessionInfo, meta) for meta in await self._store.metas()]
        return {info.sid: info.updated_at for info in infos if info is not None and info.cwd == str(folder)}

    async def said(self, session_id: str) -> Sequence[RoomEvent]:
        """Return what was said in a session, on every branch: what a compaction left out as well."""
        nodes = (await self._store.graph(session_id)).nodes
        events = (saying(session_id, node.turn, node.created_at) for node in nodes)
        return [event for event in events if event is not None]
