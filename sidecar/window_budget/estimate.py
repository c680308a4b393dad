"""The token estimate of this engine, and the budget that it is held against.

No tokenizer is asked: a message costs a transparent weighting of its characters.

    cost = ceil(characters / 3.6) + framing + 1024 * images

Framing is 4 tokens a message, 2 a block and 6 a tool call or result. The figure leans high on prose, so that
a compaction comes a little early rather than late. Estimates add up: a transcript costs the sum of its
messages, so ``PrefixMeter`` can keep the sum as messages arrive. For example
``UserMessage("hello")`` costs ceil(5 / 3.6) + 4 + 2 = 8 tokens.

These weights belong to this engine alone; ``runtime.memory``, ``rooms.memory`` and ``agentcore`` have theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import accumulate
from math import ceil
from typing import assert_never

from sidecar.llmgateway.contract import ImageBlock, ModelCard, TextBlock, ThinkingBlock, ToolCallBlock
from sidecar.window_budget.contract import BudgetPolicy
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

CHARS_PER_TOKEN = 3.6
IMAGE_TOKENS = 1024
MESSAGE_FRAMING_TOKENS = 4
BLOCK_FRAMING_TOKENS = 2
TOOLCALL_ENVELOPE_TOKENS = 6


def estimate_message_tokens(message: Message) -> int:
    """Return the cost of *message* in tokens.

    >>> from sidecar.window_budget.message import UserMessage
    >>> estimate_message_tokens(UserMessage("hello  \\r\\nworld \\n"))
    11
    """
    match message:
        case UserMessage(content=content) | CustomMessage(content=content):
            chars, framing, images = _weigh_content(content)
        case AssistantMessage(content=content, error_message=error):
            chars, framing, images = _weigh_content(content)
            chars += len(error or "")
            framing += TOOLCALL_ENVELOPE_TOKENS * sum(1 for _ in calls_of(message))
        case ToolResultMessage(tool_name=name, content=content):
            chars, framing, images = _weigh_content(content)
            chars += len(name)
            framing += TOOLCALL_ENVELOPE_TOKENS
        case BashExecutionMessage(command=command, output=output):
            chars, framing, images = len(command) + len(output), BLOCK_FRAMING_TOKENS, 0
        case BranchSummaryMessage(summary=summary) | CompactionSummaryMessage(summary=summary):
            chars, framing, images = len(summary), BLOCK_FRAMING_TOKENS, 0
        case _:
            assert_never(message)
    return tokens_of_chars(chars) + MESSAGE_FRAMING_TOKENS + framing + IMAGE_TOKENS * images


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Return the cost of *messages* together in tokens, 0 for none.

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
    """Return the tokens of *chars* characters of text, without any framing."""
    return ceil(chars / CHARS_PER_TOKEN)


def chars_in(tokens: int) -> int:
    """Return how many characters of text *tokens* tokens hold at most; 0 for a negative figure.

    >>> chars_in(10), tokens_of_chars(chars_in(10))
    (36, 10)
    """
    return max(0, int(tokens * CHARS_PER_TOKEN))


def budget_limit(card: ModelCard, policy: BudgetPolicy) -> float:
    """Return how many tokens may be used before condensing: the window less the reserve, times the ratio.

    A reserve larger than the window gives 0.

    >>> from sidecar.llmgateway.contract import CostSheet
    >>> card = ModelCard("m", "mock", "mock", "M", context_window=200_000, max_output_tokens=1,
    ...                  modalities=("text",), reasoning=False, cost=CostSheet(0, 0))
    >>> budget_limit(card, BudgetPolicy(0.75, 6000, 2048))
    148464.0
    """
    usable = max(0, card.context_window - (policy.reserve_tokens or 0))
    return usable * policy.trigger_ratio


def is_over_budget(messages: Sequence[Message], card: ModelCard, policy: BudgetPolicy) -> bool:
    """Return whether *messages* are over budget.

    Args:
        messages: the transcript.
        card: the model, with its window.
        policy: its share of the window and reserve.

    Returns:
        Whether the estimate is strictly above :func:`budget_limit`.
    """
    return estimate_tokens(messages) > budget_limit(card, policy)


def _weigh_content(content: Content) -> tuple[int, int, int]:
    """Return the characters, framing tokens and images of *content*."""
    blocks = blocks_of(content)
    chars = images = 0
    for block in blocks:
        if isinstance(block, ImageBlock):
            images += 1
        elif isinstance(block, TextBlock | ThinkingBlock):
            chars += len(block.text)
        elif isinstance(block, ToolCallBlock):
            # A call without arguments is free of them: JSON null stands for "none were given".
            chars += len(block.name) + (0 if block.input is None else len(compact_json(block.input)))
        else:
            chars += len(compact_json({item.name: getattr(block, item.name) for item in fields(block)}))
    return chars, BLOCK_FRAMING_TOKENS * len(blocks), images
