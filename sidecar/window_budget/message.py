"""The transcript this engine works on: seven kinds of message, two of them tool output at top level.

A gateway turn nests tool results inside a turn; a transcript does not, so that a result can be cut,
blanked or restored by itself. Values only: nothing here measures, renders or decides.
Seed 001, facts 1.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from sidecar.llmgateway.contract import Block, ImageBlock, TextBlock, ToolCallBlock, ToolResultBlock
from sidecar.window_budget.text import compact_json

__all__ = [
    "AssistantMessage",
    "BashExecutionMessage",
    "Block",
    "BranchSummaryMessage",
    "CompactionSummaryMessage",
    "Content",
    "CustomMessage",
    "Message",
    "ToolResultMessage",
    "UserMessage",
    "blocks_of",
    "calls_of",
    "result_ids_of",
    "text_of",
]

Content: TypeAlias = str | tuple[Block, ...]
"""What a message says: bare text, or blocks. A bare string weighs as one block."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user said, or what was filed under the user's role; *timestamp* is in epoch milliseconds."""

    role: ClassVar[Literal["user"]] = "user"
    content: Content
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model said and asked for; *error_message* is why its reply broke off, if it did."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    content: tuple[Block, ...]
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResultMessage:
    """What the call *tool_call_id* returned.

    *is_error* is None where the source did not say. An output that is not text is one
    :class:`ToolResultBlock` inside *content*.
    """

    role: ClassVar[Literal["toolResult"]] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: tuple[Block, ...]
    is_error: bool | None = False


@dataclass(frozen=True, slots=True)
class BashExecutionMessage:
    """A command that the user ran through the host; *exit_code* is None when it never ended."""

    role: ClassVar[Literal["bashExecution"]] = "bashExecution"
    command: str
    output: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class CustomMessage:
    """A note of the host's; *custom_type* names its kind."""

    role: ClassVar[Literal["custom"]] = "custom"
    custom_type: str
    content: Content


@dataclass(frozen=True, slots=True)
class BranchSummaryMessage:
    """The digest of a branch that was left at the node *from_id*."""

    role: ClassVar[Literal["branchSummary"]] = "branchSummary"
    summary: str
    from_id: str


@dataclass(frozen=True, slots=True)
class CompactionSummaryMessage:
    """The digest of older turns, which weighed *tokens_before* tokens."""

    role: ClassVar[Literal["compactionSummary"]] = "compactionSummary"
    summary: str
    tokens_before: int


Message: TypeAlias = (
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | BashExecutionMessage
    | CustomMessage
    | BranchSummaryMessage
    | CompactionSummaryMessage
)


def blocks_of(content: Content) -> tuple[Block, ...]:
    """Return *content* as blocks; a bare string is one text block.

    >>> blocks_of("hi")
    (TextBlock(text='hi'),)
    """
    return (TextBlock(content),) if isinstance(content, str) else content


def text_of(content: Content) -> str:
    """Return *content* as plain text, blocks joined by newlines.

    An image reads ``[image]``, a nested result reads as its output; every other block is left out.

    >>> text_of((TextBlock("look"), ImageBlock("image/png", "AAAA")))
    'look\\n[image]'
    """
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(_block_text, content)))


def calls_of(message: Message) -> Iterator[ToolCallBlock]:
    """Yield the tool calls that *message* makes."""
    if isinstance(message, AssistantMessage):
        for block in message.content:
            if isinstance(block, ToolCallBlock):
                yield block


def result_ids_of(message: Message) -> Iterator[str]:
    """Yield the ids of the calls that *message* answers, those of nested result blocks included."""
    if isinstance(message, ToolResultMessage):
        yield message.tool_call_id
    elif isinstance(message, UserMessage | CustomMessage) and not isinstance(message.content, str):
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                yield block.call_id


def _block_text(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ImageBlock):
        return "[image]"
    if isinstance(block, ToolResultBlock):
        return block.output if isinstance(block.output, str) else compact_json(block.output)
    return ""
