"""What a message costs, in tokens: a transparent weighting of its characters, no tokenizer.

    cost = ceil(characters / 3.6) + framing + 1024 * images

The figure leans high on prose, so that the gate opens a little early. These weights belong to this engine
alone; ``runtime.memory``, ``rooms.memory`` and ``agentcore`` have their own. Seed 001, facts W1 to W4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import accumulate
from math import ceil
from typing import TypeAlias, assert_never

from sidecar.llmgateway.contract import Block, ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from sidecar.window_budget.message import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Content,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    calls_of,
)
from sidecar.window_budget.text import compact_json

__all__ = [
    "BLOCK_FRAMING_TOKENS",
    "CHARS_PER_TOKEN",
    "IMAGE_TOKENS",
    "MESSAGE_FRAMING_TOKENS",
    "TOOLCALL_ENVELOPE_TOKENS",
    "chars_in",
    "estimate_message_tokens",
    "estimate_tokens",
    "prefix_tokens",
    "tokens_of_chars",
]

CHARS_PER_TOKEN = 3.6
IMAGE_TOKENS = 1024
MESSAGE_FRAMING_TOKENS = 4
BLOCK_FRAMING_TOKENS = 2
TOOLCALL_ENVELOPE_TOKENS = 6

_Weight: TypeAlias = tuple[int, int, int]
"""Characters, framing tokens, images."""


def estimate_message_tokens(message: Message) -> int:
    """Return what *message* costs, in tokens.

    >>> from sidecar.window_budget.message import UserMessage
    >>> estimate_message_tokens(UserMessage("hello  \\r\\nworld \\n"))
    11
    """
    chars, framing, images = _weigh(message)
    return tokens_of_chars(chars) + MESSAGE_FRAMING_TOKENS + framing + IMAGE_TOKENS * images


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Return what *messages* cost together, in tokens; 0 for none.

    >>> estimate_tokens([])
    0
    """
    return sum(map(estimate_message_tokens, messages))


def prefix_tokens(messages: Sequence[Message]) -> tuple[int, ...]:
    """Return the tokens before each message, ascending, n + 1 long; the last is the total.

    >>> from sidecar.window_budget.message import UserMessage
    >>> prefix_tokens([UserMessage("a"), UserMessage("b")])
    (0, 7, 14)
    """
    return tuple(accumulate(map(estimate_message_tokens, messages), initial=0))


def tokens_of_chars(chars: int) -> int:
    """Return what *chars* characters of text cost, without any framing."""
    return ceil(chars / CHARS_PER_TOKEN)


def chars_in(tokens: int) -> int:
    """Return how many characters of text *tokens* tokens hold at most; 0 for a negative figure.

    >>> chars_in(10), tokens_of_chars(chars_in(10))
    (36, 10)
    """
    return max(0, int(tokens * CHARS_PER_TOKEN))


def _weigh(message: Message) -> _Weight:
    match message:
        case UserMessage(content=content) | CustomMessage(content=content):
            return _weigh_content(content)
        case AssistantMessage(content=content, error_message=error):
            chars, framing, images = _weigh_content(content)
            n_calls = sum(1 for _ in calls_of(message))
            return chars + len(error or ""), framing + TOOLCALL_ENVELOPE_TOKENS * n_calls, images
        case ToolResultMessage(tool_name=name, content=content):
            chars, framing, images = _weigh_content(content)
            return chars + len(name), framing + TOOLCALL_ENVELOPE_TOKENS, images
        case BashExecutionMessage(command=command, output=output):
            return len(command) + len(output), BLOCK_FRAMING_TOKENS, 0
        case BranchSummaryMessage(summary=summary) | CompactionSummaryMessage(summary=summary):
            return len(summary), BLOCK_FRAMING_TOKENS, 0
        case _:
            assert_never(message)


def _weigh_content(content: Content) -> _Weight:
    blocks = blocks_of(content)
    chars = images = 0
    for block in blocks:
        if isinstance(block, ImageBlock):
            images += 1
        else:
            chars += _block_chars(block)
    return chars, BLOCK_FRAMING_TOKENS * len(blocks), images


def _block_chars(block: Block) -> int:
    if isinstance(block, TextBlock | ThinkingBlock):
        return len(block.text)
    if isinstance(block, ToolCallBlock):
        # A call without arguments is free of them: JSON null stands for "none were given" (W3).
        return len(block.name) + (0 if block.input is None else len(compact_json(block.input)))
    return len(compact_json({item.name: getattr(block, item.name) for item in fields(block)}))
