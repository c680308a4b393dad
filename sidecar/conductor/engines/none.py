"""The engine that never compacts."""

from __future__ import annotations

from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.engines.base import CompactAsk, Frame, Helpers, WholeView

__all__ = ["NoEngine"]

_REASON = "this session's engine does not compact"


class NoEngine(WholeView):
    """Leaves every conversation as it is."""

    name = "none"
    compacts = False

    def gate(self, frame: Frame, ask: CompactAsk) -> Gate:
        """Return a gate that is never over."""
        window = frame.card.context_window if frame.card else 0
        return Gate(frame.context_tokens, window, window, over=False)

    def plan(self, frame: Frame, ask: CompactAsk) -> NoOp:
        """Return why nothing would be done."""
        return NoOp(_REASON)

    async def condense(self, frame: Frame, ask: CompactAsk, helpers: Helpers) -> NoOp:
        """Return why nothing is done."""
        return NoOp(_REASON)
