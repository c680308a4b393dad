"""What a reader found wrong with a session, and a conversation made whole again.

A report says what was mended and what could not be; it never holds content of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sidecar.llmgateway.contract import AssistantTurn, Turn
from sidecar.runtime.wire import is_blank, pair_results

__all__ = ["HEALED", "Integrity", "heal"]

HEALED: Final = "calls without results, results without calls or empty answers were put in order"
"""How a report says that :func:`heal` had something to do."""


@dataclass(frozen=True, slots=True)
class Integrity:
    """What a reader found: *repaired* was mended, *missing* could not be. Lines count from 1."""

    repaired: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there was nothing to report."""
        return not self.repaired and not self.missing


def heal(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return *turns* such that a provider accepts them: every call with exactly one result, right after it.

    A call that was never answered gets an error result that says so; results without a call, and blank
    assistant turns, are dropped. What is whole stays the object it is, so healing twice changes nothing.

    >>> from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock, ToolTurn
    >>> heal([AssistantTurn((ToolCallBlock("c1", "read", {}),))])[1].blocks[0].is_error
    True
    >>> heal([ToolTurn((ToolResultBlock("c1", "ok"),)), AssistantTurn(())])
    ()
    """
    healed: list[Turn] = []
    segment: list[Turn] = []
    for turn in turns:
        if is_blank(turn):
            continue
        if isinstance(turn, AssistantTurn):
            healed.extend(pair_results(segment))
            segment = []
        segment.append(turn)
    return (*healed, *pair_results(segment))
