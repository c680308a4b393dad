"""Events and the room that holds them: participants, channels and the tail of the room's events.

Frozen values. The owner of the room decides which events are in the tail and which ones a channel may see;
nothing is stored or sent here. A new event takes its id and its time from this module, unless they are
given; nothing else in the rooms looks at a clock or draws a random number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import uuid4

from msgspec import field

from sidecar._internal.values import Value, force_setattr
from sidecar.rooms.content import EventContent, RoomValueError


def new_id() -> str:
    """Return a fresh id: 32 hex digits."""
    return uuid4().hex


class EventType(StrEnum):
    """The common kinds of event; a host may use names of its own."""

    MESSAGE = "message"
    SYSTEM = "system"
    TOOL_CALL = "tool_call"
    EDIT = "edit"
    DELETE = "delete"


class EventStatus(StrEnum):
    """The delivery states of an event; a host may use names of its own."""

    PENDING = "pending"
    DELIVERED = "delivered"
    READ = "read"
    FAILED = "failed"
    BLOCKED = "blocked"


class ChannelType(StrEnum):
    """The common kinds of channel; only ``AI`` means anything to the memory providers."""

    AI = "ai"
    EMAIL = "email"
    SMS = "sms"
    VOICE = "voice"
    WEBSOCKET = "websocket"


class ChannelDirection(StrEnum):
    """Whether an event came into the room or left it."""

    INBOUND = "inbound"
    OUTBOUND = "outbound"


class EventSource(Value):
    """The origin of an event: the channel, and the participant behind it."""

    channel_id: str
    channel_type: str
    direction: str = ChannelDirection.INBOUND
    participant_id: str | None = None
    external_id: str | None = None
    provider: str | None = None
    raw_payload: Mapping[str, Any] = field(default_factory=dict)


class RoomEvent(Value, kw_only=True):
    """One event of a room.

    *id* defaults to a fresh one and *created_at* to now; *created_at* must be aware of its time zone. *index*
    is the position in the room, *addressed_to* names participants or is None for all of them.
    """

    room_id: str
    source: EventSource
    content: EventContent
    id: str = field(default_factory=new_id)
    type: str = EventType.MESSAGE
    status: str = EventStatus.PENDING
    visibility: str = "all"
    addressed_to: Sequence[str] | None = None
    index: int = 0
    chain_depth: int = 0
    parent_event_id: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    metadata: Mapping[str, Any] = field(default_factory=dict)
    channel_data: Mapping[str, Any] = field(default_factory=dict)
    delivery_results: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.created_at.tzinfo is None:
            raise RoomValueError("created_at has no time zone; give an aware datetime, for example in UTC")


def is_from_ai(event: RoomEvent) -> bool:
    """Return whether *event* came from an AI channel."""
    return event.source.channel_type == ChannelType.AI


class Room(Value):
    """A place where events happen."""

    id: str = field(default_factory=new_id)
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Participant(Value):
    """A participant of the room; an event's ``source.participant_id`` refers to *id*."""

    id: str
    display_name: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class ChannelBinding(Value):
    """A channel that is attached to the room."""

    channel_id: str
    channel_type: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


class RoomContext(Value):
    """A room as one channel sees it. *recent_events* is the room's tail, oldest first."""

    room: Room
    bindings: Sequence[ChannelBinding] = ()
    participants: Sequence[Participant] = ()
    recent_events: Sequence[RoomEvent] = ()

    def __post_init__(self) -> None:
        for name in ("bindings", "participants", "recent_events"):
            force_setattr(self, name, tuple(getattr(self, name)))
