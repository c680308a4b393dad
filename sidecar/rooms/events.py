"""Events, their contents, and the room that holds them: participants, channels and the tail of its events.

Frozen values. The owner of the room decides which events are in the tail and which ones a channel may see;
nothing is stored or sent here. A new event takes its id and its time from this module, unless they are
given; nothing else in the rooms looks at a clock or draws a random number.

Contents check themselves when they are built: text, media, a tool call, an edit of an earlier event, and so
on. They never fetch a URL nor convert for a provider.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Literal, TypeAlias, assert_never
from uuid import uuid4

from msgspec import field

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value, force_setattr

MAX_NESTING = 5
URL_SCHEMES = ("http://", "https://", "data:")
TOOL_STATUSES = ("pending", "completed", "failed")


class RoomValueError(InvalidInput, ValueError):
    """A value of the rooms was built from arguments that break its rules."""


class TextContent(Value):
    """Plain prose; *language* is a BCP 47 tag."""

    type: ClassVar[Literal["text"]] = "text"
    body: str
    language: str | None = None


class RichContent(Value):
    """Formatted prose, with buttons and cards that a channel may show; *plain_text* is its fallback."""

    type: ClassVar[Literal["rich"]] = "rich"
    body: str
    format: str = "markdown"
    plain_text: str | None = None
    buttons: Sequence[Mapping[str, Any]] = ()
    cards: Sequence[Mapping[str, Any]] = ()
    quick_replies: Sequence[str] = ()


class MediaContent(Value):
    """A file or an image behind a URL, or inside a ``data:`` one."""

    type: ClassVar[Literal["media"]] = "media"
    url: str
    mime_type: str
    filename: str | None = None
    size_bytes: int | None = None
    caption: str | None = None

    def __post_init__(self) -> None:
        _check_url(self.url)


class LocationContent(Value):
    """A place, in degrees."""

    type: ClassVar[Literal["location"]] = "location"
    latitude: float
    longitude: float
    label: str | None = None
    address: str | None = None


class AudioContent(Value):
    """A recording; *transcript* is its text, when there is one."""

    type: ClassVar[Literal["audio"]] = "audio"
    url: str
    mime_type: str = "audio/mpeg"
    transcript: str | None = None
    duration_seconds: float | None = None

    def __post_init__(self) -> None:
        _check_url(self.url)


class VideoContent(Value):
    """A film."""

    type: ClassVar[Literal["video"]] = "video"
    url: str
    mime_type: str = "video/mp4"
    caption: str | None = None
    thumbnail_url: str | None = None
    duration_seconds: float | None = None

    def __post_init__(self) -> None:
        _check_url(self.url)


class CompositeContent(Value):
    """Several contents that belong together: at least one, nested at most five deep."""

    type: ClassVar[Literal["composite"]] = "composite"
    parts: Sequence[EventContent]

    def __post_init__(self) -> None:
        force_setattr(self, "parts", tuple(self.parts))
        if not self.parts:
            raise RoomValueError("a composite has no parts; give at least one, or use TextContent")
        depth = _depth(self)
        if depth > MAX_NESTING:
            raise RoomValueError(f"composites are nested {depth} deep; flatten them to {MAX_NESTING} or less")


class SystemContent(Value):
    """A notice of the room itself, not of a participant."""

    type: ClassVar[Literal["system"]] = "system"
    body: str
    code: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


class TemplateContent(Value):
    """A message by the name of its template; *body* is the text it renders to, when known."""

    type: ClassVar[Literal["template"]] = "template"
    template_id: str
    language: str = "en"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    body: str | None = None


class EditContent(Value):
    """New content for an earlier event."""

    type: ClassVar[Literal["edit"]] = "edit"
    target_event_id: str
    new_content: EventContent


class DeleteContent(Value):
    """The deletion of an earlier event."""

    type: ClassVar[Literal["delete"]] = "delete"
    target_event_id: str
    reason: str | None = None


class ToolCallContent(Value):
    """A tool that was run in the room; *result* is any JSON value."""

    type: ClassVar[Literal["tool_call"]] = "tool_call"
    tool_name: str
    tool_id: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    status: str = "pending"
    duration_ms: int | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.status not in TOOL_STATUSES:
            raise RoomValueError(f"tool status is {self.status!r}; use one of {', '.join(TOOL_STATUSES)}")


EventContent: TypeAlias = (
    TextContent
    | RichContent
    | MediaContent
    | LocationContent
    | AudioContent
    | VideoContent
    | CompositeContent
    | SystemContent
    | TemplateContent
    | EditContent
    | DeleteContent
    | ToolCallContent
)
"""The content of an event; ``type`` tells the variants apart."""


def query_text(content: EventContent) -> str:
    """Return the words of *content* itself: a text's body, or the texts directly in a composite.

    Any other content has no words to search for and yields "".

    >>> query_text(CompositeContent((TextContent("see"), LocationContent(1, 2), TextContent("this"))))
    'see this'
    """
    if isinstance(content, TextContent):
        return content.body
    if isinstance(content, CompositeContent):
        return " ".join(part.body for part in content.parts if isinstance(part, TextContent))
    return ""


def plain_text(content: EventContent) -> str:
    """Return *content* as text for a model; the payload of a ``data:`` URL is left out.

    >>> plain_text(MediaContent("data:image/png;base64,AAAA", "image/png", caption="the plan"))
    '[media image/png: the plan, data:image/png;base64 (26 characters)]'
    """
    match content:
        case TextContent(body=body) | SystemContent(body=body):
            return body
        case RichContent():
            return content.plain_text or content.body
        case MediaContent():
            return _label(f"media {content.mime_type}", content.caption, content.filename, _url(content.url))
        case LocationContent():
            place = f"{content.latitude}, {content.longitude}"
            return _label("location", place, content.label, content.address)
        case AudioContent():
            return _label("audio", content.transcript, _url(content.url))
        case VideoContent():
            return _label("video", content.caption, _url(content.url))
        case CompositeContent():
            return "\n".join(plain_text(part) for part in content.parts)
        case TemplateContent():
            return content.body or _label(f"template {content.template_id}", to_json(content.parameters))
        case EditContent():
            return f"[edit of {content.target_event_id}] {plain_text(content.new_content)}"
        case DeleteContent():
            return _label(f"deleted {content.target_event_id}", content.reason)
        case ToolCallContent():
            outcome = content.error if content.error is not None else content.result
            shown = "" if outcome is None else f" {outcome if isinstance(outcome, str) else to_json(outcome)}"
            return f"[tool {content.tool_name}({to_json(content.arguments)}) {content.status}]{shown}"
        case _:
            assert_never(content)


def _label(label: str, *details: str | None) -> str:
    joined = ", ".join(detail for detail in details if detail)
    return f"[{label}: {joined}]" if joined else f"[{label}]"


def _url(url: str) -> str:
    if not url.startswith("data:"):
        return url
    return f"{url.partition(',')[0]} ({len(url)} characters)"


def to_json(value: Any, *, is_ascii: bool = False) -> str:
    """Return *value* as JSON, escaped where *is_ascii*; parts that JSON has no form for are text."""
    try:
        return json.dumps(value, ensure_ascii=is_ascii, default=str)
    except RecursionError:
        return f"<{type(value).__name__} nested too deeply to print>"


def _depth(content: EventContent) -> int:
    if not isinstance(content, CompositeContent):
        return 0
    return 1 + max(_depth(part) for part in content.parts)


def _check_url(url: str) -> None:
    if not url.startswith(URL_SCHEMES):
        raise RoomValueError(f"url begins with {url[:16]!r}; it must begin with http://, https:// or data:")


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
