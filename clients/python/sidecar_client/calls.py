"""The daemon's methods, a line each: what may be said, and what comes back, is the row of the method table.

Nothing is sent here; whoever inherits says how.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from sidecar.protocol import messages as m
from sidecar.protocol.methods import METHODS
from sidecar.protocol.shapes import ContextUsage, Plan

__all__ = ["Calls"]

P = ParamSpec("P")
R = TypeVar("R")


def _method(
    name: str, params: Callable[P, object], result: type[R]
) -> Callable[Concatenate[Calls, P], Coroutine[Any, Any, R]]:
    """Return the method that takes the fields of *params* and asks for *name*."""

    async def ask(client: Calls, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await client.call(name, params(*args, **kwargs), result)

    ask.__doc__ = METHODS[name].doc
    return ask


class Calls:
    """Typed requests; every field of the params is an argument of the method, with the same default."""

    async def call(self, method: str, params: object, result: type[R]) -> R:
        """Send *params*, one of the protocol's messages, and return the answer as a *result*."""
        raise NotImplementedError

    status = _method("sidecar/status", m.Empty, m.StatusResult)
    session_new = _method("sidecar/session/new", m.SessionNewParams, m.SessionNewResult)
    session_load = _method("sidecar/session/load", m.SessionLoadParams, m.SessionLoadResult)
    session_list = _method("sidecar/session/list", m.SessionListParams, m.SessionListResult)
    session_read = _method("sidecar/session/read", m.SessionReadParams, m.SessionReadResult)
    session_close = _method("sidecar/session/close", m.SidParams, m.Empty)
    turn_start = _method("sidecar/turn/start", m.TurnParams, m.TurnStartResult)
    turn_run = _method("sidecar/turn/run", m.TurnParams, m.TurnRunResult)
    turn_interrupt = _method("sidecar/turn/interrupt", m.InterruptParams, m.InterruptResult)
    context_usage = _method("sidecar/context/usage", m.ContextUsageParams, ContextUsage)
    context_files = _method("sidecar/context/files", m.SidParams, m.ContextFilesResult)
    compact_preview = _method("sidecar/compact/preview", m.CompactPreviewParams, Plan)
    compact_start = _method("sidecar/compact/start", m.CompactStartParams, m.CompactStartResult)
    compact_cancel = _method("sidecar/compact/cancel", m.CompactCancelParams, m.CancelResult)
    compact_undo = _method("sidecar/compact/undo", m.CompactUndoParams, m.CompactUndoResult)
    compact_list = _method("sidecar/compact/list", m.SidParams, m.CompactListResult)
    compact_read = _method("sidecar/compact/read", m.CompactReadParams, m.CompactReadResult)
