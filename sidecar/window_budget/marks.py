"""The marks of this engine: the headers of the messages that it writes, and how to recognise them again.

A digest and a restored file are filed under the user's role, yet nobody typed them. They count as no prompt,
and an older digest is carried on as a digest, never flattened as if the user had said it. Each mark is
declared here and nowhere else. A message that knows its kind is never searched for marks: a prompt may begin
with any words.
"""

from __future__ import annotations

from sidecar.llmgateway.contract import TextBlock, ToolResultBlock
from sidecar.window_budget.message import (
    CompactionSummaryMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    text_of,
)

DIGEST_HEADER = "[session digest — older turns condensed]"
BRANCH_HEADER = "[branch digest — archived from a path not taken]"
RESTORED_FILE_PREFIX = "[Restored file after compaction]"
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
    """Return the branch digest in a user message without its header, or None when it is none."""
    return _text_after(BRANCH_HEADER, message)


def is_restored(message: Message) -> bool:
    """Whether *message* is a file that an earlier compaction restored."""
    if not isinstance(message, UserMessage):
        return False
    return message.kind == "file" or _marked_text(message).startswith(RESTORED_FILE_PREFIX)


def is_prompt(message: Message) -> bool:
    """Whether the user asked *message*: it is no digest, no restored file and no bare tool results."""
    marks = (DIGEST_HEADER, BRANCH_HEADER, RESTORED_FILE_PREFIX)
    if not isinstance(message, UserMessage) or message.kind in ("digest", "file"):
        return False
    if _marked_text(message).startswith(marks):
        return False
    return isinstance(message.content, str) or not (
        message.content and all(isinstance(block, ToolResultBlock) for block in message.content)
    )


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
