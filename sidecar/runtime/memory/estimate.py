"""The token meter of ``runtime.memory``: characters over four, and four tokens a turn (seed 000, M6 to M8).

It leans to the high side and knows no tokenizer. The system prompt and the tools are not its business.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sidecar.llmgateway.contract import (
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)

__all__ = [
    "CHARS_PER_TOKEN",
    "IMAGE_CHARS",
    "TURN_OVERHEAD_TOKENS",
    "estimate_context_tokens",
    "serialized",
    "tokens_of",
    "turn_chars",
]

CHARS_PER_TOKEN: Final = 4
TURN_OVERHEAD_TOKENS: Final = 4

IMAGE_CHARS: Final = 4_800
"""What an image weighs on the live path, in characters: 1,200 tokens, however large its payload (B-R17)."""


def estimate_context_tokens(messages: Sequence[Turn]) -> int:
    """Return about how many tokens *messages* take: one ceiling over all characters, plus 4 a turn (M6).

    >>> from sidecar.llmgateway.contract import UserTurn
    >>> estimate_context_tokens([UserTurn((TextBlock("x" * 4000),))])
    1004
    """
    return tokens_of(sum(map(turn_chars, messages)), len(messages))


def tokens_of(n_chars: int, n_turns: int) -> int:
    """Return the estimate for *n_chars* characters in *n_turns* turns.

    With the sum of :func:`turn_chars` kept up to date a caller has the estimate without counting again.

    >>> tokens_of(4000, 1)
    1004
    """
    return -(-n_chars // CHARS_PER_TOKEN) + TURN_OVERHEAD_TOKENS * n_turns


def turn_chars(turn: Turn, image_chars: int | None = None) -> int:
    """Return the characters of *turn* that count.

    An image counts its base64 payload (M6), or *image_chars* when given. Ids, error flags, signatures and
    command blocks count nothing.

    >>> from sidecar.llmgateway.contract import AssistantTurn
    >>> turn_chars(AssistantTurn((ToolCallBlock("c1", "read", {"path": "a.py"}),)))
    19
    """
    return sum(_block_chars(block, image_chars) for block in turn.blocks)


def _block_chars(block: Block, image_chars: int | None) -> int:
    match block:
        case TextBlock(text=text) | ThinkingBlock(text=text):
            return len(text)
        case ToolCallBlock(name=name, input=value):
            return len(name) + len(serialized(value))
        case ToolResultBlock(output=value):
            return len(serialized(value))
        case ImageBlock(data_base64=payload):
            return len(payload) if image_chars is None else image_chars
        case _:
            return 0


def serialized(value: Any) -> str:
    """Return *value* as text: strings raw, None empty, the rest compact JSON, else ``str`` (M7).

    >>> serialized({"path": "é"}), serialized(None)
    ('{"path":"é"}', '')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return str(value)
