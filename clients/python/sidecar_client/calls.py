"""The daemon's methods as typed Python methods.

A method has the parameters and the result of its row in the protocol's method table. Sending is left to
the class that inherits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from sidecar.protocol import messages as m
from sidecar.protocol.messages import ContextUsage, Plan
from sidecar.protocol.methods import METHODS

P = ParamSpec("P")
R = TypeVar("R")


class _Method(Generic[P, R]):
    """A method of the protocol as an attribute of a client; its arguments are the fields of *params*.

    Args:
        name: its name on the wire.
        params: makes its params.
        result: the type of its answer.
    """

    def __init__(self, name: str, params: Callable[P, object], result: type[R]) -> None:
        self._name = name
        self._params = params
        self._result = result
        self.__doc__ = METHODS[name].doc

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: AsyncCalls, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, client: BlockingCalls, owner: type) -> Callable[P, R]: ...

    def __get__(self, client: AsyncCalls | BlockingCalls | None, owner: type) -> Any:
        if client is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.call(self._name, self._params(*args, **kwargs), self._result)

        call.__doc__ = self.__doc__
        return call


class _Calls:
    """The methods of the protocol. Each field of the params is an argument, with the same default."""

    status = _Method("sidecar/status", m.Empty, m.StatusResult)
    schema = _Method("sidecar/schema", m.SchemaParams, m.SchemaResult)
    log_tail = _Method("sidecar/log/tail", m.LogTailParams, m.LogTailResult)
    trace_set = _Method("sidecar/trace/set", m.TraceSetParams, m.TraceSetResult)
    attach = _Method("sidecar/attach", m.AttachParams, m.AttachResult)
    detach = _Method("sidecar/detach", m.SidParams, m.Empty)
    session_new = _Method("sidecar/session/new", m.SessionNewParams, m.SessionNewResult)
    session_load = _Method("sidecar/session/load", m.SessionLoadParams, m.SessionLoadResult)
    session_list = _Method("sidecar/session/list", m.SessionListParams, m.SessionListResult)
    session_read = _Method("sidecar/session/read", m.SessionReadParams, m.SessionReadResult)
    session_tree = _Method("sidecar/session/tree", m.SidParams, m.SessionTreeResult)
    session_fork = _Method("sidecar/session/fork", m.SessionForkParams, m.SessionNewResult)
    session_rewind = _Method("sidecar/session/rewind", m.SessionRewindParams, m.SessionRewindResult)
    session_rename = _Method("sidecar/session/rename", m.SessionRenameParams, m.SeqResult)
    session_archive = _Method("sidecar/session/archive", m.SidParams, m.SeqResult)
    session_unarchive = _Method("sidecar/session/unarchive", m.SidParams, m.SeqResult)
    session_delete = _Method("sidecar/session/delete", m.SessionDeleteParams, m.Empty)
    session_close = _Method("sidecar/session/close", m.SidParams, m.SeqResult)
    session_export = _Method("sidecar/session/export", m.SessionExportParams, m.SessionExportResult)
    session_import = _Method("sidecar/session/import", m.SessionImportParams, m.SessionImportResult)
    session_set_config_option = _Method(
        "sidecar/session/setConfigOption", m.SetConfigOptionParams, m.SetConfigOptionResult
    )
    turn_start = _Method("sidecar/turn/start", m.TurnParams, m.TurnStartResult)
    turn_run = _Method("sidecar/turn/run", m.TurnParams, m.TurnRunResult)
    turn_steer = _Method("sidecar/turn/steer", m.TurnSteerParams, m.TurnSteerResult)
    turn_interrupt = _Method("sidecar/turn/interrupt", m.InterruptParams, m.InterruptResult)
    queue_list = _Method("sidecar/queue/list", m.SidParams, m.QueueResult)
    queue_edit = _Method("sidecar/queue/edit", m.QueueEditParams, m.QueueResult)
    queue_remove = _Method("sidecar/queue/remove", m.QueueRemoveParams, m.QueueResult)
    context_usage = _Method("sidecar/context/usage", m.ContextUsageParams, ContextUsage)
    context_files = _Method("sidecar/context/files", m.SidParams, m.ContextFilesResult)
    context_drop = _Method("sidecar/context/drop", m.ContextDropParams, m.ContextDropResult)
    context_expand = _Method("sidecar/context/expand", m.ContextExpandParams, m.ContextExpandResult)
    context_pin = _Method("sidecar/context/pin", m.ContextPinParams, m.ContextPinResult)
    rehydrate_preview = _Method("sidecar/rehydrate/preview", m.RehydrateParams, m.RehydratePreviewResult)
    rehydrate_run = _Method("sidecar/rehydrate/run", m.RehydrateParams, m.RehydrateRunResult)
    fs_watch = _Method("sidecar/fs/watch", m.FsWatchParams, m.FsWatchResult)
    fs_unwatch = _Method("sidecar/fs/unwatch", m.FsUnwatchParams, m.Empty)
    compact_preview = _Method("sidecar/compact/preview", m.CompactPreviewParams, Plan)
    compact_compare = _Method("sidecar/compact/compare", m.CompactCompareParams, m.CompactCompareResult)
    compact_start = _Method("sidecar/compact/start", m.CompactStartParams, m.CompactStartResult)
    compact_cancel = _Method("sidecar/compact/cancel", m.CompactCancelParams, m.CancelResult)
    compact_undo = _Method("sidecar/compact/undo", m.CompactUndoParams, m.CompactUndoResult)
    compact_list = _Method("sidecar/compact/list", m.SidParams, m.CompactListResult)
    rule_list = _Method("sidecar/rule/list", m.RuleListParams, m.RuleListResult)
    rule_add = _Method("sidecar/rule/add", m.RuleAddParams, m.RuleResult)
    rule_remove = _Method("sidecar/rule/remove", m.RuleRemoveParams, m.RuleResult)
    rule_keep = _Method("sidecar/rule/keep", m.RuleKeepParams, m.RuleDecisionResult)
    rule_dismiss = _Method("sidecar/rule/dismiss", m.RuleDismissParams, m.RuleDecisionResult)
    checkpoint_list = _Method("sidecar/checkpoint/list", m.SidParams, m.CheckpointListResult)
    checkpoint_diff = _Method("sidecar/checkpoint/diff", m.CheckpointDiffParams, m.CheckpointDiffResult)
    checkpoint_restore = _Method(
        "sidecar/checkpoint/restore", m.CheckpointRestoreParams, m.CheckpointRestoreResult
    )
    model_list = _Method("sidecar/model/list", m.SidParams, m.ModelListResult)
    permission_rules = _Method("sidecar/permission/rules", m.PermissionRulesParams, m.PermissionRulesResult)
    extension_list = _Method("sidecar/extension/list", m.SidParams, m.ExtensionListResult)
    highlight = _Method("sidecar/highlight", m.HighlightParams, m.HighlightResult)
    complete = _Method("sidecar/complete", m.CompleteParams, m.CompleteResult)
    compact_read = _Method("sidecar/compact/read", m.CompactReadParams, m.CompactReadResult)


class AsyncCalls(_Calls):
    """The methods of the protocol as coroutine functions."""

    async def call(self, method: str, params: object, result: type[R]) -> R:
        """Send a request and return its result.

        Args:
            method: the name of the method.
            params: one of the protocol's messages.
            result: the type of the answer.
        """
        raise NotImplementedError


class BlockingCalls(_Calls):
    """The methods of the protocol as functions that block."""

    def call(self, method: str, params: object, result: type[R]) -> R:
        """Send a request, wait for its result and return it; see :meth:`AsyncCalls.call`."""
        raise NotImplementedError
