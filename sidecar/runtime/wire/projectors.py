"""The table of what a model is shown of each kind of turn (R21).

A projector looks at one turn alone and leaves the history as it is. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias

from sidecar.llmgateway.contract import (
    Block,
    CommandBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)
from sidecar.runtime.wire.pairing import says_something

__all__ = ["PROJECTORS", "Projector"]

Projector: TypeAlias = Callable[[Turn], Turn | None]
"""Shows one turn to the model: the turn itself where nothing is left out, None where nothing is left."""


def _project_given(turn: Turn) -> Turn | None:
    """What was given to the model: all but host commands and calls, which only a model makes."""
    return _keeping(turn, lambda block: not isinstance(block, CommandBlock | ToolCallBlock))


def _project_said(turn: Turn) -> Turn | None:
    """What the model said: all but host commands, results, and prose that providers refuse as empty.

    A turn that was broken off while the model still thought has nothing that a provider accepts by itself.
    """
    shown = _keeping(
        turn, lambda block: not isinstance(block, CommandBlock | ToolResultBlock) and says_something(block)
    )
    if shown is None or all(isinstance(block, ThinkingBlock) for block in shown.blocks):
        return None
    return shown


def _keeping(turn: Turn, shows: Callable[[Block], bool]) -> Turn | None:
    if turn.blocks and all(map(shows, turn.blocks)):
        return turn
    blocks = tuple(filter(shows, turn.blocks))
    return replace(turn, blocks=blocks) if blocks else None


PROJECTORS: Final[Mapping[str, Projector]] = MappingProxyType(
    {"user": _project_given, "assistant": _project_said, "tool": _project_given}
)
"""One projector for each role; a turn of any other role is not sent."""
