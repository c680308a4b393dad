"""The port of the memory, its simplest implementation, and its public double.

A memory chooses the messages and events that are put before a model when it is to answer in a room. The port
decides nothing; the sliding window keeps the newest events; the mock returns configured results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import field

from sidecar._internal.values import Value
from sidecar.rooms.ai import AIMessage
from sidecar.rooms.events import RoomContext, RoomEvent, RoomValueError


class MemoryResult(Value):
    """The result of a retrieve: finished *messages*, and *events* still to be converted by the channel.

    The messages come first in the model's context, then the events, then the current event. Both are lists,
    each call's own, because the channel goes on building from them.
    """

    messages: list[AIMessage] = field(default_factory=list)
    events: list[RoomEvent] = field(default_factory=list)


class MemoryProvider(ABC):
    """A memory behind one call. Only :meth:`retrieve` must be written."""

    @property
    def name(self) -> str:
        """A readable name."""
        return type(self).__name__

    @abstractmethod
    async def retrieve(
        self,
        room_id: str,
        current_event: RoomEvent,
        context: RoomContext,
        *,
        channel_id: str | None = None,
    ) -> MemoryResult:
        """Return the context of the model beside *current_event*.

        Args:
            room_id: the room of the answer.
            current_event: the event to be answered; it is not part of the result.
            context: the room as the channel of the model sees it.
            channel_id: that channel, where several share the room.
        """

    async def ingest(self, room_id: str, event: RoomEvent, *, channel_id: str | None = None) -> None:
        """Record *event*. Nothing by default.

        Args:
            room_id: the room of the event.
            event: the new event.
            channel_id: the channel of the model, where several share the room.
        """
        return

    async def clear(self, room_id: str) -> None:
        """Forget the room. Nothing by default."""
        return

    async def close(self) -> None:
        """Release the resources of the provider. Nothing by default."""
        return


class SlidingWindowMemory(MemoryProvider):
    """Keep the last *max_events* events, the current one counted among them. It holds no state.

    So *max_events* - 1 events of history stand beside the current event, and 0 keeps nothing.
    """

    def __init__(self, max_events: int = 50) -> None:
        if max_events < 0:
            raise RoomValueError(f"max_events is {max_events}; use 0 to keep nothing, or a positive number")
        self._max_events = max_events

    async def retrieve(
        self,
        room_id: str,
        current_event: RoomEvent,
        context: RoomContext,
        *,
        channel_id: str | None = None,
    ) -> MemoryResult:
        """Return the window without the current event, oldest first."""
        return MemoryResult(events=self.window(context.recent_events, current_event.id))

    def window(self, recent: Sequence[RoomEvent], current_id: str) -> list[RoomEvent]:
        """Return the events of *recent*, oldest first, that are kept beside the event *current_id*."""
        window = recent[max(0, len(recent) - self._max_events) :]
        return [event for event in window if event.id != current_id]


class RetrieveCall(NamedTuple):
    """The arguments of one :meth:`MockMemoryProvider.retrieve`."""

    room_id: str
    current_event: RoomEvent
    context: RoomContext
    channel_id: str | None


class IngestCall(NamedTuple):
    """The arguments of one :meth:`MockMemoryProvider.ingest`."""

    room_id: str
    event: RoomEvent
    channel_id: str | None


class MockMemoryProvider(MemoryProvider):
    """A memory that always returns *messages* and *events*; ``retrieve_calls`` and so on hold its calls."""

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
        """Record the call and return the configured result."""
        self.retrieve_calls.append(RetrieveCall(room_id, current_event, context, channel_id))
        return MemoryResult(list(self.messages), list(self.events))

    async def ingest(self, room_id: str, event: RoomEvent, *, channel_id: str | None = None) -> None:
        """Record the call."""
        self.ingest_calls.append(IngestCall(room_id, event, channel_id))

    async def clear(self, room_id: str) -> None:
        """Record the call."""
        self.clear_calls.append(room_id)

    async def close(self) -> None:
        """Set ``closed``."""
        self.closed = True
