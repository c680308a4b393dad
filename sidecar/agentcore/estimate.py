"""The token meter of this engine, and the byte arithmetic of texts beneath it.

The problem: a history must be weighed before each model call, without a tokenizer and in time that does not
grow with the history. Two estimates answer it.

- The *plain* estimate counts UTF-8 bytes, four to a token, rounded up, at least 1 for a message. Ids and
  metadata are free, an image costs a flat 4800 bytes. It is cheap, additive, and knows only the messages.
- The *hybrid* estimate takes the usage that a provider reported for its newest answer as the exact size of
  that prompt, system prompt and tool schemas included, and meters only the messages after it::

      user  assistant(usage: input 100, cache read 50, cache write 25)  tool(20 characters)
      '------------------------- 175 reported -----------------------'  '--- 5 metered ---'   = 180

Reported usage describes one prompt and goes stale: usage older than the newest summary belongs to a prompt
that is no longer sent, and an all-zero usage says nothing; both are skipped. Some providers count cache
reads inside ``input``; their total, which is then smaller than the sum, gives that away.

Texts are measured and cut in bytes as well, and never inside a character: a prompt that ends in half a
character is refused by every provider.
"""

from __future__ import annotations

from collections.abc import Sequence

from sidecar._internal.values import Value
from sidecar.agentcore.messages import (
    AgentMessage,
    CompactionSummary,
    ContentBlock,
    Message,
    Usage,
    is_unsent,
)

BYTES_PER_TOKEN = 4
IMAGE_BYTES = 4800


class ContextUsageEstimate(Value):
    """The hybrid estimate: reported usage up to a message, the byte meter after it. All in tokens.

    *last_usage_index* is the index of the message with that usage, or -1.
    """

    tokens: int
    usage_tokens: int
    trailing_tokens: int
    last_usage_index: int


def estimate_tokens(message: AgentMessage) -> int:
    """Return the plain estimate of one message; a foreign type costs 0, a known one at least 1.

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
    """Return the plain estimate of *messages* together.

    >>> estimate_total([Message("user"), Message("assistant")])
    2
    """
    return sum(map(estimate_tokens, messages))


def cost_in_prompt(message: AgentMessage) -> int:
    """Return the tokens of *message* in a prompt: its plain estimate, or 0 when it is never sent.

    >>> cost_in_prompt(Message("assistant", stop_reason="aborted"))
    0
    """
    return 0 if is_unsent(message) else estimate_tokens(message)


def estimate_context_tokens(messages: Sequence[AgentMessage]) -> ContextUsageEstimate:
    """Return the hybrid estimate of the context.

    Beside a summary, a message without a time counts as older than the summary.

    >>> usage = Usage(input=100, output=999, cache_read=50, cache_write=25, total_tokens=1174)
    >>> estimate_context_tokens([Message("assistant", usage=usage)])
    ContextUsageEstimate(tokens=175, usage_tokens=175, trailing_tokens=0, last_usage_index=0)
    """
    summary = next((m for m in reversed(messages) if isinstance(m, CompactionSummary)), None)
    for index in range(len(messages) - 1, -1, -1):
        if messages[index] is summary:
            break
        usage = find_usage(messages[index])
        if usage is not None and not (summary is not None and is_stale(messages[index], summary)):
            reported, trailing = _prompt_size(usage), estimate_total(messages[index + 1 :])
            return ContextUsageEstimate(reported + trailing, reported, trailing, index)
    total = estimate_total(messages)
    return ContextUsageEstimate(total, 0, total, -1)


def context_estimate_adapter(messages: Sequence[AgentMessage]) -> tuple[int, int, int]:
    """Return (tokens, usage tokens, trailing tokens) of :func:`estimate_context_tokens`.

    >>> context_estimate_adapter([])
    (0, 0, 0)
    """
    estimate = estimate_context_tokens(messages)
    return estimate.tokens, estimate.usage_tokens, estimate.trailing_tokens


def find_usage(message: AgentMessage) -> Usage | None:
    """Return the usage of a finished assistant message, or None when it has none or an empty one."""
    if not isinstance(message, Message) or message.role != "assistant" or message.usage is None:
        return None
    return message.usage if _prompt_size(message.usage) > 0 and not is_unsent(message) else None


def is_stale(message: AgentMessage, summary: CompactionSummary) -> bool:
    """Return whether *message*, which stands behind *summary*, is not known to be newer than it."""
    written_at, condensed_at = message.get_timestamp(), summary.timestamp
    if written_at is None or condensed_at is None or written_at.tzinfo is None or condensed_at.tzinfo is None:
        return True
    return written_at < condensed_at


def context_after(message: AgentMessage, usage: Usage) -> int:
    """Return the context after *message*: its prompt, and its output, which the next prompt repeats."""
    return _prompt_size(usage) + (usage.output or estimate_tokens(message))


def _prompt_size(usage: Usage) -> int:
    size = usage.input + usage.cache_read + usage.cache_write
    if size <= 0:
        return usage.total_tokens
    without_output = usage.total_tokens - usage.output
    return min(size, max(without_output, usage.input)) if without_output > 0 else size


def block_bytes(block: ContentBlock) -> int:
    """Return the bytes that the meter counts for one block."""
    if block.type == "text":
        return byte_length(block.text)
    if block.type == "thinking":
        return byte_length(block.thinking)
    if block.tool_call is not None:
        return byte_length(block.tool_call.name) + byte_length(block.tool_call.args)
    return IMAGE_BYTES if block.type == "image" else 0


def prompt_tokens(text: str) -> int:
    """Return the tokens of a prompt's text: bytes / 4, or 1.5 a character where most are wide.

    Scripts such as Chinese take more than a token for each character, which bytes / 4 would understate.

    >>> prompt_tokens("abcdefgh"), prompt_tokens("日本日本")
    (2, 6)
    """
    size = byte_length(text)
    return (3 * len(text) + 1) // 2 if size > 2 * len(text) else (size + 3) // BYTES_PER_TOKEN


def byte_length(text: str) -> int:
    """Return the length of *text* in UTF-8 bytes; a lone surrogate counts three.

    >>> byte_length("日本")
    6
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def first_bytes(text: str, limit: int) -> str:
    """Return the longest beginning of *text* that has at most *limit* bytes and whole characters.

    >>> first_bytes("日本", 5)
    '日'
    """
    if limit <= 0:
        return ""
    if len(text) <= limit and byte_length(text) <= limit:
        return text
    return text[:limit].encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def shorten(text: str, limit: int) -> str:
    """Return *text*, or its first ``limit - 3`` bytes and ``...`` when it is longer.

    >>> shorten("abcdefgh", 6)
    'abc...'
    """
    if len(text) <= limit and byte_length(text) <= limit:
        return text
    return first_bytes(text, limit - 3) + "..."


def clip_middle(text: str, limit: int) -> str:
    """Return *text* within *limit* bytes: three quarters from its beginning, the rest from its end.

    A visible marker between them gives the number of missing characters. Where not even the marker fits,
    only the beginning is left.

    >>> clip_middle("a" * 100, 60)
    'aaaaaaaaaaaaaaaaaaa\\n[... 75 characters left out ...]\\naaaaaa'
    """
    if len(text) <= limit and byte_length(text) <= limit:
        return text
    marker = "\n[... {} characters left out ...]\n"
    room = limit - byte_length(marker.format(len(text)))
    if room <= 0:
        return first_bytes(text, limit)
    head, tail_room = first_bytes(text, room - room // 4), room // 4
    tail = text[len(text) - tail_room :].encode("utf-8", "replace")
    ending = tail[len(tail) - tail_room :].decode("utf-8", "ignore")
    return head + marker.format(len(text) - len(head) - len(ending)) + ending
