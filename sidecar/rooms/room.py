"""A room as a memory provider is shown it: its people, its channels and the tail of its events (facts 1.4).

Frozen values; whoever owns the room decides what is in the tail and what a channel may see of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sidecar.rooms.defaults import new_id
from sidecar.rooms.events import RoomEvent

__all__ = ["ChannelBinding", "Participant", "Room", "RoomContext"]


@dataclass(frozen=True, slots=True)
class Room:
    """A place where events happen."""

    id: str = field(default_factory=new_id)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Participant:
    """Somebody in the room; *id* is what an event's ``source.participant_id`` names."""

    id: str
    display_name: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChannelBinding:
    """A channel that is attached to the room."""

    channel_id: str
    channel_type: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoomContext:
    """What one channel sees of a room. *recent_events* is the room's tail, oldest first."""

    room: Room
    bindings: Sequence[ChannelBinding] = ()
    participants: Sequence[Participant] = ()
    recent_events: Sequence[RoomEvent] = ()

    def __post_init__(self) -> None:
        for name in ("bindings", "participants", "recent_events"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
