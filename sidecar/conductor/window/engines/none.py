"""The engine that never compacts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.engine import (
    CompactionRequest,
    EngineInput,
    SessionEngine,
)
from sidecar.conversation import Entry

_REASON = "this session's engine does not compact"


class NoEngine(SessionEngine):
    """Leaves every conversation as it is."""

    name: ClassVar[str] = "none"
    compacts: ClassVar[bool] = False
    writes: ClassVar[bool] = False

    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return a gate that is never over."""
        return Gate(given.context_tokens, given.window, given.window, over=False)

    def plan(self, given: EngineInput, request: CompactionRequest) -> NoOp:
        """Return why nothing would be done."""
        return NoOp(_REASON)

    def weigh(self, entries: Sequence[Entry]) -> int:
        """Return 0: this engine counts nothing."""
        return 0
