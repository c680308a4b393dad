"""Cuts the longest texts of some turns, visibly, so that what alone is too large for a window can be sent.

Calls keep their results, and nothing is left out without a marker. Pure; the turns given stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sidecar.llmgateway.contract import (
    Block,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)
from sidecar.rooms.memory.budget import level_cap, truncate_text
from sidecar.rooms.memory.estimate import CHARS_PER_TOKEN

__all__ = ["shortened"]

_TRIES: Final = 6


def shortened(
    turns: Sequence[Turn], weigh: Callable[[Sequence[Turn]], int], max_tokens: int
) -> tuple[Turn, ...]:
    """Return *turns* with their longest texts cut until *weigh* says that they fit *max_tokens*.

    Prose, unsigned thinking, tool results and the texts among a call's arguments are cut; images and signed
    thinking are not, so that turns full of those may stay too large.

    >>> from sidecar.llmgateway.contract import UserTurn
    >>> said = (UserTurn((TextBlock("x" * 90), TextBlock("short"))),)
    >>> short = shortened(said, lambda turns: sum(len(b.text) // 4 for t in turns for b in t.blocks), 15)
    >>> [block.text for block in short[0].blocks]
    ['xxxxxxxxxxxxxxxxxxxxxxxx\\n[... truncated from 90 chars ...]', 'short']
    """
    sizes = [len(text) for turn in turns for block in turn.blocks for text in _texts(block)]
    shorter, budget = tuple(turns), sum(sizes)
    for _ in range(_TRIES):
        excess = weigh(shorter) - max_tokens
        if excess <= 0 or budget <= 0:
            break
        budget -= excess * CHARS_PER_TOKEN
        cap = level_cap(sizes, max(0, budget))
        shorter = tuple(
            replace(turn, blocks=tuple(_cut(block, cap) for block in turn.blocks)) for turn in turns
        )
    return shorter


def _texts(block: Block) -> Iterator[str]:
    match block:
        case TextBlock(text=text) | ThinkingBlock(text=text, signature=None):
            yield text
        case ToolResultBlock(output=output):
            yield _as_text(output)
        case ToolCallBlock(input=Mapping() as arguments):
            yield from (value for value in arguments.values() if isinstance(value, str))


def _cut(block: Block, cap: int) -> Block:
    match block:
        case TextBlock(text=text) | ThinkingBlock(text=text, signature=None):
            return replace(block, text=_shorter(text, cap))
        case ToolResultBlock(output=output) if len(_as_text(output)) > cap:
            return replace(block, output=_shorter(_as_text(output), cap))
        case ToolCallBlock(input=Mapping() as arguments):
            return replace(block, input={name: _cut_value(value, cap) for name, value in arguments.items()})
    return block


def _cut_value(value: Any, cap: int) -> Any:
    return _shorter(value, cap) if isinstance(value, str) else value


def _shorter(text: str, cap: int) -> str:
    """Return *text* cut to *cap* characters, or as it is where the marker would be the longer of the two."""
    return min(text, truncate_text(text, cap), key=len)


def _as_text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
