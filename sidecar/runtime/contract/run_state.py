"""The state of a run: phase, messages, pending tools, usage, error (facts 1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sidecar.llmgateway.contract import StopReason, Turn, Usage

__all__ = ["PendingTool", "RunError", "RunErrorKind", "RunPhase", "RunSnapshot", "ToolStage", "run_error"]

RunPhase: TypeAlias = Literal[
    "idle", "invoking", "streaming", "dispatching", "compacting", "settled", "faulted"
]
RunErrorKind: TypeAlias = Literal[
    "model_failed", "tool_failed", "aborted", "compaction_failed", "turn_budget", "invalid_state"
]
ToolStage: TypeAlias = Literal["queued", "running", "done"]


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run faulted; *cause* is the exception or value behind it, for logs and never for the wire."""

    kind: RunErrorKind
    message: str
    cause: Any = None


def run_error(kind: RunErrorKind, message: str, cause: Any = None) -> RunError:
    """Return a :class:`RunError`; the spelling of the seeds."""
    return RunError(kind, message, cause)


@dataclass(frozen=True, slots=True)
class PendingTool:
    """One tool call of the current round that the model waits for."""

    id: str
    name: str
    stage: ToolStage


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """One run at one moment; never mutated.

    ``messages`` is an immutable sequence that compares equal to a tuple of the same turns. ``stop`` is
    why the newest model call ended, None while it streams: a reply cut at its output limit settles
    with ``max_output`` in sight. ``call_usage`` is what the newest model call reported so far, and is part
    of ``usage_total``. ``queued`` are submits that wait for the next safe step, the oldest first.
    """

    run_id: str
    session_id: str
    phase: RunPhase
    messages: Sequence[Turn]
    pending: tuple[PendingTool, ...]
    usage_total: Usage
    model: str
    error: RunError | None = None
    stop: StopReason | None = None
    call_usage: Usage | None = None
    queued: tuple[tuple[Turn, ...], ...] = ()
