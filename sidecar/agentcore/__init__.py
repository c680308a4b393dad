"""The messages of an agent loop, and the memory engine that keeps them inside the model's window."""

from sidecar.agentcore.messages import (
    SUMMARY_MARK,
    AgentMessage,
    ChatModel,
    ContentBlock,
    Image,
    Message,
    Role,
    StopReason,
    ThinkingLevel,
    ToolCall,
    Usage,
    default_convert_to_llm,
    repair_message_sequence,
)

__all__ = [
    "SUMMARY_MARK",
    "AgentMessage",
    "ChatModel",
    "ContentBlock",
    "Image",
    "Message",
    "Role",
    "StopReason",
    "ThinkingLevel",
    "ToolCall",
    "Usage",
    "default_convert_to_llm",
    "repair_message_sequence",
]
