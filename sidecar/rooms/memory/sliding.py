"""The simplest memory: the newest events of the room's tail, as they are. It keeps no state."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.rooms.errors import InvalidRoomValue
from sidecar.rooms.events import RoomEvent
from sidecar.rooms.memory.provider import MemoryProvider, MemoryResult
from sidecar.rooms.room import RoomContext

__all__ = ["SlidingWindowMemory"]


class SlidingWindowMemory(MemoryProvider):
    """Remember the last *max_events* events, the current one counted among them.

    So *max_events* - 1 events of history stand beside the current event (fact K2), and 0 remembers nothing.
    """

    def __init__(self, max_events: int = 50) -> None:
        if max_events < 0:
            raise InvalidRoomValue(
                f"max_events is {max_events}; use 0 to remember nothing, or a positive number"
            )
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
        """Return what of *recent*, oldest first, is remembered beside the event *current_id*."""
        window = recent[max(0, len(recent) - self._max_events) :]
        return [event for event in window if event.id != current_id]
