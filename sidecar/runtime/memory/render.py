"""A history as the text a distiller reads (M11): role lines, prose, calls, results. It cuts nothing.

Beyond M11, failed results keep their flag and host commands are shown (B-R16).
"""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.llmgateway.contract import (
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)
from sidecar.runtime.memory.estimate import serialized

__all__ = ["render_turn", "render_turns"]


def render_turns(messages: Iterable[Turn]) -> str:
    """Return the transcript of *messages*: turns in order, with a blank line between them."""
    return "\n\n".join(map(render_turn, messages))


def render_turn(turn: Turn) -> str:
    """Return *turn* as its role line and one line or more a block; blocks without content are left out.

    >>> from sidecar.llmgateway.contract import ToolTurn
    >>> render_turn(ToolTurn((ToolResultBlock("c1", "no such file", is_error=True),)))
    'tool:\\ntool_result (error) -> no such file'
    """
    return f"{turn.role}:\n" + "\n".join(filter(None, map(_render, turn.blocks)))


def _render(block: Block) -> str:
    match block:
        case TextBlock(text=text) | ThinkingBlock(text=text):
            return text
        case ToolCallBlock(name=name, input=value):
            return f"tool_call {name}({serialized(value)})"
        case ToolResultBlock(output=value, is_error=is_error):
            return f"tool_result{' (error)' if is_error else ''} -> {serialized(value)}"
        case ImageBlock(media_type=media_type):
            return f"[image {media_type}]"
        case CommandBlock(command=command, args=args):
            return " ".join(("command", command, *(args or ())))
