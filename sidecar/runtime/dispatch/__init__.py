"""Rounds of tool calls: bounded, cancellable, each call with exactly one outcome."""

from sidecar._internal.async_cancel import run_until_cancelled
from sidecar.runtime.dispatch.function_tools import FunctionTools, ToolFunction
from sidecar.runtime.dispatch.scheduler import (
    DEFAULT_CONCURRENCY,
    DEFAULT_GRACE_S,
    Scheduler,
    create_scheduler,
)

__all__ = [
    "DEFAULT_CONCURRENCY",
    "DEFAULT_GRACE_S",
    "FunctionTools",
    "Scheduler",
    "ToolFunction",
    "create_scheduler",
    "run_until_cancelled",
]
