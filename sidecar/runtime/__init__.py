"""The engine of one conversation, from a prompt to settlement.

``cadence`` here is the function; ``from sidecar.runtime.cadence import fold_turn`` finds the package of that
name. The agent is loaded when first used, so that the contract can be had without an event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sidecar.runtime.cadence import StepFn, Transition, cadence, initial_snapshot
from sidecar.runtime.contract import (
    AgentConfig,
    CompactionPolicy,
    ModelInvoker,
    PendingTool,
    RunError,
    RunErrorKind,
    RunEvent,
    RunPhase,
    RunSnapshot,
    ToolBox,
    ToolCall,
    ToolOutcome,
    ToolRunner,
    run_error,
)

if TYPE_CHECKING:
    from sidecar.runtime.conductor import Agent, AgentDeps, AgentEventHandler, create_agent

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentDeps",
    "AgentEventHandler",
    "CompactionPolicy",
    "ModelInvoker",
    "PendingTool",
    "RunError",
    "RunErrorKind",
    "RunEvent",
    "RunPhase",
    "RunSnapshot",
    "StepFn",
    "ToolBox",
    "ToolCall",
    "ToolOutcome",
    "ToolRunner",
    "Transition",
    "cadence",
    "create_agent",
    "initial_snapshot",
    "run_error",
    "step",
]

step = cadence


def __getattr__(name: str) -> Any:
    if name in {"Agent", "AgentDeps", "AgentEventHandler", "create_agent"}:
        return getattr(import_module("sidecar.runtime.conductor"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
