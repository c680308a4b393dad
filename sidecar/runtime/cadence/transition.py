"""What one step of a run comes to, and the first state of all. Values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sidecar.llmgateway.contract import Usage
from sidecar.runtime.contract import Effect, RunSnapshot, Signal

__all__ = ["StepFn", "Transition", "initial_snapshot"]


@dataclass(frozen=True, slots=True)
class Transition:
    """The state after a step, and the effects it asks for, in order."""

    state: RunSnapshot
    effects: tuple[Effect, ...] = ()


StepFn: TypeAlias = Callable[[RunSnapshot, Signal], Transition]
"""One step of a run. Contract: pure; never raises; the same state object back when nothing changes."""


def initial_snapshot(session_id: str, model: str, *, run_id: str | None = None) -> RunSnapshot:
    """Return the state of a run that has not begun; *run_id* is the session's id unless given.

    >>> initial_snapshot(session_id="s1", model="mock-1").phase
    'idle'
    """
    return RunSnapshot(
        run_id=run_id or session_id,
        session_id=session_id,
        phase="idle",
        messages=(),
        pending=(),
        usage_total=Usage(0, 0),
        model=model,
    )
