"""THE method table: the requests of a client, and the requests and notifications of the daemon.

Dispatch, schema, types and the reference are made from it, so that every fact about a message stands once.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from sidecar.conductor.contract import ContextUsage, PermissionAnswer, PermissionRequest, Plan
from sidecar.conductor.events import Payload
from sidecar.protocol import messages as m

Scope: TypeAlias = Literal["daemon", "session", "exclusive"]
"""The order of a request.

A request of the daemon begins at once. Requests of a session begin and take effect in the order of their
arrival; while an exclusive one is at work, such as a load, later requests of its session wait until it is
answered.
"""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table; *doc* is one sentence, *since* the protocol number that brought the method.

    *capability* is one that the other side must have declared, None for none. *errors* are the kinds of
    errors besides the common ones and ``sessionNotFound``.
    """

    name: str
    params: type[Any]
    result: type[Any]
    scope: Scope
    doc: str
    _: KW_ONLY
    capability: str | None = None
    errors: tuple[str, ...] = ()
    since: int = 1


@dataclass(frozen=True, slots=True)
class ServerNotification:
    """One notification of the daemon."""

    name: str
    params: type[Any]
    doc: str
    since: int = 1


_STORES: Final = ("storeUnavailable",)
_MOVES: Final = ("headMoved", "busy", *_STORES)

_DAEMON: Final = (
    Method("sidecar/status", m.Empty, m.StatusResult, "daemon", "Return the state of the daemon."),
    Method(
        "sidecar/schema", m.SchemaParams, m.SchemaResult, "daemon", "Return the description of this protocol."
    ),
    Method(
        "sidecar/log/tail", m.LogTailParams, m.LogTailResult, "daemon", "Return lines of the daemon's log."
    ),
    Method(
        "sidecar/trace/set",
        m.TraceSetParams,
        m.TraceSetResult,
        "daemon",
        "Start or stop a trace of all messages, with their content redacted.",
    ),
    Method("sidecar/attach", m.AttachParams, m.AttachResult, "session", "Follow a loaded session."),
    Method("sidecar/detach", m.SidParams, m.Empty, "session", "Stop following a session."),
)

_SESSION: Final = (
    Method(
        "sidecar/session/new",
        m.SessionNewParams,
        m.SessionNewResult,
        "daemon",
        "Start a session.",
        errors=("modelNotFound", *_STORES),
    ),
    Method(
        "sidecar/session/load",
        m.SessionLoadParams,
        m.SessionLoadResult,
        "exclusive",
        "Load a stored session and follow it.",
        errors=("busy", "modelNotFound", *_STORES),
    ),
    Method(
        "sidecar/session/list",
        m.SessionListParams,
        m.SessionListResult,
        "daemon",
        "List the stored sessions.",
    ),
    Method(
        "sidecar/session/read",
        m.SessionReadParams,
        m.SessionReadResult,
        "session",
        "Read the nodes of a session without loading or locking it.",
        errors=("compactionNotFound", *_STORES),
    ),
    Method(
        "sidecar/session/tree",
        m.SidParams,
        m.SessionTreeResult,
        "session",
        "Return all branches of a session without loading or locking it.",
        errors=_STORES,
    ),
    Method(
        "sidecar/session/fork",
        m.SessionForkParams,
        m.SessionNewResult,
        "session",
        "Start a session with the turns of another one.",
        errors=("nodeNotFound", *_STORES),
    ),
    Method(
        "sidecar/session/rewind",
        m.SessionRewindParams,
        m.SessionRewindResult,
        "session",
        "Move the end of the conversation to another node; nothing is deleted.",
        errors=("nodeNotFound", *_MOVES),
    ),
    Method(
        "sidecar/session/rename",
        m.SessionRenameParams,
        m.Empty,
        "exclusive",
        "Give a session a title.",
        errors=_STORES,
    ),
    Method(
        "sidecar/session/archive",
        m.SidParams,
        m.Empty,
        "exclusive",
        "Leave a session out of the list.",
        errors=_STORES,
    ),
    Method(
        "sidecar/session/unarchive",
        m.SidParams,
        m.Empty,
        "exclusive",
        "Put an archived session into the list again.",
        errors=_STORES,
    ),
    Method(
        "sidecar/session/delete",
        m.SidParams,
        m.Empty,
        "exclusive",
        "Delete a session and its files.",
        errors=("busy", *_STORES),
    ),
    Method(
        "sidecar/session/close",
        m.SidParams,
        m.Empty,
        "exclusive",
        "Close a session; it stays stored.",
        errors=_STORES,
    ),
    Method(
        "sidecar/session/export",
        m.SessionExportParams,
        m.SessionExportResult,
        "session",
        "Return a conversation as text, or write it to a file.",
        errors=("compactionNotFound", *_STORES),
    ),
    Method(
        "sidecar/import/list",
        m.ImportListParams,
        m.ImportListResult,
        "daemon",
        "List the sessions of other agents on this machine.",
        errors=_STORES,
    ),
    Method(
        "sidecar/session/import",
        m.SessionImportParams,
        m.SessionImportResult,
        "daemon",
        "Import a session of another agent.",
        errors=("fileProblem", "modelNotFound", *_STORES),
    ),
    Method(
        "sidecar/session/setConfigOption",
        m.SetConfigOptionParams,
        m.SetConfigOptionResult,
        "exclusive",
        "Set one option of a session.",
        errors=("modelNotFound", *_STORES),
    ),
)

_TURN: Final = (
    Method(
        "sidecar/turn/start",
        m.TurnParams,
        m.TurnStartResult,
        "session",
        "Send a prompt; events report the rest.",
        errors=("notSteerable", *_MOVES),
    ),
    Method(
        "sidecar/turn/run",
        m.TurnParams,
        m.TurnRunResult,
        "session",
        "Send a prompt and wait for the end of its turn.",
        errors=(
            "notSteerable",
            "modelFailed",
            "authRequired",
            "toolFailed",
            "compactionFailed",
            "turnBudget",
            "invalidState",
            *_MOVES,
        ),
    ),
    Method(
        "sidecar/turn/steer",
        m.TurnSteerParams,
        m.TurnSteerResult,
        "session",
        "Add content to the running turn.",
        errors=("notSteerable",),
    ),
    Method("sidecar/turn/interrupt", m.InterruptParams, m.InterruptResult, "session", "Stop a turn."),
    Method("sidecar/queue/list", m.SidParams, m.QueueResult, "session", "List the waiting prompts."),
    Method(
        "sidecar/queue/edit",
        m.QueueEditParams,
        m.QueueResult,
        "session",
        "Change a waiting prompt.",
        errors=("itemNotFound",),
    ),
    Method(
        "sidecar/queue/remove",
        m.QueueRemoveParams,
        m.QueueResult,
        "session",
        "Remove a waiting prompt.",
        errors=("itemNotFound",),
    ),
)

_CONTEXT: Final = (
    Method(
        "sidecar/context/usage",
        m.ContextUsageParams,
        ContextUsage,
        "session",
        "Measure the context of a session.",
    ),
    Method(
        "sidecar/context/files",
        m.SidParams,
        m.ContextFilesResult,
        "session",
        "List the files that the model has read.",
    ),
    Method(
        "sidecar/context/drop",
        m.ContextDropParams,
        m.ContextDropResult,
        "session",
        "Leave nodes out of the conversation; a rewind brings them back.",
        errors=("nodeNotFound", *_MOVES),
    ),
    Method(
        "sidecar/rehydrate/preview",
        m.RehydrateParams,
        m.RehydratePreviewResult,
        "session",
        "List the files that `sidecar/rehydrate/run` would restore.",
        errors=("fileProblem",),
    ),
    Method(
        "sidecar/rehydrate/run",
        m.RehydrateParams,
        m.RehydrateRunResult,
        "session",
        "Add files to the conversation again, with their present content.",
        errors=("busy", "fileProblem", *_STORES),
    ),
    Method(
        "sidecar/fs/watch",
        m.FsWatchParams,
        m.FsWatchResult,
        "session",
        "Watch files of a session for changes.",
    ),
    Method("sidecar/fs/unwatch", m.FsUnwatchParams, m.Empty, "daemon", "End a watch."),
)

_COMPACT: Final = (
    Method(
        "sidecar/compact/preview",
        m.CompactPreviewParams,
        Plan,
        "session",
        "Plan a compaction without calling a model.",
    ),
    Method(
        "sidecar/compact/compare",
        m.CompactCompareParams,
        m.CompactCompareResult,
        "session",
        "Plan a compaction with several engines, without calling a model.",
    ),
    Method(
        "sidecar/compact/start",
        m.CompactStartParams,
        m.CompactStartResult,
        "session",
        "Compact the conversation.",
        errors=_MOVES,
    ),
    Method(
        "sidecar/compact/cancel",
        m.CompactCancelParams,
        m.CancelResult,
        "session",
        "Stop a compaction.",
        errors=("compactionNotFound",),
    ),
    Method(
        "sidecar/compact/undo",
        m.CompactUndoParams,
        m.CompactUndoResult,
        "session",
        "Restore the conversation as it was before a compaction.",
        errors=("compactionNotFound", "wouldExceedWindow", "invalidState", *_MOVES),
    ),
    Method(
        "sidecar/compact/list",
        m.SidParams,
        m.CompactListResult,
        "session",
        "List the compactions of a session.",
    ),
    Method(
        "sidecar/compact/read",
        m.CompactReadParams,
        m.CompactReadResult,
        "session",
        "Read the summary of a compaction, or the turns that it replaced.",
        errors=("compactionNotFound",),
    ),
)

METHODS: Final[dict[str, Method]] = {
    row.name: row for row in (*_DAEMON, *_SESSION, *_TURN, *_CONTEXT, *_COMPACT)
}
"""The requests of a client, by method."""

CLIENT_REQUESTS: Final[dict[str, Method]] = {
    row.name: row
    for row in (
        Method(
            "sidecar/permission/request",
            PermissionRequest,
            PermissionAnswer,
            "session",
            "Ask the user for permission; no answer means no.",
            capability="permission",
        ),
        Method(
            "sidecar/edit/apply",
            m.EditApplyParams,
            m.EditApplyResult,
            "daemon",
            "Change open buffers.",
            capability="edits",
        ),
    )
}
"""The requests of the daemon to a client that has declared the capability."""

NOTIFICATIONS: Final[dict[str, ServerNotification]] = {
    row.name: row
    for row in (
        ServerNotification("sidecar/event", m.EventNotification, "Report one event of a session."),
        ServerNotification("sidecar/gap", m.GapNotification, "Report events that this client will not get."),
        ServerNotification(
            "sidecar/sessions/changed",
            m.SessionsChangedNotification,
            "Report that the list of sessions has changed.",
        ),
        ServerNotification(
            "sidecar/permission/resolved",
            m.PermissionResolvedNotification,
            "Report that a question to the user is over.",
        ),
        ServerNotification(
            "sidecar/fs/changed", m.FsChangedNotification, "Report watched files that may have changed."
        ),
        ServerNotification("sidecar/closing", m.ClosingNotification, "Announce the end of the daemon."),
    )
}
"""The notifications of the daemon, by method."""

EVENTS: Final[dict[str, type[Any]]] = {payload.kind: payload for payload in get_args(Payload)}
"""The shape of the data of an event, by its kind."""
