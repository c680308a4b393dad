"""A fake memory: it answers what it was told to, and writes down what it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sidecar.rooms.ai import AIMessage
from sidecar.rooms.events import RoomEvent
from sidecar.rooms.memory.provider import MemoryProvider, MemoryResult
from sidecar.rooms.room import RoomContext

__all__ = ["IngestCall", "MockMemoryProvider", "RetrieveCall"]


class RetrieveCall(NamedTuple):
    """What :meth:`MockMemoryProvider.retrieve` was asked."""

    room_id: str
    current_event: RoomEvent
    context: RoomContext
    channel_id: str | None


class IngestCall(NamedTuple):
    """What :meth:`MockMemoryProvider.ingest` was given."""

    room_id: str
    event: RoomEvent
    channel_id: str | None


class MockMemoryProvider(MemoryProvider):
    """A memory that always holds *messages* and *events*; its calls are in ``retrieve_calls`` and so on."""

    def __init__(
        self, messages: Sequence[AIMessage] | None = None, events: Sequence[RoomEvent] | None = None
    ) -> None:
        self.messages = list(messages or ())
        self.events = list(events or ())
        self.retrieve_calls: list[RetrieveCall] = []
        self.ingest_calls: list[IngestCall] = []
        self.clear_calls: list[str] = []
        self.closed = False

    async def retrieve(
        self,
        room_id: str,
        current_event: RoomEvent,
        context: RoomContext,
        *,
        channel_id: str | None = None,
    ) -> MemoryResult:
        """Write the call down and return what it holds."""
        self.retrieve_calls.append(RetrieveCall(room_id, current_event, context, channel_id))
        return MemoryResult(list(self.messages), list(self.events))

    async def ingest(self, room_id: str, event: RoomEvent, *, channel_id: str | None = None) -> None:
        """Write the call down."""
        self.ingest_calls.append(IngestCall(room_id, event, channel_id))

    async def clear(self, room_id: str) -> None:
        """Write the call down."""
        self.clear_calls.append(room_id)

    async def close(self) -> None:
        """Set ``closed``."""
        self.closed = True
