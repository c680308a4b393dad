"""The markers that stamp messages this engine makes, and how to recognise a stamped message again.

A digest and a restored file are filed under the user's role, yet nobody typed them: they are no
prompt, and an older digest is carried on, never flattened as if the user had said it (B-W4).
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

__all__ = [
    "BRANCH_HEADER",
    "CLEARED_TOOL_RESULT",
    "DIGEST_HEADER",
    "RESTORED_FILE_PREFIX",
    "branch_text",
    "digest_text",
    "is_cleared",
    "is_prompt",
    "is_restored",
]

DIGEST_HEADER = "[session digest — older turns condensed]"
BRANCH_HEADER = "[branch digest — archived from a path not taken]"
RESTORED_FILE_PREFIX = "[Restored file after compaction]"
CLEARED_TOOL_RESULT = "[Old tool result content cleared]"

_STAMPS = (DIGEST_HEADER, BRANCH_HEADER, RESTORED_FILE_PREFIX)


def digest_text(message: Message) -> str | None:
    """Return the session digest in *message* without its header, or None when it is no digest.

    >>> digest_text(UserMessage(DIGEST_HEADER + "\\n\\n# Objective\\nship it"))
    '# Objective\\nship it'
    """
    if isinstance(message, CompactionSummaryMessage):
        return message.summary.removeprefix(DIGEST_HEADER).strip()
    return _behind(DIGEST_HEADER, message)


def branch_text(message: Message) -> str | None:
    """Return the branch digest in a user message without its header, or None when it is none."""
    return _behind(BRANCH_HEADER, message)


def is_restored(message: Message) -> bool:
    """Whether *message* is a file that an earlier compaction restored."""
    return isinstance(message, UserMessage) and _opening(message).startswith(RESTORED_FILE_PREFIX)


def is_prompt(message: Message) -> bool:
    """Whether *message* is something a user asked: not a digest, a restored file or bare tool results."""
    if not isinstance(message, UserMessage) or _opening(message).startswith(_STAMPS):
        return False
    return isinstance(message.content, str) or not (
        message.content and all(isinstance(block, ToolResultBlock) for block in message.content)
    )


def is_cleared(message: ToolResultMessage) -> bool:
    """Whether the body of *message* has been blanked already."""
    return len(message.content) == 1 and text_of(message.content) == CLEARED_TOOL_RESULT


def _behind(header: str, message: Message) -> str | None:
    if isinstance(message, UserMessage) and _opening(message).startswith(header):
        return text_of(message.content).removeprefix(header).strip()
    return None


def _opening(message: UserMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    first = message.content[0] if message.content else None
    return first.text if isinstance(first, TextBlock) else ""
