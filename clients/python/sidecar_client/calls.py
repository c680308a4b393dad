"""The daemon's methods as typed Python methods, and the synchronisation of open buffers.

A method has the parameters and the result of its row in the protocol's method table. Sending is left to
the class that inherits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeAlias, TypeVar

from sidecar.protocol import messages as m
from sidecar.protocol.messages import ContextUsage, Plan
from sidecar.protocol.methods import METHODS

P = ParamSpec("P")
R = TypeVar("R")

FileChange: TypeAlias = Literal["created", "changed", "deleted"]
_CHANGE_NUMBERS: Final[dict[FileChange, int]] = {"created": 1, "changed": 2, "deleted": 3}


def _method(
    name: str, params: Callable[P, object], result: type[R]
) -> Callable[Concatenate[Calls, P], Coroutine[Any, Any, R]]:
    """Return the client method of *name*; its arguments are the fields of *params*."""

    async def call(client: Calls, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await client.call(name, params(*args, **kwargs), result)

    call.__doc__ = METHODS[name].doc
    return call


class Calls:
    """Typed requests; every field of the params is an argument of the method, with the same default."""

    async def call(self, method: str, params: object, result: type[R]) -> R:
        """Send a request and return its result.

        Args:
            method: the name of the method.
            params: one of the protocol's messages.
            result: the type of the answer.
        """
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


def uri_of(file: str | Path) -> str:
    """Return the URI of *file*: a Path is made absolute, a string is one already.

    >>> uri_of("file:///project/a.py")
    'file:///project/a.py'
    """
    return file if isinstance(file, str) else file.absolute().as_uri()


class DocumentSync:
    """The text synchronisation of LSP, with its versions: an open buffer counts before the disk."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}

    async def notify(self, method: str, params: Any) -> None:
        """Send one notification."""
        raise NotImplementedError

    async def did_open(self, file: str | Path, text: str, language_id: str = "plaintext") -> None:
        """Open a buffer.

        Args:
            file: its path or URI.
            text: its content, unsaved or not.
            language_id: the language, in the words of LSP.
        """
        uri = uri_of(file)
        self._versions[uri] = 1
        document = {"uri": uri, "languageId": language_id, "version": 1, "text": text}
        await self.notify("textDocument/didOpen", {"textDocument": document})

    async def did_change(self, file: str | Path, change: str | Sequence[Mapping[str, Any]]) -> None:
        """Change a buffer: to the whole new text, or by LSP's ``contentChanges``."""
        uri = uri_of(file)
        version = self._versions[uri] = self._versions.get(uri, 0) + 1
        changes = [{"text": change}] if isinstance(change, str) else list(change)
        document = {"uri": uri, "version": version}
        await self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    async def did_save(self, file: str | Path) -> None:
        """Report that the buffer was saved."""
        await self.notify("textDocument/didSave", {"textDocument": {"uri": uri_of(file)}})

    async def did_close(self, file: str | Path) -> None:
        """Close a buffer; from now on the disk counts."""
        uri = uri_of(file)
        self._versions.pop(uri, None)
        await self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    async def did_change_watched_files(self, changes: Iterable[tuple[str | Path, FileChange]]) -> None:
        """Report changes of files on disk."""
        listed = [{"uri": uri_of(file), "type": _CHANGE_NUMBERS[change]} for file, change in changes]
        await self.notify("workspace/didChangeWatchedFiles", {"changes": listed})
