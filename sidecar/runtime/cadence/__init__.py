"""The pure core of a run: a state machine as data, and the folds it stands on."""

from sidecar.runtime.cadence.reducer import FAULTING, IGNORED, TRANSITIONS, Step, cadence, start_tools
from sidecar.runtime.cadence.run_messages import (
    UNPARSED,
    Draft,
    RunMessages,
    add_usage,
    fold_all,
    fold_blocks,
    fold_turn,
    seal_tool_args,
    tool_calls_of,
)
from sidecar.runtime.cadence.steps import StepFn, Transition, initial_snapshot, replace_history

__all__ = [
    "FAULTING",
    "IGNORED",
    "TRANSITIONS",
    "UNPARSED",
    "Draft",
    "RunMessages",
    "Step",
    "StepFn",
    "Transition",
    "add_usage",
    "cadence",
    "fold_all",
    "fold_blocks",
    "fold_turn",
    "initial_snapshot",
    "replace_history",
    "seal_tool_args",
    "start_tools",
    "tool_calls_of",
]
