"""THE method table: what a client may ask, and what the daemon says and asks by itself.

Dispatch, schema, types and the reference are made from it; nothing about a message is said twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from sidecar.conductor.contract import ContextUsage, PermissionAnswer, PermissionRequest, Plan
from sidecar.conductor.events import Payload
from sidecar.protocol import messages as m

__all__ = ["CLIENT_REQUESTS", "EVENTS", "METHODS", "NOTIFICATIONS", "Method", "Notice", "Scope"]

Scope: TypeAlias = Literal["daemon", "session", "exclusive"]
"""How a request is ordered.

Those of the daemon begin at once. Those of a session begin, and take effect, in the order they came; while an
exclusive one is at work, such as a load, the later ones of its session wait until it is answered.
"""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table.

    *doc* is one sentence; *capability* is what the other side must have declared, None for nothing; *since*
    is the protocol number that brought it.
    """

    name: str
    params: type[Any]
    result: type[Any]
    scope: Scope
    doc: str
    capability: str | None = None
    since: int = 1


@dataclass(frozen=True, slots=True)
class Notice:
    """One notification of the daemon's."""

    name: str
    params: type[Any]
    doc: str
    since: int = 1


_DAEMON: Final = (
    Method("sidecar/status", m.Empty, m.StatusResult, "daemon", "Tell how the daemon is."),
    Method("sidecar/schema", m.SchemaParams, m.SchemaResult, "daemon", "Describe this protocol."),
    Method("sidecar/log/tail", m.LogTailParams, m.LogTailResult, "daemon", "Read the daemon's log."),
    Method(
        "sidecar/trace/set",
        m.TraceSetParams,
        m.TraceSetResult,
        "daemon",
        "Write down what passes between daemon and clients, without what it is about.",
    ),
    Method("sidecar/attach", m.AttachParams, m.AttachResult, "session", "Follow a session that is loaded."),
    Method("sidecar/detach", m.SidParams, m.Empty, "session", "Follow a session no longer."),
)

_SESSION: Final = (
    Method("sidecar/session/new", m.SessionNewParams, m.SessionNewResult, "daemon", "Start a session."),
    Method(
        "sidecar/session/load",
        m.SessionLoadParams,
        m.SessionLoadResult,
        "exclusive",
        "Load a stored session.",
    ),
    Method("sidecar/session/list", m.SessionListParams, m.SessionListResult, "daemon", "List the sessions."),
    Method(
        "sidecar/session/read",
        m.SessionReadParams,
        m.SessionReadResult,
        "session",
        "Read a session's nodes without loading or locking it.",
    ),
    Method(
        "sidecar/session/tree",
        m.SidParams,
        m.SessionTreeResult,
        "session",
        "Show every branch of a session, without loading or locking it.",
    ),
    Method(
        "sidecar/session/fork",
        m.SessionForkParams,
        m.SessionNewResult,
        "session",
        "Start a session with the turns of another.",
    ),
    Method(
        "sidecar/session/rewind",
        m.SessionRewindParams,
        m.SessionRewindResult,
        "session",
        "Move the end of the conversation; nothing is deleted.",
    ),
    Method("sidecar/session/rename", m.SessionRenameParams, m.Empty, "exclusive", "Give a session a title."),
    Method("sidecar/session/archive", m.SidParams, m.Empty, "exclusive", "Leave a session out of lists."),
    Method("sidecar/session/unarchive", m.SidParams, m.Empty, "exclusive", "Put it into lists again."),
    Method("sidecar/session/delete", m.SidParams, m.Empty, "exclusive", "Remove a session for good."),
    Method("sidecar/session/close", m.SidParams, m.Empty, "exclusive", "Close a session; it stays stored."),
    Method(
        "sidecar/session/export",
        m.SessionExportParams,
        m.SessionExportResult,
        "session",
        "Return a conversation as text, or write it to a file.",
    ),
    Method(
        "sidecar/session/setConfigOption",
        m.SetConfigOptionParams,
        m.SetConfigOptionResult,
        "exclusive",
        "Set one knob of a session.",
    ),
)

_TURN: Final = (
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
    Method(
        "sidecar/turn/steer",
        m.TurnSteerParams,
        m.TurnSteerResult,
        "session",
        "Say something to the turn that runs.",
    ),
    Method("sidecar/turn/interrupt", m.InterruptParams, m.InterruptResult, "session", "Stop a turn."),
    Method("sidecar/queue/list", m.SidParams, m.QueueResult, "session", "List the prompts that wait."),
    Method("sidecar/queue/edit", m.QueueEditParams, m.QueueResult, "session", "Change a prompt that waits."),
    Method("sidecar/queue/remove", m.QueueRemoveParams, m.QueueResult, "session", "Take a prompt out."),
)

_CONTEXT: Final = (
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
        "sidecar/context/drop",
        m.ContextDropParams,
        m.ContextDropResult,
        "session",
        "Go on without some nodes of the conversation.",
    ),
    Method(
        "sidecar/rehydrate/preview",
        m.RehydrateParams,
        m.RehydratePreviewResult,
        "session",
        "Tell what sidecar/rehydrate/run would put before the model.",
    ),
    Method(
        "sidecar/rehydrate/run",
        m.RehydrateParams,
        m.RehydrateRunResult,
        "session",
        "Put files before the model's eyes again, as they are now.",
    ),
    Method("sidecar/fs/watch", m.FsWatchParams, m.FsWatchResult, "session", "Hear of files that change."),
    Method("sidecar/fs/unwatch", m.FsUnwatchParams, m.Empty, "daemon", "Hear of them no longer."),
)

_COMPACT: Final = (
    Method(
        "sidecar/compact/preview",
        m.CompactPreviewParams,
        Plan,
        "session",
        "Tell what a compaction would do, without a model call.",
    ),
    Method(
        "sidecar/compact/compare",
        m.CompactCompareParams,
        m.CompactCompareResult,
        "session",
        "Tell what several engines would do, side by side.",
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

METHODS: Final[dict[str, Method]] = {
    row.name: row for row in (*_DAEMON, *_SESSION, *_TURN, *_CONTEXT, *_COMPACT)
}
"""What a client may ask of the daemon."""

CLIENT_REQUESTS: Final[dict[str, Method]] = {
    row.name: row
    for row in (
        Method(
            "sidecar/permission/request",
            PermissionRequest,
            PermissionAnswer,
            "session",
            "Ask the user; no answer means no.",
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
"""What the daemon asks of a client that has declared the capability."""

NOTIFICATIONS: Final[dict[str, Notice]] = {
    row.name: row
    for row in (
        Notice("sidecar/event", m.EventNotification, "Something happened in a session."),
        Notice("sidecar/gap", m.GapNotification, "Some events will not come."),
        Notice(
            "sidecar/sessions/changed", m.SessionsChangedNotification, "The list of sessions has changed."
        ),
        Notice("sidecar/permission/resolved", m.PermissionResolvedNotification, "A question is over."),
        Notice("sidecar/fs/changed", m.FsChangedNotification, "Watched files may have changed."),
        Notice("sidecar/closing", m.ClosingNotification, "The daemon is about to end."),
    )
}
"""What the daemon says by itself."""

EVENTS: Final[dict[str, type[Any]]] = {payload.kind: payload for payload in get_args(Payload)}
"""What an event carries, by its kind."""
