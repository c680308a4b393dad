"""THE method table: requests and notifications, of a client and of the daemon.

Dispatch, schema, types and the reference are made from it, so that every fact about a message stands once.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from sidecar._internal.values import Value
from sidecar.conductor.contract import (
    ContextUsage,
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
    Plan,
)
from sidecar.conductor.events import Payload
from sidecar.protocol import messages as m

Scope: TypeAlias = Literal["daemon", "session", "exclusive"]
"""The order of a request.

A request of the daemon begins at once. Requests of a session begin and take effect in the order of their
arrival; while an exclusive one is at work, such as a load, later requests of its session wait until it is
answered.
"""


Access: TypeAlias = Literal["free", "control"]
"""Who may send a request: any client, or one that controls the session, where that is in memory."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table; *doc* is one sentence, *since* the protocol number that brought the method.

    *capability* is one that the other side must have declared, None for none. *errors* are the kinds of
    errors besides the common ones, ``sessionNotFound``, and ``controlRequired`` of *access* ``control``.
    """

    name: str
    params: type[Any]
    result: type[Any]
    scope: Scope
    doc: str
    _: KW_ONLY
    access: Access = "free"
    capability: str | None = None
    errors: tuple[str, ...] = ()
    since: int = 1


class NotificationMethod(Value):
    """One notification, of the daemon or of a client."""

    name: str
    params: type[Any]
    doc: str
    since: int = 1


STORES: Final = ("storeUnavailable", "leaseLost")
MOVES: Final = ("headMoved", "busy", *STORES)

_ROWS: Final = (
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
    Method(
        "sidecar/session/new",
        m.SessionNewParams,
        m.SessionNewResult,
        "daemon",
        "Start a session.",
        errors=("modelNotFound", *STORES),
    ),
    Method(
        "sidecar/session/load",
        m.SessionLoadParams,
        m.SessionLoadResult,
        "exclusive",
        "Load a stored session and follow it.",
        errors=("busy", "modelNotFound", *STORES),
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
        errors=("compactionNotFound", *STORES),
    ),
    Method(
        "sidecar/session/tree",
        m.SidParams,
        m.SessionTreeResult,
        "session",
        "Return all branches of a session without loading or locking it.",
        errors=STORES,
    ),
    Method(
        "sidecar/session/fork",
        m.SessionForkParams,
        m.SessionNewResult,
        "session",
        "Start a session with the turns of another one.",
        errors=("nodeNotFound", *STORES),
    ),
    Method(
        "sidecar/session/rewind",
        m.SessionRewindParams,
        m.SessionRewindResult,
        "session",
        "Move the end of the conversation to another node; nothing is deleted.",
        access="control",
        errors=("nodeNotFound", *MOVES),
    ),
    Method(
        "sidecar/session/rename",
        m.SessionRenameParams,
        m.SeqResult,
        "exclusive",
        "Give a session a title.",
        access="control",
        errors=STORES,
    ),
    Method(
        "sidecar/session/archive",
        m.SidParams,
        m.SeqResult,
        "exclusive",
        "Leave a session out of the list.",
        access="control",
        errors=STORES,
    ),
    Method(
        "sidecar/session/unarchive",
        m.SidParams,
        m.SeqResult,
        "exclusive",
        "Put an archived session into the list again.",
        access="control",
        errors=STORES,
    ),
    Method(
        "sidecar/session/delete",
        m.SessionDeleteParams,
        m.Empty,
        "exclusive",
        "Delete a session and its files.",
        errors=("busy", "controlRequired", *STORES),
    ),
    Method(
        "sidecar/session/close",
        m.SidParams,
        m.SeqResult,
        "exclusive",
        "Close a session; it stays stored.",
        access="control",
        errors=STORES,
    ),
    Method(
        "sidecar/session/export",
        m.SessionExportParams,
        m.SessionExportResult,
        "session",
        "Return a conversation as text, or write it to a file.",
        errors=("compactionNotFound", *STORES),
    ),
    Method(
        "sidecar/session/setConfigOption",
        m.SetConfigOptionParams,
        m.SetConfigOptionResult,
        "exclusive",
        "Set one option of a session.",
        access="control",
        errors=("modelNotFound", *STORES),
    ),
    Method(
        "sidecar/session/import",
        m.SessionImportParams,
        m.SessionImportResult,
        "daemon",
        "Import a session of another agent, or list those on this machine.",
        errors=("fileProblem", "modelNotFound", *STORES),
    ),
    Method(
        "sidecar/turn/start",
        m.TurnParams,
        m.TurnStartResult,
        "session",
        "Send a prompt; events report the rest.",
        access="control",
        errors=("notSteerable", *MOVES),
    ),
    Method(
        "sidecar/turn/run",
        m.TurnParams,
        m.TurnRunResult,
        "session",
        "Send a prompt and wait for the end of its turn.",
        access="control",
        errors=(
            "notSteerable",
            "modelFailed",
            "authRequired",
            "turnBudget",
            "invalidState",
            *MOVES,
        ),
    ),
    Method(
        "sidecar/turn/steer",
        m.TurnSteerParams,
        m.TurnSteerResult,
        "session",
        "Add content to the running turn.",
        access="control",
        errors=("notSteerable",),
    ),
    Method(
        "sidecar/turn/interrupt",
        m.InterruptParams,
        m.InterruptResult,
        "session",
        "Stop a turn.",
        access="control",
    ),
    Method("sidecar/queue/list", m.SidParams, m.QueueResult, "session", "List the waiting prompts."),
    Method(
        "sidecar/queue/edit",
        m.QueueEditParams,
        m.QueueResult,
        "session",
        "Change a waiting prompt.",
        access="control",
        errors=("itemNotFound",),
    ),
    Method(
        "sidecar/queue/remove",
        m.QueueRemoveParams,
        m.QueueResult,
        "session",
        "Remove a waiting prompt.",
        access="control",
        errors=("itemNotFound",),
    ),
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
        access="control",
        errors=("nodeNotFound", *MOVES),
    ),
    Method(
        "sidecar/context/pin",
        m.ContextPinParams,
        m.ContextPinResult,
        "session",
        "Pin a passage, which the model sees word for word in each request, or take a pin away.",
        errors=("nodeNotFound", "controlRequired", *STORES),
    ),
    Method(
        "sidecar/context/expand",
        m.ContextExpandParams,
        m.ContextExpandResult,
        "session",
        "Let the model see the turns behind a summary again, all of them or some.",
        access="control",
        errors=("compactionNotFound", "nodeNotFound", "wouldExceedWindow", "invalidState", *MOVES),
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
        access="control",
        errors=("busy", "fileProblem", *STORES),
    ),
    Method(
        "sidecar/fs/watch",
        m.FsWatchParams,
        m.FsWatchResult,
        "session",
        "Watch files of a session for changes.",
    ),
    Method("sidecar/fs/unwatch", m.FsUnwatchParams, m.Empty, "daemon", "End a watch."),
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
        "exclusive",
        "Compact the conversation.",
        access="control",
        errors=MOVES,
    ),
    Method(
        "sidecar/compact/cancel",
        m.CompactCancelParams,
        m.CancelResult,
        "session",
        "Stop a compaction.",
        access="control",
        errors=("compactionNotFound",),
    ),
    Method(
        "sidecar/compact/undo",
        m.CompactUndoParams,
        m.CompactUndoResult,
        "session",
        "Restore the conversation as it was before a compaction.",
        access="control",
        errors=("compactionNotFound", "wouldExceedWindow", "invalidState", *MOVES),
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
    Method("sidecar/rule/list", m.RuleListParams, m.RuleListResult, "session", "List the user's rules."),
    Method(
        "sidecar/rule/add",
        m.RuleAddParams,
        m.RuleResult,
        "session",
        "Set a rule that holds until it is taken back.",
        access="control",
        errors=STORES,
    ),
    Method(
        "sidecar/rule/remove",
        m.RuleRemoveParams,
        m.RuleResult,
        "session",
        "Take a rule back.",
        access="control",
        errors=STORES,
    ),
    Method(
        "sidecar/rule/keep",
        m.RuleKeepParams,
        m.RuleDecisionResult,
        "session",
        "Keep a rule that was proposed, or all of them.",
        access="control",
        errors=STORES,
    ),
    Method(
        "sidecar/rule/dismiss",
        m.RuleDismissParams,
        m.RuleDecisionResult,
        "session",
        "Dismiss a rule that was proposed, or all of them.",
        access="control",
        errors=STORES,
    ),
    Method(
        "sidecar/checkpoint/list",
        m.SidParams,
        m.CheckpointListResult,
        "session",
        "List the files that were kept before the session changed them.",
    ),
    Method(
        "sidecar/checkpoint/diff",
        m.CheckpointDiffParams,
        m.CheckpointDiffResult,
        "session",
        "Show the changes of files by the session, which a restore would take back.",
        errors=("nodeNotFound", "compactionNotFound"),
    ),
    Method(
        "sidecar/checkpoint/restore",
        m.CheckpointRestoreParams,
        m.CheckpointRestoreResult,
        "session",
        "Take files back to a checkpoint, except for files that others have changed since.",
        access="control",
        errors=("busy", *STORES),
    ),
    Method(
        "sidecar/complete",
        m.CompleteParams,
        m.CompleteResult,
        "daemon",
        "Complete a slash command, its arguments, or a mention such as `@src/main.py` in a prompt.",
    ),
    Method(
        "sidecar/highlight",
        m.HighlightParams,
        m.HighlightResult,
        "daemon",
        "Return the keywords, strings and other parts of source code that a client colours.",
    ),
    Method(
        "sidecar/model/list",
        m.SidParams,
        m.ModelListResult,
        "session",
        "List the models that a session may choose among, with window, price, and why one cannot be called.",
    ),
    Method(
        "sidecar/permission/rules",
        m.PermissionRulesParams,
        m.PermissionRulesResult,
        "session",
        "List the rules for permissions, say which one answers an action, or change the user's own.",
        errors=("fileProblem", "controlRequired"),
    ),
    Method(
        "sidecar/extension/list",
        m.SidParams,
        m.ExtensionListResult,
        "session",
        "List the commands, skills, hooks and tool servers of a session, and why others are left out.",
    ),
)

METHODS: Final[dict[str, Method]] = {row.name: row for row in _ROWS}
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
            "sidecar/elicit",
            Elicitation,
            ElicitationAnswer,
            "session",
            "Ask the user the questions of a form; the first answer of any client counts.",
            capability="elicitation",
        ),
        Method(
            "sidecar/edit/apply",
            m.EditApplyParams,
            m.EditApplyResult,
            "daemon",
            "Change open buffers.",
            capability="edits",
        ),
        Method(
            "sidecar/editor/query",
            m.EditorQueryParams,
            m.EditorQueryResult,
            "daemon",
            "Ask the language servers of the editor; nothing is changed by it.",
            capability="editor",
        ),
    )
}
"""The requests of the daemon to a client that has declared the capability."""

CLIENT_NOTIFICATIONS: Final[dict[str, NotificationMethod]] = {
    row.name: row
    for row in (
        NotificationMethod(
            "sidecar/editor/context",
            m.EditorContextParams,
            "Report the state of the editor: the active file, the selection, open files, diagnostics.",
        ),
    )
}
"""The notifications of a client, by method."""

NOTIFICATIONS: Final[dict[str, NotificationMethod]] = {
    row.name: row
    for row in (
        NotificationMethod("sidecar/event", m.EventNotification, "Report one event of a session."),
        NotificationMethod("sidecar/gap", m.GapNotification, "Report events that this client will not get."),
        NotificationMethod(
            "sidecar/sessions/changed",
            m.SessionsChangedNotification,
            "Report that the list of sessions has changed.",
        ),
        NotificationMethod(
            "sidecar/permission/resolved",
            m.PermissionResolvedNotification,
            "Report that a question to the user is over.",
        ),
        NotificationMethod(
            "sidecar/elicitResolved", m.ElicitResolvedNotification, "Report that a form is over."
        ),
        NotificationMethod(
            "sidecar/fs/changed", m.FsChangedNotification, "Report watched files that may have changed."
        ),
        NotificationMethod("sidecar/closing", m.ClosingNotification, "Announce the end of the daemon."),
    )
}
"""The notifications of the daemon, by method."""

EVENTS: Final[dict[str, type[Any]]] = {payload.kind: payload for payload in get_args(Payload)}
"""The shape of the data of an event, by its kind."""
