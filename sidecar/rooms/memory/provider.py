"""The port of the memory: what is to be put before a model when it is asked to speak in a room (seed 003).

One abstract class and its result. Nothing here decides what to remember.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from sidecar.rooms.ai import AIMessage
from sidecar.rooms.events import RoomEvent
from sidecar.rooms.room import RoomContext

__all__ = ["MemoryProvider", "MemoryResult"]


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """What a provider remembers: finished *messages*, and *events* still to be converted by the channel.

    The messages come first in the model's context, then the events, then the current event. Both are lists,
    each call's own, because the channel goes on building from them.
    """

    messages: list[AIMessage] = field(default_factory=list)
    events: list[RoomEvent] = field(default_factory=list)


class MemoryProvider(ABC):
    """A memory behind one call. Only :meth:`retrieve` must be written."""

    @property
    def name(self) -> str:
        """A name for people."""
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
        """Return what the model should know beside *current_event*.

        Args:
            room_id: the room that is being answered in.
            current_event: what is to be answered; it is not part of the result.
            context: the room as the asking channel sees it.
            channel_id: the asking channel, where several share the room.
        """

    async def ingest(self, room_id: str, event: RoomEvent, *, channel_id: str | None = None) -> None:
        """Take note of *event*. Nothing by default."""
        return

    async def clear(self, room_id: str) -> None:
        """Forget the room. Nothing by default."""
        return

    async def close(self) -> None:
        """Release what the provider holds. Nothing by default."""
        return
