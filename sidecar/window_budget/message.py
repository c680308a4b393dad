"""Messages: the transcript that this engine works on, in seven kinds, tool results at top level.

A gateway turn nests tool results inside a turn; a transcript does not, so that a result can be cut, blanked
or restored by itself. This module holds values only: it measures, renders and decides nothing.

Marks are the headers of the messages that this engine writes. A digest and a restored file are filed under
the user's role, yet nobody typed them. They count as no prompt, and an older digest is carried on as a
digest, never flattened as if the user had said it. Each mark is declared here and nowhere else. A message
that knows its kind is never searched for marks: a prompt may begin with any words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, TypeAlias

from sidecar._internal.values import Value, hide_in_repr
from sidecar.llmgateway.contract import Block, ImageBlock, TextBlock, ToolCallBlock, ToolResultBlock
from sidecar.text.clip import text_or_json

Content: TypeAlias = str | tuple[Block, ...]
"""The content of a message: bare text, or blocks. A bare string weighs as one block."""


UserKind: TypeAlias = Literal["prompt", "digest", "file"]
"""The kind of a message under the user's role: a prompt, the digest of older turns, a restored file."""


class UserMessage(Value):
    """A prompt, or text that was filed under the user's role.

    Attributes:
        content: the text, or blocks.
        timestamp: epoch milliseconds.
        kind: the kind of the message, where its host knows it; None is recognised by the first words.
    """

    role: ClassVar[Literal["user"]] = "user"
    content: Content
    timestamp: int = 0
    kind: UserKind | None = None

    __repr__ = hide_in_repr("kind")


class AssistantMessage(Value):
    """A reply of the model with its tool calls; *error_message* is why it broke off, None if it did not."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    content: tuple[Block, ...]
    error_message: str | None = None


class ToolResultMessage(Value):
    """The result of the call *tool_call_id*.

    *is_error* is None where the source did not say. An output that is not text is one
    :class:`ToolResultBlock` inside *content*.
    """

    role: ClassVar[Literal["toolResult"]] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: tuple[Block, ...]
    is_error: bool | None = False


class BashExecutionMessage(Value):
    """A command that the user ran through the host; *exit_code* is None when it never ended."""

    role: ClassVar[Literal["bashExecution"]] = "bashExecution"
    command: str
    output: str
    exit_code: int | None = None


class CustomMessage(Value):
    """A note of the host; *custom_type* names its kind."""

    role: ClassVar[Literal["custom"]] = "custom"
    custom_type: str
    content: Content


class BranchSummaryMessage(Value):
    """The digest of a branch that was left at the node *from_id*."""

    role: ClassVar[Literal["branchSummary"]] = "branchSummary"
    summary: str
    from_id: str


class CompactionSummaryMessage(Value):
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
    parts: list[str] = []
    for block in content:
        if isinstance(block, TextBlock):
            parts.append(block.text)
        elif isinstance(block, ImageBlock):
            parts.append("[image]")
        elif isinstance(block, ToolResultBlock):
            parts.append(text_or_json(block.output))
    return "\n".join(filter(None, parts))


def calls_of(message: Message) -> Iterator[ToolCallBlock]:
    """Yield the tool calls that *message* makes."""
    if isinstance(message, AssistantMessage):
        for block in message.content:
            if isinstance(block, ToolCallBlock):
                yield block


def result_ids_of(message: Message) -> Iterator[str]:
    """Yield the ids of the calls that *message* answers, nested result blocks included."""
    if isinstance(message, ToolResultMessage):
        yield message.tool_call_id
    elif isinstance(message, UserMessage | CustomMessage) and not isinstance(message.content, str):
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                yield block.call_id


DIGEST_HEADER = "[session digest — older turns condensed]"
BRANCH_HEADER = "[branch digest — archived from a path not taken]"
RESTORED_FILE_PREFIX = "[Restored file after compaction]"
_MARKS = (DIGEST_HEADER, BRANCH_HEADER, RESTORED_FILE_PREFIX)
CLEARED_TOOL_RESULT = "[Old tool result content cleared]"


def digest_text(message: Message) -> str | None:
    """Return the session digest in *message* without its header, or None when it is no digest.

    >>> digest_text(UserMessage(DIGEST_HEADER + "\\n\\n# Objective\\nship it"))
    '# Objective\\nship it'
    """
    if isinstance(message, CompactionSummaryMessage):
        return message.summary.removeprefix(DIGEST_HEADER).strip()
    if isinstance(message, UserMessage) and message.kind == "digest":
        return text_of(message.content).removeprefix(DIGEST_HEADER).strip()
    return _text_after(DIGEST_HEADER, message)


def branch_text(message: Message) -> str | None:
    """Return the digest of an abandoned branch in *message* without its header, or None when it is none."""
    return (
        message.summary if isinstance(message, BranchSummaryMessage) else _text_after(BRANCH_HEADER, message)
    )


def is_restored(message: Message) -> bool:
    """Whether *message* is a file that an earlier compaction restored."""
    if not isinstance(message, UserMessage):
        return False
    return message.kind == "file" or _marked_text(message).startswith(RESTORED_FILE_PREFIX)


def is_prompt(message: Message) -> bool:
    """Whether the user asked *message*: it is no digest, no restored file and no bare tool results."""
    if not isinstance(message, UserMessage) or message.kind in ("digest", "file"):
        return False
    if message.kind is None and _marked_text(message).startswith(_MARKS):
        return False
    if isinstance(message.content, str):
        return True
    for block in message.content:
        if not isinstance(block, ToolResultBlock):
            return True
    return not message.content


def is_cleared(message: ToolResultMessage) -> bool:
    """Whether the body of *message* has been blanked already."""
    return len(message.content) == 1 and text_of(message.content) == CLEARED_TOOL_RESULT


def _text_after(header: str, message: Message) -> str | None:
    if isinstance(message, UserMessage) and _marked_text(message).startswith(header):
        return text_of(message.content).removeprefix(header).strip()
    return None


def _marked_text(message: UserMessage) -> str:
    """Return the text that a mark may begin, empty where the kind of *message* is known."""
    if message.kind is not None:
        return ""
    if isinstance(message.content, str):
        return message.content
    first = message.content[0] if message.content else None
    return first.text if isinstance(first, TextBlock) else ""
