"""Models behind one contract: catalogue, channels, the embedded model and the fake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidecar.llmgateway.channel import channel_of, collect_reply, fold_reply
from sidecar.llmgateway.contract import (
    ApiKind,
    AssistantTurn,
    Block,
    Channel,
    CommandBlock,
    Conversation,
    CostSheet,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    GatewayErrorKind,
    ImageBlock,
    Modality,
    ModelCard,
    ProviderId,
    Reply,
    StopEmission,
    StopReason,
    StreamOptions,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ThinkingLevel,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    ToolChoice,
    ToolDescriptor,
    ToolResultBlock,
    ToolTurn,
    Turn,
    Usage,
    UsageEmission,
    UserTurn,
    gateway_error,
)

if TYPE_CHECKING:
    from sidecar.llmgateway.gateway import stream

__all__ = [
    "ApiKind",
    "AssistantTurn",
    "Block",
    "Channel",
    "CommandBlock",
    "Conversation",
    "CostSheet",
    "DoneEmission",
    "Emission",
    "ErrorEmission",
    "GatewayError",
    "GatewayErrorKind",
    "ImageBlock",
    "Modality",
    "ModelCard",
    "ProviderId",
    "Reply",
    "StopEmission",
    "StopReason",
    "StreamOptions",
    "TextBlock",
    "TextEmission",
    "ThinkingBlock",
    "ThinkingEmission",
    "ThinkingLevel",
    "ToolCallBlock",
    "ToolCallDeltaEmission",
    "ToolCallStartEmission",
    "ToolChoice",
    "ToolDescriptor",
    "ToolResultBlock",
    "ToolTurn",
    "Turn",
    "Usage",
    "UsageEmission",
    "UserTurn",
    "channel_of",
    "collect_reply",
    "fold_reply",
    "gateway_error",
    "stream",
]


def __getattr__(name: str) -> Any:
    # Loaded when first used: whoever wants the contract alone should not pay for the way to a model.
    if name == "stream":
        from sidecar.llmgateway.gateway import stream

        return stream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
