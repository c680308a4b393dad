"""The engine that never compacts."""

from __future__ import annotations

from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.engines.base import CompactAsk, EngineDeps, EngineInput, WholeView

__all__ = ["NoEngine"]

_REASON = "this session's engine does not compact"


class NoEngine(WholeView):
    """Leaves every conversation as it is."""

    name = "none"
    compacts = False

    def gate(self, given: EngineInput, ask: CompactAsk) -> Gate:
        """Return a gate that is never over."""
        window = given.card.context_window if given.card else 0
        return Gate(given.context_tokens, window, window, over=False)

    def plan(self, given: EngineInput, ask: CompactAsk) -> NoOp:
        """Return why nothing would be done."""
        return NoOp(_REASON)

    async def condense(self, given: EngineInput, ask: CompactAsk, deps: EngineDeps) -> NoOp:
        """Return why nothing is done."""
        return NoOp(_REASON)
