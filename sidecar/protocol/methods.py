"""THE method table: what a client may ask, with which params, for which result.

Dispatch, schema, types and the reference are made from it; nothing about a method is said twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sidecar.conductor.contract import ContextUsage, Plan
from sidecar.protocol import messages as m

__all__ = ["METHODS", "Method", "Scope"]

Scope: TypeAlias = Literal["daemon", "session"]
"""What a request is ordered with: those of one session run in the order they came."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table. *doc* is one sentence; *since* is the protocol number that brought it."""

    name: str
    params: type[Any]
    result: type[Any]
    scope: Scope
    doc: str
    since: int = 1


_ROWS = (
    Method("sidecar/status", m.Empty, m.StatusResult, "daemon", "Tell how the daemon is."),
    Method("sidecar/session/new", m.SessionNewParams, m.SessionNewResult, "daemon", "Start a session."),
    Method(
        "sidecar/session/load", m.SessionLoadParams, m.SessionLoadResult, "session", "Load a stored session."
    ),
    Method("sidecar/session/list", m.SessionListParams, m.SessionListResult, "daemon", "List the sessions."),
    Method(
        "sidecar/session/read",
        m.SessionReadParams,
        m.SessionReadResult,
        "session",
        "Read a session's nodes without loading or locking it.",
    ),
    Method("sidecar/session/close", m.SidParams, m.Empty, "session", "Close a session; it stays stored."),
    Method(
        "sidecar/turn/start",
        m.TurnParams,
        m.TurnStartResult,
        "session",
        "Send a prompt; events tell the rest.",
    ),
    Method(
        "sidecar/turn/run", m.TurnParams, m.TurnRunResult, "session", "Send a prompt and wait for its end."
    ),
    Method("sidecar/turn/interrupt", m.InterruptParams, m.InterruptResult, "session", "Stop a turn."),
    Method(
        "sidecar/context/usage", m.ContextUsageParams, ContextUsage, "session", "Tell how full the window is."
    ),
    Method(
        "sidecar/context/files",
        m.SidParams,
        m.ContextFilesResult,
        "session",
        "List the files the model has read.",
    ),
    Method(
        "sidecar/compact/preview",
        m.CompactPreviewParams,
        Plan,
        "session",
        "Tell what a compaction would do, without a model call.",
    ),
    Method("sidecar/compact/start", m.CompactStartParams, m.CompactStartResult, "session", "Compact."),
    Method("sidecar/compact/cancel", m.CompactCancelParams, m.CancelResult, "session", "Stop a compaction."),
    Method(
        "sidecar/compact/undo", m.CompactUndoParams, m.CompactUndoResult, "session", "Take a compaction back."
    ),
    Method("sidecar/compact/list", m.SidParams, m.CompactListResult, "session", "List the compactions."),
    Method(
        "sidecar/compact/read",
        m.CompactReadParams,
        m.CompactReadResult,
        "session",
        "Read one part of a compaction.",
    ),
)

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}
