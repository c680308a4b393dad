"""How many tokens messages take: the byte meter of fact A1 and the hybrid of fact A2.

The meter counts UTF-8 bytes, four to a token; it belongs to this engine alone. Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.agentcore.messages import (
    AgentMessage,
    CompactionSummary,
    ContentBlock,
    Message,
    Usage,
    is_unsent,
)
from sidecar.agentcore.text import byte_length

__all__ = [
    "BYTES_PER_TOKEN",
    "IMAGE_BYTES",
    "ContextUsageEstimate",
    "block_bytes",
    "context_after",
    "context_estimate_adapter",
    "estimate_context_tokens",
    "estimate_tokens",
    "estimate_total",
    "is_stale",
    "prompt_tokens",
    "sent_tokens",
    "trusted_usage",
]

BYTES_PER_TOKEN = 4
IMAGE_BYTES = 4800


@dataclass(frozen=True, slots=True)
class ContextUsageEstimate:
    """The hybrid estimate: reported usage up to a message, the byte meter after it. All in tokens.

    *last_usage_index* is the index of the message whose usage was taken, or -1.
    """

    tokens: int
    usage_tokens: int
    trailing_tokens: int
    last_usage_index: int


def estimate_tokens(message: AgentMessage) -> int:
    """Return the tokens of one message (fact A1); an unknown type costs 0, a known one at least 1.

    >>> estimate_tokens(Message("user", (ContentBlock("text", text="abcde"),)))
    2
    """
    if isinstance(message, Message):
        size = 0
        for block in message.content:
            size += block_bytes(block)
    elif isinstance(message, CompactionSummary):
        size = byte_length(message.summary)
    else:
        return 0
    return max((size + 3) // BYTES_PER_TOKEN, 1)


def estimate_total(messages: Sequence[AgentMessage]) -> int:
    """Return the tokens of *messages* together.

    >>> estimate_total([Message("user"), Message("assistant")])
    2
    """
    return sum(map(estimate_tokens, messages))


def sent_tokens(message: AgentMessage) -> int:
    """Return what *message* takes in a prompt: 0 for one that is never sent (failure B-A10).

    >>> sent_tokens(Message("assistant", stop_reason="aborted"))
    0
    """
    return 0 if is_unsent(message) else estimate_tokens(message)


def estimate_context_tokens(messages: Sequence[AgentMessage]) -> ContextUsageEstimate:
    """Return the hybrid estimate of the context (fact A2).

    The newest trustworthy usage stands for its message's prompt, the byte meter for what follows. Usage is
    not trusted when it is all zero, or older than the newest summary: it describes a prompt that is no
    longer sent (B-A8). Beside a summary a message without a time counts as older.

    >>> usage = Usage(input=100, output=999, cache_read=50, cache_write=25, total_tokens=1174)
    >>> estimate_context_tokens([Message("assistant", usage=usage)])
    ContextUsageEstimate(tokens=175, usage_tokens=175, trailing_tokens=0, last_usage_index=0)
    """
    index, usage = _newest_usage(messages)
    trailing = estimate_total(messages[index + 1 :])
    reported = _prompt_size(usage) if usage else 0
    return ContextUsageEstimate(reported + trailing, reported, trailing, index)


def context_estimate_adapter(messages: Sequence[AgentMessage]) -> tuple[int, int, int]:
    """Return (tokens, usage tokens, trailing tokens) of :func:`estimate_context_tokens`.

    >>> context_estimate_adapter([])
    (0, 0, 0)
    """
    estimate = estimate_context_tokens(messages)
    return estimate.tokens, estimate.usage_tokens, estimate.trailing_tokens


def trusted_usage(message: AgentMessage) -> Usage | None:
    """Return the usage a finished assistant message reports, or None when it has none or an empty one."""
    if not isinstance(message, Message) or message.role != "assistant" or message.usage is None:
        return None
    return message.usage if _prompt_size(message.usage) > 0 and not is_unsent(message) else None


def is_stale(message: AgentMessage, summary: CompactionSummary) -> bool:
    """Return whether *message*, which stands behind *summary*, is not known to be newer than it."""
    said, condensed = message.get_timestamp(), summary.timestamp
    if said is None or condensed is None or said.tzinfo is None or condensed.tzinfo is None:
        return True
    return said < condensed


def context_after(message: AgentMessage, usage: Usage) -> int:
    """Return the context after *message*: its prompt and its output, which the next prompt repeats (B-A8)."""
    return _prompt_size(usage) + (usage.output or estimate_tokens(message))


def block_bytes(block: ContentBlock) -> int:
    """Return the bytes one block counts for (fact A1); ids are free, an image costs a flat 4800."""
    if block.type == "text":
        return byte_length(block.text)
    if block.type == "thinking":
        return byte_length(block.thinking)
    if block.tool_call is not None:
        return byte_length(block.tool_call.name) + byte_length(block.tool_call.args)
    return IMAGE_BYTES if block.type == "image" else 0


def prompt_tokens(text: str) -> int:
    """Return the tokens of a prompt's text: bytes / 4, or 1.5 a character where most are wide (Z4).

    >>> prompt_tokens("abcdefgh"), prompt_tokens("日本日本")
    (2, 6)
    """
    size = byte_length(text)
    return (3 * len(text) + 1) // 2 if size > 2 * len(text) else (size + 3) // BYTES_PER_TOKEN


def _newest_usage(messages: Sequence[AgentMessage]) -> tuple[int, Usage | None]:
    """Return the newest usage to trust and its index, or (-1, None)."""
    summary = next((m for m in reversed(messages) if isinstance(m, CompactionSummary)), None)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message is summary:
            break
        usage = trusted_usage(message)
        if usage is not None and not (summary is not None and is_stale(message, summary)):
            return index, usage
    return -1, None


def _prompt_size(usage: Usage) -> int:
    """Return the tokens of the prompt.

    Some providers count cache reads inside ``input``. Their total gives that away: it is smaller than the
    sum.
    """
    size = usage.input + usage.cache_read + usage.cache_write
    if size <= 0:
        return usage.total_tokens
    without_output = usage.total_tokens - usage.output
    return min(size, max(without_output, usage.input)) if without_output > 0 else size
