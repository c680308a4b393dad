"""The message vocabulary of seed 004: what an agent loop keeps, and the model it summarises with (facts 1.5).

Frozen values and two ports. Nothing here estimates, cuts or converts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

__all__ = [
    "AgentMessage",
    "ChatModel",
    "CompactionSummary",
    "ContentBlock",
    "Image",
    "Message",
    "Role",
    "StopReason",
    "ThinkingLevel",
    "ToolCall",
    "Usage",
    "call_block",
    "is_unsent",
    "is_user_prompt",
    "text_block",
    "text_message",
    "tool_message",
]

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]
StopReason: TypeAlias = Literal["stop", "length", "toolUse", "error", "aborted"]
BlockType: TypeAlias = Literal["text", "thinking", "toolCall", "image", "tool_reference"]
ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request to run the tool *name*; *args* is the raw JSON text of its arguments."""

    id: str
    name: str
    args: str = "{}"


@dataclass(frozen=True, slots=True)
class Image:
    """An image, either base64 *data* or a *url*."""

    data: str = ""
    url: str = ""
    mime_type: str = ""


@dataclass(frozen=True, slots=True)
class ContentBlock:
    """One piece of a message; *type* says which of the other fields holds it."""

    type: BlockType
    text: str = ""
    thinking: str = ""
    tool_call: ToolCall | None = None
    image: Image | None = None
    tool_name: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call as its provider reported them; *cost* in US dollars."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: float = 0.0


@runtime_checkable
class AgentMessage(Protocol):
    """Whatever may stand in a history. Only a :class:`Message` is sent to a model as it is."""

    def get_role(self) -> Role:
        """Return who speaks."""
        ...

    def get_timestamp(self) -> datetime | None:
        """Return when it was said, an aware time, or None when that is not known."""
        ...

    def text_content(self) -> str:
        """Return the text of all blocks, without separators."""
        ...

    def thinking_content(self) -> str:
        """Return the reasoning of all blocks, without separators."""
        ...

    def has_tool_calls(self) -> bool:
        """Return whether it asks for tools."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the conversation with a model.

    A tool result has role ``tool``, one text block and the metadata ``tool_call_id`` (str), ``is_error``
    (bool) and, where it is known, ``tool_name`` (str). *stop_reason* is None unless a model stopped for
    one.

    >>> Message("user", (text_block("hel"), text_block("lo"))).text_content()
    'hello'
    """

    role: Role
    content: tuple[ContentBlock, ...] = ()
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    timestamp: datetime | None = None

    def get_role(self) -> Role:
        """Return who speaks."""
        return self.role

    def get_timestamp(self) -> datetime | None:
        """Return when it was said, or None."""
        return self.timestamp

    def text_content(self) -> str:
        """Return the text of all blocks, without separators."""
        return "".join([block.text for block in self.content if block.type == "text"])

    def thinking_content(self) -> str:
        """Return the reasoning of all blocks, without separators."""
        return "".join([block.thinking for block in self.content if block.type == "thinking"])

    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls this message asks for, in order."""
        return tuple([block.tool_call for block in self.content if block.tool_call is not None])

    def has_tool_calls(self) -> bool:
        """Return whether it asks for tools."""
        return any(block.tool_call is not None for block in self.content)

    @property
    def tool_call_id(self) -> str | None:
        """The call this tool result answers, or None."""
        value = self.metadata.get("tool_call_id")
        return value if self.role == "tool" and isinstance(value, str) else None

    @property
    def is_error(self) -> bool:
        """Whether this tool result reports a failure."""
        return bool(self.metadata.get("is_error"))


@dataclass(frozen=True, slots=True)
class CompactionSummary:
    """What stands for the messages that were condensed.

    It is not a :class:`Message`, so that only ``compaction_convert_to_llm`` sends it. *summary* ends with
    the file sections of fact A12; *tokens_before* is the estimate of the whole view it was made from.
    """

    summary: str
    tokens_before: int = 0
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()
    timestamp: datetime | None = None

    def get_role(self) -> Role:
        """Return ``user``: a summary is told to the model as a user's message."""
        return "user"

    def get_timestamp(self) -> datetime | None:
        """Return when the summary was made, or None."""
        return self.timestamp

    def text_content(self) -> str:
        """Return the summary."""
        return self.summary

    def thinking_content(self) -> str:
        """Return nothing: a summary holds no reasoning."""
        return ""

    def has_tool_calls(self) -> bool:
        """Return False: a summary asks for no tools."""
        return False


class ChatModel(Protocol):
    """The model that writes summaries.

    Contract: returns one assistant message, or raises whatever went wrong; a message whose ``stop_reason`` is
    ``error``, ``aborted`` or ``length`` counts as a failure. Calls are never made at the same time.
    """

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        thinking: ThinkingLevel | None = None,
    ) -> Message:
        """Answer *messages*: a system message and one user message."""
        ...


def text_block(text: str) -> ContentBlock:
    """Return a block of prose."""
    return ContentBlock("text", text=text)


def call_block(call_id: str, name: str, args: str = "{}") -> ContentBlock:
    """Return a block that asks for a tool; *args* is raw JSON."""
    return ContentBlock("toolCall", tool_call=ToolCall(call_id, name, args))


def text_message(role: Role, text: str) -> Message:
    """Return a message of one text block.

    >>> text_message("user", "hi").text_content()
    'hi'
    """
    return Message(role, (text_block(text),))


def tool_message(call_id: str, text: str, *, is_error: bool = False, tool_name: str = "") -> Message:
    """Return the result of the call *call_id*; an empty *tool_name* is left out of the metadata."""
    metadata: dict[str, Any] = {"tool_call_id": call_id, "is_error": is_error}
    if tool_name:
        metadata["tool_name"] = tool_name
    return Message("tool", (text_block(text),), metadata=metadata)


def is_unsent(message: AgentMessage) -> bool:
    """Return whether *message* stays out of every prompt: it failed, was aborted, or is of a foreign type."""
    if isinstance(message, Message):
        return message.stop_reason in ("error", "aborted")
    return not isinstance(message, CompactionSummary)


def is_user_prompt(message: AgentMessage) -> bool:
    """Return whether *message* is a user's own; a :class:`CompactionSummary` is not."""
    return isinstance(message, Message) and message.role == "user"
