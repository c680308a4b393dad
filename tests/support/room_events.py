"""Events of rooms and stored sessions, for the tests of memories and knowledge sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from sidecar.rooms import EventSource, RoomEvent, TextContent
from sidecar.rooms.events import EventContent

PERSON = EventSource(channel_id="ws", channel_type="websocket")
ASSISTANT = EventSource(channel_id="ai", channel_type="ai")
DAY = datetime(2026, 1, 2, tzinfo=UTC)


def make_event(name: str, content: EventContent | str = "hi", source: EventSource = PERSON) -> RoomEvent:
    """Return the event *name* of the room ``r``; a string is a text."""
    given = TextContent(content) if isinstance(content, str) else content
    return RoomEvent(id=name, room_id="r", source=source, content=given)


def make_message(session_id: str, event_id: str, text: str) -> RoomEvent:
    """Return a message of a stored session."""
    content = TextContent(text)
    return RoomEvent(id=event_id, room_id=session_id, source=PERSON, content=content, created_at=DAY)


class FakeSessionArchive:
    """Stored sessions by id, each with its folder and the time of its last change; it records its reads."""

    def __init__(self) -> None:
        self.stored: dict[str, tuple[Path, int, list[RoomEvent]]] = {}
        self.read: list[str] = []
        self.error: Exception | None = None

    def put(self, folder: Path, session_id: str, changed_at: int, events: Sequence[RoomEvent]) -> None:
        self.stored[session_id] = (folder, changed_at, list(events))

    async def sessions(self, folder: Path) -> Mapping[str, int]:
        return {sid: changed_at for sid, (owner, changed_at, _) in self.stored.items() if owner == folder}

    async def events(self, session_id: str) -> Sequence[RoomEvent]:
        self.read.append(session_id)
        if self.error is not None:
            raise self.error
        return self.stored[session_id][2]
