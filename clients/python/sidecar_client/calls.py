"""The daemon's methods, a line each: what may be said, and what comes back, is the row of the method table.

Nothing is sent here; whoever inherits says how.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from sidecar.protocol import messages as m
from sidecar.protocol.messages import ContextUsage, Plan
from sidecar.protocol.methods import METHODS

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
    schema = _method("sidecar/schema", m.SchemaParams, m.SchemaResult)
    log_tail = _method("sidecar/log/tail", m.LogTailParams, m.LogTailResult)
    trace_set = _method("sidecar/trace/set", m.TraceSetParams, m.TraceSetResult)
    attach = _method("sidecar/attach", m.AttachParams, m.AttachResult)
    detach = _method("sidecar/detach", m.SidParams, m.Empty)
    session_new = _method("sidecar/session/new", m.SessionNewParams, m.SessionNewResult)
    session_load = _method("sidecar/session/load", m.SessionLoadParams, m.SessionLoadResult)
    session_list = _method("sidecar/session/list", m.SessionListParams, m.SessionListResult)
    session_read = _method("sidecar/session/read", m.SessionReadParams, m.SessionReadResult)
    session_tree = _method("sidecar/session/tree", m.SidParams, m.SessionTreeResult)
    session_fork = _method("sidecar/session/fork", m.SessionForkParams, m.SessionNewResult)
    session_rewind = _method("sidecar/session/rewind", m.SessionRewindParams, m.SessionRewindResult)
    session_rename = _method("sidecar/session/rename", m.SessionRenameParams, m.Empty)
    session_archive = _method("sidecar/session/archive", m.SidParams, m.Empty)
    session_unarchive = _method("sidecar/session/unarchive", m.SidParams, m.Empty)
    session_delete = _method("sidecar/session/delete", m.SidParams, m.Empty)
    session_close = _method("sidecar/session/close", m.SidParams, m.Empty)
    session_export = _method("sidecar/session/export", m.SessionExportParams, m.SessionExportResult)
    session_set_config_option = _method(
        "sidecar/session/setConfigOption", m.SetConfigOptionParams, m.SetConfigOptionResult
    )
    turn_start = _method("sidecar/turn/start", m.TurnParams, m.TurnStartResult)
    turn_run = _method("sidecar/turn/run", m.TurnParams, m.TurnRunResult)
    turn_steer = _method("sidecar/turn/steer", m.TurnSteerParams, m.TurnSteerResult)
    turn_interrupt = _method("sidecar/turn/interrupt", m.InterruptParams, m.InterruptResult)
    queue_list = _method("sidecar/queue/list", m.SidParams, m.QueueResult)
    queue_edit = _method("sidecar/queue/edit", m.QueueEditParams, m.QueueResult)
    queue_remove = _method("sidecar/queue/remove", m.QueueRemoveParams, m.QueueResult)
    context_usage = _method("sidecar/context/usage", m.ContextUsageParams, ContextUsage)
    context_files = _method("sidecar/context/files", m.SidParams, m.ContextFilesResult)
    context_drop = _method("sidecar/context/drop", m.ContextDropParams, m.ContextDropResult)
    rehydrate_preview = _method("sidecar/rehydrate/preview", m.RehydrateParams, m.RehydratePreviewResult)
    rehydrate_run = _method("sidecar/rehydrate/run", m.RehydrateParams, m.RehydrateRunResult)
    fs_watch = _method("sidecar/fs/watch", m.FsWatchParams, m.FsWatchResult)
    fs_unwatch = _method("sidecar/fs/unwatch", m.FsUnwatchParams, m.Empty)
    compact_preview = _method("sidecar/compact/preview", m.CompactPreviewParams, Plan)
    compact_compare = _method("sidecar/compact/compare", m.CompactCompareParams, m.CompactCompareResult)
    compact_start = _method("sidecar/compact/start", m.CompactStartParams, m.CompactStartResult)
    compact_cancel = _method("sidecar/compact/cancel", m.CompactCancelParams, m.CancelResult)
    compact_undo = _method("sidecar/compact/undo", m.CompactUndoParams, m.CompactUndoResult)
    compact_list = _method("sidecar/compact/list", m.SidParams, m.CompactListResult)
    compact_read = _method("sidecar/compact/read", m.CompactReadParams, m.CompactReadResult)
