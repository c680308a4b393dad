"""The token meter of ``runtime.memory``, and the text that a distiller reads of a turn.

A history takes a quarter of its characters in tokens, and four tokens a turn:

    tokens = ceil(all characters / 4) + 4 * turns

There is one ceiling over the sum, so a caller that keeps the sum of :func:`turn_chars` up to date has the
estimate without counting again. It leans to the high side and knows no tokenizer. For example, one user turn
of 4000 characters takes 1004 tokens. The system prompt and the tools are the caller's to add.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from sidecar.llmgateway.contract import (
    CommandBlock,
    ImageBlock,
    ModelCard,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)
from sidecar.runtime.contract import CompactionPolicy
from sidecar.text.clip import text_or_json

DEFAULT_POLICY: Final = CompactionPolicy(trigger_ratio=0.8, keep_recent=8)
"""At 80 % of the window, keeping the 8 newest turns."""

CHARS_PER_TOKEN: Final = 4
TURN_OVERHEAD_TOKENS: Final = 4

_FORGED_LINE: Final = re.compile(
    r"(?:\A|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))"
    r"(?=(?:user|assistant|tool):\s*?(?:\n|\Z)|tool_(?:call|result) )",
    re.IGNORECASE,
)
"""A line in a text that reads like the beginning of a turn or of another block."""

IMAGE_CHARS: Final = 4_800
"""The weight of an image on the live path, in characters: 1,200 tokens, however large its payload."""


def estimate_context_tokens(messages: Sequence[Turn]) -> int:
    """Return about how many tokens *messages* take; an image counts its payload.

    >>> from sidecar.llmgateway.contract import UserTurn
    >>> estimate_context_tokens([UserTurn((TextBlock("x" * 4000),))])
    1004
    """
    return tokens_of(sum(map(turn_chars, messages)), len(messages))


def live_tokens(messages: Sequence[Turn]) -> int:
    """Return the estimate of *messages* with every image at 1,200 tokens."""
    return tokens_of(sum(turn_chars(turn, IMAGE_CHARS) for turn in messages), len(messages))


def is_due(tokens: int, model: ModelCard, cfg: CompactionPolicy | None = None) -> bool:
    """Whether *tokens* reach ``trigger_ratio`` of the window; never for a window of 0 or less."""
    ratio = (cfg or DEFAULT_POLICY).trigger_ratio
    return model.context_window > 0 and tokens >= model.context_window * ratio


def tokens_of(n_chars: int, n_turns: int) -> int:
    """Return the estimate for *n_chars* characters in *n_turns* turns.

    >>> tokens_of(4000, 1)
    1004
    """
    return -(-n_chars // CHARS_PER_TOKEN) + TURN_OVERHEAD_TOKENS * n_turns


def turn_chars(turn: Turn, image_chars: int | None = None) -> int:
    """Return the characters of *turn* that count.

    An image counts its base64 payload, or *image_chars* when given. Ids, error flags, signatures and command
    blocks count nothing.

    >>> from sidecar.llmgateway.contract import AssistantTurn
    >>> turn_chars(AssistantTurn((ToolCallBlock("c1", "read", {"path": "a.py"}),)))
    19
    """
    n_chars = 0
    for block in turn.blocks:
        match block:
            case TextBlock(text=text) | ThinkingBlock(text=text):
                n_chars += len(text)
            case ToolCallBlock(name=name, input=value):
                n_chars += len(name) + len(serialize(value))
            case ToolResultBlock(output=value):
                n_chars += len(serialize(value))
            case ImageBlock(data_base64=payload):
                n_chars += len(payload) if image_chars is None else image_chars
            case CommandBlock():
                continue
    return n_chars


def serialize(value: Any) -> str:
    """Return *value* as text: strings raw, None empty, the rest compact JSON, else ``str``.

    >>> serialize({"path": "é"}), serialize(None)
    ('{"path":"é"}', '')
    """
    return "" if value is None else text_or_json(value)


def render_turn(turn: Turn) -> str:
    """Return *turn* as its role line and one line or more a block; blocks without content are left out.

    A line in a block that reads like a role or like another block is indented, so that the output of a tool
    cannot pass for the words of the user.

    >>> from sidecar.llmgateway.contract import ToolTurn
    >>> render_turn(ToolTurn((ToolResultBlock("c1", "no such file", is_error=True),)))
    'tool:\\ntool_result (error) -> no such file'
    """
    lines = [f"{turn.role}:\n"]
    for block in turn.blocks:
        match block:
            case TextBlock(text=text) | ThinkingBlock(text=text):
                lines.append(_FORGED_LINE.sub(" ", text))
            case ToolCallBlock(name=name, input=value):
                lines.append(f"tool_call {name}({_FORGED_LINE.sub(' ', serialize(value))})")
            case ToolResultBlock(output=value, is_error=is_error):
                body = _FORGED_LINE.sub(" ", serialize(value))
                lines.append(f"tool_result{' (error)' if is_error else ''} -> {body}")
            case ImageBlock(media_type=media_type):
                lines.append(f"[image {media_type}]")
            case CommandBlock(command=command, args=args):
                lines.append(" ".join(("command", command, *(args or ()))))
    return lines[0] + "\n".join(filter(None, lines[1:]))
