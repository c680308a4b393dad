"""The pure core of a run: a state machine as data, and the folds it stands on (seed 002)."""

from sidecar.runtime.cadence.draft import Draft
from sidecar.runtime.cadence.fold import (
    add_usage,
    fold_all,
    fold_blocks,
    fold_turn,
    seal_tool_args,
    tool_calls_of,
)
from sidecar.runtime.cadence.moves import ask_about
from sidecar.runtime.cadence.reducer import FAULTING, IGNORED, TRANSITIONS, Step, cadence, start_tools
from sidecar.runtime.cadence.transcript import Transcript
from sidecar.runtime.cadence.transition import StepFn, Transition, initial_snapshot

__all__ = [
    "FAULTING",
    "IGNORED",
    "TRANSITIONS",
    "Draft",
    "Step",
    "StepFn",
    "Transcript",
    "Transition",
    "add_usage",
    "ask_about",
    "cadence",
    "fold_all",
    "fold_blocks",
    "fold_turn",
    "initial_snapshot",
    "seal_tool_args",
    "start_tools",
    "tool_calls_of",
]
