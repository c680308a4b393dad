"""The engine that never compacts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.window.engines.contract import (
    CommittingEngine,
    CompactionRequest,
    EngineDeps,
    EngineInput,
    EngineMarks,
    FreshFile,
)

_REASON = "this session's engine does not compact"


class NoEngine(CommittingEngine):
    """Leaves every conversation as it is."""

    name: ClassVar[str] = "none"
    marks: ClassVar[EngineMarks] = EngineMarks()
    compacts = False

    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return a gate that is never over."""
        window = given.card.context_window if given.card else 0
        return Gate(given.context_tokens, window, window, over=False)

    def plan(
        self,
        given: EngineInput,
        request: CompactionRequest,
        fresh: Mapping[str, FreshFile] | None = None,
    ) -> NoOp:
        """Return why nothing would be done."""
        return NoOp(_REASON)

    async def compact(self, given: EngineInput, request: CompactionRequest, deps: EngineDeps) -> NoOp:
        """Return why nothing is done."""
        return NoOp(_REASON)
