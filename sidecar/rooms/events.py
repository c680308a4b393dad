"""Events: who said what in a room, and when (facts 1.4). Frozen values; nothing is stored or sent here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from sidecar.rooms.content import EventContent
from sidecar.rooms.defaults import new_id, utc_now
from sidecar.rooms.errors import InvalidRoomValue

__all__ = [
    "ChannelDirection",
    "ChannelType",
    "EventSource",
    "EventStatus",
    "EventType",
    "RoomEvent",
    "is_from_ai",
]


class EventType(StrEnum):
    """The common kinds of event; a host may use names of its own."""

    MESSAGE = "message"
    SYSTEM = "system"
    TOOL_CALL = "tool_call"
    EDIT = "edit"
    DELETE = "delete"


class EventStatus(StrEnum):
    """How far an event has come; a host may use names of its own."""

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


@dataclass(frozen=True, slots=True)
class EventSource:
    """Where an event came from: the channel, and who spoke through it."""

    channel_id: str
    channel_type: str
    direction: str = ChannelDirection.INBOUND
    participant_id: str | None = None
    external_id: str | None = None
    provider: str | None = None
    raw_payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomEvent:
    """One thing that happened in a room.

    *id* defaults to a fresh one and *created_at* to now; *created_at* must know its time zone. *index* is the
    position in the room, *addressed_to* names participants or is None for everybody.
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
    created_at: datetime = field(default_factory=utc_now)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    channel_data: Mapping[str, Any] = field(default_factory=dict)
    delivery_results: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.created_at.tzinfo is None:
            raise InvalidRoomValue("created_at has no time zone; give an aware datetime, for example in UTC")


def is_from_ai(event: RoomEvent) -> bool:
    """Return whether an AI channel said it."""
    return event.source.channel_type == ChannelType.AI
