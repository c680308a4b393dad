"""Turns, and the content blocks in them.

Frozen values only. The discriminators ``kind`` and ``role`` are class variables, not arguments.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from sidecar._internal.values import Value


class TextBlock(Value):
    """Prose."""

    kind: ClassVar[Literal["text"]] = "text"
    text: str


class ThinkingBlock(Value):
    """The model's reasoning; *signature* is the provider's proof of it, and goes back unchanged."""

    kind: ClassVar[Literal["thinking"]] = "thinking"
    text: str
    signature: str | None = None


class ToolCallBlock(Value):
    """A request to run the tool *name*.

    *input* is the parsed JSON value once the turn is sealed, and the raw argument text while it streams.
    """

    kind: ClassVar[Literal["tool_call"]] = "tool_call"
    id: str
    name: str
    input: Any


class ToolResultBlock(Value):
    """The result of the call *call_id*: any JSON value, usually text."""

    kind: ClassVar[Literal["tool_result"]] = "tool_result"
    call_id: str
    output: Any
    is_error: bool | None = None


class ImageBlock(Value):
    """An image, base64 encoded."""

    kind: ClassVar[Literal["image"]] = "image"
    media_type: str
    data_base64: str


class CommandBlock(Value):
    """A command of the host, not of the model; models never see it."""

    kind: ClassVar[Literal["command"]] = "command"
    command: str
    args: tuple[str, ...] | None = None


Block: TypeAlias = TextBlock | ThinkingBlock | ToolCallBlock | ToolResultBlock | ImageBlock | CommandBlock


class UserTurn(Value):
    """A message of the user, or of the host on the user's behalf."""

    role: ClassVar[Literal["user"]] = "user"
    blocks: tuple[Block, ...]


class AssistantTurn(Value):
    """An answer of the model, with its tool calls."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    blocks: tuple[Block, ...]


class ToolTurn(Value):
    """The results of the tool calls of the assistant turn before it."""

    role: ClassVar[Literal["tool"]] = "tool"
    blocks: tuple[Block, ...]


Turn: TypeAlias = UserTurn | AssistantTurn | ToolTurn
