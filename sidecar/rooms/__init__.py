"""Rooms (seed 003): events, what is said to a model, and the ports for models and knowledge.

Values and ports; nothing is stored, sent or asked here. The providers are in :mod:`sidecar.rooms.memory`.
"""

from sidecar.rooms.ai import (
    AIContext,
    AIImagePart,
    AIMessage,
    AIPart,
    AIProvider,
    AIResponse,
    AITextPart,
    AIThinkingPart,
    AITool,
    AIToolCallPart,
    AIToolResultPart,
)
from sidecar.rooms.content import (
    AudioContent,
    CompositeContent,
    DeleteContent,
    EditContent,
    EventContent,
    LocationContent,
    MediaContent,
    RichContent,
    SystemContent,
    TemplateContent,
    TextContent,
    ToolCallContent,
    VideoContent,
)
from sidecar.rooms.errors import InvalidRoomValue
from sidecar.rooms.events import ChannelDirection, ChannelType, EventSource, EventStatus, EventType, RoomEvent
from sidecar.rooms.mocks import MockAIProvider, MockKnowledgeSource
from sidecar.rooms.room import ChannelBinding, Participant, Room, RoomContext
from sidecar.rooms.source import KnowledgeResult, KnowledgeSource

__all__ = [
    "AIContext",
    "AIImagePart",
    "AIMessage",
    "AIPart",
    "AIProvider",
    "AIResponse",
    "AITextPart",
    "AIThinkingPart",
    "AITool",
    "AIToolCallPart",
    "AIToolResultPart",
    "AudioContent",
    "ChannelBinding",
    "ChannelDirection",
    "ChannelType",
    "CompositeContent",
    "DeleteContent",
    "EditContent",
    "EventContent",
    "EventSource",
    "EventStatus",
    "EventType",
    "InvalidRoomValue",
    "KnowledgeResult",
    "KnowledgeSource",
    "LocationContent",
    "MediaContent",
    "MockAIProvider",
    "MockKnowledgeSource",
    "Participant",
    "RichContent",
    "Room",
    "RoomContext",
    "RoomEvent",
    "SystemContent",
    "TemplateContent",
    "TextContent",
    "ToolCallContent",
    "VideoContent",
]
