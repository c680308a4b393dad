"""Params and results of the method table in snake_case, by resource; the codec spells them in camelCase.

Shapes only, in the order of the table. The shapes of a session come from :mod:`sidecar.conductor.contract`.
Those in ``__all__`` are for clients, which import the protocol alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import field

from sidecar._internal.values import Value, hide_in_repr
from sidecar.conductor.contract import (
    Compaction,
    CompletionItem,
    ConfigOption,
    ContextFile,
    ContextUsage,
    EditorFile,
    EditorPosition,
    EditorTab,
    Elicitation,
    ElicitationAnswer,
    FactName,
    FactState,
    FileDiagnostics,
    ListedCommand,
    ListedHook,
    ListedServer,
    ListedSkill,
    Loss,
    PermissionAnswer,
    PermissionRequest,
    PermissionRule,
    PermissionVerdict,
    Pin,
    Plan,
    QueueItem,
    ReportedFact,
    RestoredFile,
    SessionRule,
    SessionSnapshot,
    SessionSummary,
)
from sidecar.conductor.workbench.kept_changes import FileCheckpoint, FileDiff, FileRestore
from sidecar.llmgateway.contract import CostBudget
from sidecar.workspace.contract import PositionEncoding, QueryKind

__all__ = [
    "Compaction",
    "ContextFile",
    "ContextUsage",
    "CostBudget",
    "EditorFile",
    "EditorTab",
    "Elicitation",
    "ElicitationAnswer",
    "FileDiagnostics",
    "PermissionAnswer",
    "PermissionRequest",
    "Plan",
    "QueryKind",
]

# Messages that many methods share, and those of ``sidecar/session/*``.


class Empty(Value):
    """No members."""


class SidParams(Value):
    """The session, by its id."""

    sid: str


class SeqResult(Value):
    """The number of the newest event of a session that was changed or closed."""

    seq: int


class NamedValue(Value):
    """An environment variable or a header."""

    name: str
    value: str

    __repr__ = hide_in_repr("value")


class McpServerConfig(Value):
    """A server of the Model Context Protocol; its tools stand beside the daemon's own.

    A server of type ``stdio`` is started as a process and needs *command*: an absolute path, or a program in
    the daemon's path. The other types need *url*; ``sse`` is the older transport over HTTP.
    """

    name: str
    type: Literal["stdio", "http", "sse"] = "stdio"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[NamedValue, ...] = ()
    url: str | None = None
    headers: tuple[NamedValue, ...] = ()

    __repr__ = hide_in_repr("args", "url")


class SessionNewParams(Value):
    """The new session. *cwd* is an absolute folder; *roots* are further folders for the tools.

    *policy* overrides thresholds of the engine: ``triggerRatio``, a share of the window from 0 to 1,
    ``keepRecent``, in tokens and with engine ``runtime`` in turns, and ``reserveTokens``; for
    ``slidingWindow`` also ``maxEvents``; for ``summarizing`` also ``tier1Ratio``, ``tier2Ratio``,
    ``truncateChars``, ``summaryMaxTokens`` and ``minEvents``. Other names are refused.

    *knowledge* names sources that are searched for each prompt: ``workspace`` has the files of the session's
    folders, ``sessions`` the earlier conversations in *cwd*. The *mcp_servers* start in the background; a
    prompt that comes at once waits for them for at most ten seconds. *brief* is a text of at most 20,000
    characters, appended to the system prompt of every call.
    """

    cwd: str
    roots: tuple[str, ...] = ()
    title: str | None = None
    model: str | None = None
    engine: str | None = None
    policy: Mapping[str, float] | None = None
    knowledge: tuple[str, ...] = ()
    ephemeral: bool = False
    parent: str | None = None
    mcp_servers: tuple[McpServerConfig, ...] = ()
    brief: str = ""


class SessionNewResult(Value, kw_only=True):
    """The new session, its options and its usage; its events follow this answer."""

    sid: str
    snapshot: SessionSnapshot
    config_options: tuple[ConfigOption, ...]
    usage: ContextUsage
    seq: int


class SessionLoadParams(SidParams, kw_only=True):
    """The stored session, and the part of its past to send again after the result.

    *cwd* and *roots* replace its folders if it is not in memory yet. *replay* is ``"none"``, ``"full"``,
    ``{"fromSeq": n}`` or ``{"lastTurns": n}``. Behind each turn of a past that was stopped, failed or broke
    off with its daemon comes its ``settled`` or ``faulted``, with the head and the usage of now.
    *mcp_servers* are added to its tool servers. The way to start them is not stored, so a session that was
    not in memory has only the servers of this request. *brief* replaces its text for the system prompt.
    """

    cwd: str | None = None
    roots: tuple[str, ...] | None = None
    replay: Literal["none", "full"] | Mapping[str, int] = "none"
    mcp_servers: tuple[McpServerConfig, ...] | None = None
    brief: str | None = None


class Integrity(Value):
    """The state of the stored files: *repaired* parts were restored, *missing* parts are lost."""

    ok: bool
    repaired: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class SessionLoadResult(Value, kw_only=True):
    """The state of the loaded session."""

    snapshot: SessionSnapshot
    config_options: tuple[ConfigOption, ...]
    usage: ContextUsage
    integrity: Integrity
    seq: int


class SessionListParams(Value):
    """The sessions to list: of folder *cwd*, with *query* in the title, with *content*; each is optional.

    *content* are words that all stand in the conversation, its compacted turns included. *archived* includes
    archived sessions; *cursor* asks for the sessions behind the page that had it. *children* includes the
    sessions of sub-agents, and with *parent* only the sub-agents of that session are listed.
    """

    cwd: str | None = None
    query: str | None = None
    archived: bool = False
    cursor: str | None = None
    limit: int = 50
    content: str | None = None
    children: bool = False
    parent: str | None = None


class SessionListResult(Value):
    """The sessions, newest first; *next_cursor* is absent on the last page."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


class SessionReadParams(Value):
    """The stored session and the view of it to read.

    *view* is ``"active"`` for the current branch, ``"full"`` for all nodes, or ``{"compactionId": id, "at":
    "before"}`` for the branch around a compaction; *at* is ``"before"`` or ``"after"``, and ``"before"`` by
    default. After a compaction that was undone means the conversation as the undo left it.
    """

    sid: str
    view: Literal["active", "full"] | Mapping[str, str] = "active"
    cursor: str | None = None
    limit: int = 200


class NodeView(Value, kw_only=True):
    """One stored turn; *blocks* are its content blocks as JSON."""

    id: str
    parent: str | None
    role: str
    blocks: tuple[Mapping[str, Any], ...]
    created_at: int


class SessionReadResult(Value):
    """The nodes, oldest first; *next_cursor* is absent on the last page."""

    nodes: tuple[NodeView, ...]
    next_cursor: str | None = None


class SessionForkParams(SidParams, kw_only=True):
    """The session to copy, up to *at_node* or up to its head; it need not be loaded.

    *cwd* and *roots* replace its folders, and *brief* its text for the system prompt. Without *mcp_servers*
    the new session takes the servers of a session that is in memory.
    """

    at_node: str | None = None
    title: str | None = None
    cwd: str | None = None
    roots: tuple[str, ...] | None = None
    mcp_servers: tuple[McpServerConfig, ...] | None = None
    brief: str | None = None


class SessionRewindParams(Value):
    """The new end of the conversation: *to_node* on any branch, or null for an empty conversation.

    *expect_head* is the head that the client saw; null accepts any. *files* says whether the files that the
    turns taken back have changed stay or are restored, each unless others have changed it since.
    """

    sid: str
    to_node: str | None
    expect_head: str | None
    files: Literal["keep", "restore"] = "keep"


class SessionRewindResult(Value):
    """The new head and the nodes that left the conversation, which stay stored.

    The head differs from the requested node when a tool call had to be completed with its result.
    *edited_files* are the URIs of the files that those nodes edited. *restored_files* are empty unless the
    request asked for them; a file that it does not name, or with another outcome, stays as it is.
    """

    head: str | None
    undone: tuple[str, ...]
    seq: int
    edited_files: tuple[str, ...] = ()
    restored_files: tuple[FileRestore, ...] = ()


class TreeNode(Value, kw_only=True):
    """One node of a session; *tokens* is an estimate."""

    id: str
    parent: str | None
    kind: Literal["user", "assistant", "tool", "summary", "file", "branch", "shell", "note"]
    tokens: int
    at: int


class SessionTreeResult(Value):
    """The nodes of all branches, oldest first; *leaves* are the last nodes of the branches."""

    nodes: tuple[TreeNode, ...]
    head: str | None
    leaves: tuple[str, ...]


class SessionDeleteParams(Value):
    """The session to delete; *force* is needed for one that another client has open."""

    sid: str
    force: bool = False


class SessionRenameParams(Value):
    """The session and its new title."""

    sid: str
    title: str


class SessionExportParams(Value):
    """The conversation to export: as Markdown, as one node a line, or as one JSON object.

    ``claude-code`` and ``codex`` are the forms of these agents, which can go on with the file. *view* is that
    of ``sidecar/session/read``; for another agent, ``"full"`` is the whole conversation of the current
    branch, with its compactions where they happened. *path* is the absolute path of a new file; without it
    the text is in the result. An existing file is never overwritten.
    """

    sid: str
    format: Literal["markdown", "jsonl", "json", "claude-code", "codex"] = "markdown"
    view: Literal["active", "full"] | Mapping[str, str] = "active"
    path: str | None = None


class SessionExportResult(Value):
    """The text, or the path of the written file."""

    path: str | None = None
    text: str | None = None


class SetConfigOptionParams(Value):
    """The option to set: ``model``, ``engine``, ``knowledge``, ``thinking`` or ``permissions``."""

    sid: str
    config_id: str
    value: str


class SetConfigOptionResult(Value):
    """All options of the session after the change."""

    config_options: tuple[ConfigOption, ...]
    seq: int


# Messages of ``sidecar/turn/*`` and ``sidecar/queue/*``.


class TurnParams(SidParams):
    """The prompt. *input* is a list of content blocks (text, resource_link, resource, image).

    A second request with the *idempotency_key* of an earlier one gets the same answer and starts nothing. On
    the LSP face *work_done_token* gets the progress of the turn, and *partial_result_token* its text as it is
    written, in values ``{turnId, messageId, text}``.

    For this turn alone, *max_model_calls* limits the calls of the model, and *allow* has rules for actions
    that need no question, as the settings have them: ``npm run *``, ``edit: docs/**``. *budget* replaces the
    budget of the session for the same period.
    """

    input: tuple[Mapping[str, Any], ...]
    expect_head: str | None = None
    when_busy: Literal["queue", "steer", "reject"] = "queue"
    idempotency_key: str | None = None
    work_done_token: str | int | None = None
    partial_result_token: str | int | None = None
    max_model_calls: int | None = None
    allow: tuple[str, ...] | None = None
    budget: CostBudget | None = None


class TurnStartResult(Value, kw_only=True):
    """The receipt of a prompt; *position* counts from 1 in the queue."""

    turn_id: str
    user_node_id: str | None
    disposition: Literal["started", "queued", "steered"]
    seq: int
    position: int | None = None


class TurnRunResult(Value, kw_only=True):
    """The end of the turn; *text* is the last answer of the model."""

    turn_id: str
    stop_reason: str
    head: str | None
    usage: ContextUsage
    text: str
    seq: int


class TurnSteerParams(Value):
    """The content blocks to add to the turn *expect_turn_id*, by default to the running one."""

    sid: str
    input: tuple[Mapping[str, Any], ...]
    expect_turn_id: str | None = None


class TurnSteerResult(Value):
    """The receipt: added to that turn, queued behind it, or a turn of its own because that one was over."""

    outcome: Literal["injected", "queued", "startedNewTurn"]
    turn_id: str
    seq: int


class InterruptParams(Value):
    """The turn to stop, by default the running one; *queue* decides about the waiting prompts."""

    sid: str
    turn_id: str | None = None
    queue: Literal["keep", "drop", "return"] = "keep"


class InterruptResult(Value):
    """*accepted* is true when there was such a turn; *returned* has the prompts taken out of the queue."""

    accepted: bool
    seq: int
    returned: tuple[tuple[Mapping[str, Any], ...], ...] | None = None


class QueueEditParams(Value):
    """The waiting prompt and its new content."""

    sid: str
    item_id: str
    input: tuple[Mapping[str, Any], ...]


class QueueRemoveParams(Value):
    """The waiting prompt to remove; its turn ends as cancelled."""

    sid: str
    item_id: str


class QueueResult(Value):
    """The waiting prompts, and the ids of the compactions that wait; the next one first."""

    items: tuple[QueueItem, ...]
    seq: int
    queued_compactions: tuple[str, ...] = ()


# Messages of ``sidecar/compact/*``.


class CompactPreviewParams(SidParams, kw_only=True):
    """The compaction to plan. *mode* ``auto`` plans one only above the threshold, ``force`` always.

    *engine* and *policy* replace the session's own for this plan; *instructions* go to the summarizer.
    """

    engine: str | None = None
    mode: Literal["auto", "force"] = "auto"
    policy: Mapping[str, float] | None = None
    instructions: str | None = None


class CompactCompareParams(Value):
    """The engines to compare; without *engines*, every engine that compacts.

    With *detail* each plan has its prompt and the ids of the nodes that it drops, which grow with the
    conversation; ``sidecar/compact/preview`` always has them.
    """

    sid: str
    engines: tuple[str, ...] | None = None
    mode: Literal["auto", "force"] = "force"
    detail: bool = False


class CompactCompareResult(Value):
    """One plan for each engine, in the order of the request."""

    plans: tuple[Plan, ...]


class CompactStartParams(SidParams, kw_only=True):
    """The compaction to run: the previewed plan *plan_id*, or the one that the other members describe.

    *expect_head* refuses the compaction when the conversation has moved on. *when_busy* says whether to wait
    for the running turn or to refuse. On the LSP face *work_done_token* gets the progress.
    """

    plan_id: str | None = None
    engine: str | None = None
    mode: Literal["auto", "force"] = "force"
    policy: Mapping[str, float] | None = None
    instructions: str | None = None
    expect_head: str | None = None
    when_busy: Literal["afterTurn", "reject"] = "afterTurn"
    work_done_token: str | int | None = None


class CompactStartResult(Value):
    """The receipt of a compaction; its outcome is a ``compaction`` event.

    *disposition* is ``noop`` when there is nothing to compact, and *reason* says why.
    """

    compaction_id: str
    disposition: Literal["started", "queued", "noop"]
    seq: int
    reason: str | None = None


class CompactCancelParams(Value):
    """The running or queued compaction to stop; the conversation stays as it was."""

    sid: str
    compaction_id: str


class CancelResult(Value):
    """*accepted* is false for a compaction that has ended, or is being stored."""

    accepted: bool
    seq: int


class CompactUndoParams(Value):
    """The compaction to take back, the newest one by default.

    *force* takes it back even when the restored conversation does not fit the window. *files* says whether
    the files that turns since the compaction have changed stay or are restored, each unless others have
    changed it since.
    """

    sid: str
    compaction_id: str | None = None
    expect_head: str | None = None
    force: bool = False
    files: Literal["keep", "restore"] = "keep"


class CompactUndoResult(Value):
    """The new head, and the number of tokens that are back in the conversation.

    *edited_files* are the URIs of the files that turns since the compaction edited. *restored_files* are
    empty unless the request asked for them; a file with another outcome stays as it is.
    """

    head: str | None
    restored_tokens: int
    seq: int
    edited_files: tuple[str, ...] = ()
    restored_files: tuple[FileRestore, ...] = ()


class CompactListResult(Value):
    """Every compaction of the session, oldest first, the running one last, and the ids of waiting ones."""

    compactions: tuple[Compaction, ...]
    queued_compactions: tuple[str, ...] = ()


class CompactReadParams(Value):
    """The part of a compaction to read: the summary, the turns that it replaced, or the facts in them.

    The prompt is made again from the stored turns, as the engine is set now. It is empty where no model wrote
    the summary.

    Of the facts, *kinds* and *states* choose some. Facts and turns come in pages: *cursor* asks for the next
    one of at most *limit*, and of at most 1000 in any case.
    """

    sid: str
    compaction_id: str
    part: Literal["summary", "dropped", "prompt", "loss"] = "summary"
    kinds: tuple[FactName, ...] | None = None
    states: tuple[FactState, ...] | None = None
    cursor: str | None = None
    limit: int = 200


class CompactReadResult(Value):
    """The part as text; ``dropped`` has a page of its nodes, ``loss`` one of facts and the counts of all.

    The text of ``dropped`` is the number of all its turns.
    A fact is compared with the view after the compaction, and with the system prompt as it is now.
    *next_cursor* is absent on the last page.
    """

    content: str
    nodes: tuple[NodeView, ...] | None = None
    facts: tuple[ReportedFact, ...] | None = None
    loss: Loss | None = None
    next_cursor: str | None = None


# Messages of ``sidecar/context/*``, ``sidecar/rehydrate/*`` and ``sidecar/fs/*``.


class ContextUsageParams(Value):
    """The session to measure; *detail* adds the origin of the tokens."""

    sid: str
    detail: bool = False


class ContextFilesResult(Value):
    """The files that the model has read."""

    files: tuple[ContextFile, ...]


class ContextDropParams(Value):
    """The nodes to leave out of the conversation; a tool call and its results go together.

    *expect_head* is the head that the client saw; null accepts any.
    """

    sid: str
    node_ids: tuple[str, ...]
    expect_head: str | None


class ContextDropResult(Value):
    """The new head and the dropped nodes; ``sidecar/session/rewind`` to the former head restores them."""

    head: str | None
    dropped: tuple[str, ...]
    tokens_freed: int
    seq: int


class ContextExpandParams(SidParams):
    """The turns behind a summary that the model is to see again, as they were said.

    *compaction_id* names the summary, the one that stands by default. Without nodes all turns come back;
    *node_ids* or a range *from_node* to *to_node* choose some, tool calls with their results.
    """

    compaction_id: str | None = None
    node_ids: tuple[str, ...] = ()
    from_node: str | None = None
    to_node: str | None = None
    expect_head: str | None = None


class ContextExpandResult(Value):
    """The new head, and the number of turns and of tokens that are back.

    ``sidecar/compact/undo`` with *compaction_id* takes the expansion back.
    """

    compaction_id: str
    head: str | None
    expanded: int
    tokens: int
    seq: int


class ContextPinParams(SidParams, kw_only=True):
    """The passage to pin: a fact of a loss report, a node on any branch, or a text; or the pin to take away.

    At most one of them; without any the pins are listed.
    """

    fact_id: str | None = None
    node_id: str | None = None
    text: str | None = None
    unpin: str | None = None


class ContextPinResult(Value):
    """All pins, oldest first, the tokens that they take of the most that they may take, and the added *pin*.

    The model sees a pin from the next request on.
    """

    pins: tuple[Pin, ...]
    tokens: int
    limit_tokens: int
    seq: int
    pin: Pin | None = None


class RehydrateParams(Value):
    """The files to restore: *uris* that the model has read, or all that have changed since.

    *budget* is the most tokens to add. The limit of the engine holds in any case.
    """

    sid: str
    uris: tuple[str, ...] | None = None
    budget: int | None = None


class RehydratePreviewResult(Value):
    """The files that would be restored; *missing* has a reason for each of the others."""

    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...]
    tokens: int


class RehydrateRunResult(Value, kw_only=True):
    """The restored files, added behind the conversation; a rewind removes them again."""

    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...]
    tokens: int
    head: str | None
    seq: int


class FsWatchParams(Value):
    """The files of the session's folders to watch, as globs."""

    sid: str
    globs: tuple[str, ...]


class FsWatchResult(Value):
    """The watch, which sends ``sidecar/fs/changed`` until the session is closed.

    *backend* is ``client``, ``watchfiles`` or ``none``, as in ``sidecar/status``.
    """

    watch_id: str
    backend: str


class FsUnwatchParams(Value):
    """The watch to end; it must belong to this client."""

    watch_id: str


# Messages of ``sidecar/rule/*``.


class RuleListParams(Value):
    """The session; with *all* also the rules that were taken back."""

    sid: str
    all: bool = False


class RuleListResult(Value):
    """The rules of the user, oldest first."""

    rules: tuple[SessionRule, ...]


class RuleAddParams(Value):
    """The rule to set, at most 2,000 characters; the model is told with the next prompt."""

    sid: str
    text: str


class RuleRemoveParams(Value):
    """The rule to take back: its id, or words that only one rule has."""

    sid: str
    rule: str


class RuleKeepParams(Value):
    """The proposed rule to keep: its id, or words that only one has; all proposed rules without *rule*."""

    sid: str
    rule: str | None = None


class RuleDismissParams(Value):
    """The proposed rule to dismiss: its id, or words that only one has; all proposed rules without *rule*."""

    sid: str
    rule: str | None = None


class RuleDecisionResult(Value):
    """The rules that were proposed, as they are now; a ``rulesChanged`` event has all that hold."""

    rules: tuple[SessionRule, ...]
    seq: int


class RuleResult(Value):
    """The rule as it is now; a ``rulesChanged`` event has all that hold."""

    rule: SessionRule
    seq: int


# Messages of ``sidecar/checkpoint/*``.


class CheckpointListResult(Value):
    """The checkpoints, oldest first."""

    checkpoints: tuple[FileCheckpoint, ...]


class CheckpointDiffParams(Value):
    """The changes of files to compare: those since a checkpoint began, or all that the session has made.

    *to_node* asks for the changes that a rewind to this node takes back, of all files, and *compaction_id*
    for the changes that the undo of this compaction takes back.
    """

    sid: str
    checkpoint_id: str | None = None
    to_node: str | None = None
    uris: tuple[str, ...] | None = None
    compaction_id: str | None = None


class CheckpointDiffResult(Value):
    """The files, 200 at most, each from its content before the changes to the present one.

    *uncovered* names others that may have changed files, such as a command in the background.
    """

    files: tuple[FileDiff, ...]
    uncovered: tuple[str, ...] = ()


class CheckpointRestoreParams(Value):
    """The checkpoint to take files back to: *uris*, or every file that the session has changed since."""

    sid: str
    checkpoint_id: str
    uris: tuple[str, ...] | None = None


class CheckpointRestoreResult(Value):
    """The files that were taken back, and the files that stay as they are; a new checkpoint undoes it."""

    files: tuple[FileRestore, ...]
    seq: int


# Messages of ``sidecar/editor/*`` and ``sidecar/complete``.


class EditorContextParams(Value):
    """The part of the editor's state that has changed. An absent member stays as it was reported before.

    *active* is the file that the user looks at; an explicit null says that there is none. *tabs* are all open
    files. *diagnostics* replace the earlier ones of each file in it, and with *replaces_diagnostics* the
    earlier ones of all files. A client that has sent *diagnostics* once, even an empty array, provides them:
    the model is offered a tool for them, and sees new errors of the files that it edits. *position_encoding*
    is the unit of characters: the negotiated one on the LSP face unless given, else UTF-16.
    """

    active: EditorFile | None = None
    tabs: tuple[EditorTab, ...] | None = None
    diagnostics: tuple[FileDiagnostics, ...] | None = None
    replaces_diagnostics: bool = False
    position_encoding: PositionEncoding | None = None


class CompleteParams(Value):
    """A prompt that is being typed, and the *position* of the cursor in it, in units of *encoding*.

    Paths belong to the folder of the session *sid*, or to the folder *cwd* before there is a session.
    """

    text: str
    position: int
    sid: str | None = None
    cwd: str | None = None
    encoding: Literal["utf-8", "utf-16", "utf-32"] = "utf-16"
    limit: int = 50


class CompleteResult(Value):
    """The completions, the best first. With *is_incomplete* there are more, or the files are still read."""

    items: tuple[CompletionItem, ...]
    is_incomplete: bool = False


class HighlightParams(Value):
    """Source code, and its *language*; without one the name of the file *path* tells it."""

    text: str
    path: str = ""
    language: str = ""


class HighlightRun(Value):
    """A part of the text with its kind; *start* and *length* are in UTF-16 units."""

    start: int
    length: int
    kind: Literal["keyword", "string", "comment", "number", "name"]


class HighlightResult(Value):
    """The parts in their order; none of an unknown language, or of more than 100,000 characters."""

    runs: tuple[HighlightRun, ...]


# Messages of ``sidecar/permission/rules``.


class PermissionTest(Value):
    """A call to judge without running it: the *tool* and its *input*, such as ``bash`` and ``{command}``."""

    tool: str
    input: Mapping[str, Any]


class PermissionChange(Value):
    """A rule to add to the user's settings, or with *remove* to take out of them.

    A rule is the beginning of a command, such as ``git push`` or ``npm run *``, or ``edit: docs/**``,
    ``fetch: HOST`` or ``mcp: SERVER TOOL``.
    """

    effect: Literal["allow", "deny"]
    rule: str
    remove: bool = False


class PermissionRulesParams(SidParams, kw_only=True):
    """The session. Without *test* and *set* its rules are listed; each answer has the list."""

    test: PermissionTest | None = None
    set: PermissionChange | None = None


class PermissionRulesResult(Value):
    """The rules in the order in which they decide, and the *verdict* on the call of *test*.

    A change holds in every session at once. It is stored in the user's own settings and never in a folder.
    """

    mode: str
    rules: tuple[PermissionRule, ...]
    seq: int
    verdict: PermissionVerdict | None = None


# Messages of ``sidecar/extension/*``.


class ExtensionListResult(Value):
    """The extensions of a session by the user, its folder and its clients, read anew.

    *problems* are sentences about files and settings that are left out, such as the hooks of a folder that is
    not trusted.
    """

    commands: tuple[ListedCommand, ...]
    skills: tuple[ListedSkill, ...]
    hooks: tuple[ListedHook, ...]
    servers: tuple[ListedServer, ...]
    problems: tuple[str, ...]


# Messages of ``sidecar/model/*``.


class ModelPrice(Value, kw_only=True):
    """The prices of a model, in US dollars for a million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class ListedModel(Value, kw_only=True):
    """A model on offer; *model* is its value of the config option.

    *source* is ``configured`` in the settings, ``discovered`` on a server of this machine, ``published`` in
    the list of a provider, or ``builtIn``. *context_window* is 0 until it is known, *price* is left out where
    it is not, and *why_not* says why the model cannot be called now. A missing key shows only when it is
    called.
    """

    model: str
    name: str
    source: Literal["configured", "discovered", "published", "builtIn"]
    provider: str | None = None
    context_window: int = 0
    max_output_tokens: int = 0
    reasoning: bool = False
    images: bool = False
    price: ModelPrice | None = None
    why_not: str | None = None


class ModelListResult(Value):
    """The models of the settings, of providers with a key, of servers that answer, and the built-in one.

    *current* is the session's own. Any other `provider:model` may be chosen as well.
    """

    models: tuple[ListedModel, ...]
    current: str


# Messages of ``sidecar/session/import``: sessions of other agents.


class ImportableSession(Value, kw_only=True):
    """A session of another agent on this machine.

    *id* is the agent's own; *cwd* and *title* are empty where they are not known; *updated_at* is the time of
    the last change of its file.
    """

    source: str
    id: str
    path: str
    cwd: str
    title: str
    updated_at: int
    size_bytes: int


class SessionImportParams(Value):
    """The session to import: the absolute *path* of its file, or the *id* of a listed one, or its beginning.

    A database needs both. *source* is the agent, recognised where it is absent: ``claude-code``, ``codex``,
    ``pi``, ``opencode``, ``copilot-cli``, ``gemini-cli``, ``cline`` or ``aider``; ``openhands`` reads runs of
    OpenHands and ``chat`` reads messages with roles. *cwd* is the folder to go on in, by default the recorded
    one, which must exist. *model* and *engine* are chosen as for a new session. On the LSP face
    *work_done_token* gets the progress.

    With *list_only* nothing is imported: the sessions of this machine are listed, all or only of one
    *source*, and at most *limit*. The history of aider is found in *cwd* and in the folders of the stored
    sessions.
    """

    source: str | None = None
    path: str | None = None
    id: str | None = None
    list_only: bool = False
    limit: int = 50
    cwd: str | None = None
    title: str | None = None
    model: str | None = None
    engine: str | None = None
    work_done_token: str | int | None = None


class ImportNote(Value):
    """A repair or an omission: its reason, how often it happened, and a sentence about it."""

    reason: str
    count: int
    message: str


class SessionImportReport(Value, kw_only=True):
    """The report on an imported session.

    *entries* has the number of entries of each kind, on all branches. *reads* counts the file contents that
    the model has seen whole, *compactions* the compactions of the other agent. *notes* is empty where nothing
    was repaired or left out.
    """

    source: str
    title: str
    cwd: str
    tokens: int
    entries: Mapping[str, int]
    reads: int
    compactions: int
    notes: tuple[ImportNote, ...]


class SessionImportResult(Value):
    """The id of the new session, which is stored and not loaded, and a report; or the listed *sessions*.

    They are listed newest first.
    """

    sid: str | None = None
    report: SessionImportReport | None = None
    sessions: tuple[ImportableSession, ...] | None = None


# Messages about the daemon: its status, log, trace and schema, and the clients that follow a session.


class ClientInfo(Value):
    """A connected client; *face* is its protocol."""

    id: str
    name: str
    face: str


class SessionCounts(Value):
    """The number of sessions in memory, and of those at work."""

    loaded: int
    running: int


class QueueCounts(Value):
    """The number of unanswered requests, and the number of bytes waiting to be sent."""

    requests: int = field(name="in")
    out_bytes: int


class WatchInfo(Value):
    """The state of file watching: *backend* is ``client``, ``watchfiles`` or ``none``."""

    backend: str
    roots: int
    dropped: int


class ChildInfo(Value):
    """A process that the daemon started."""

    pid: int
    what: str


class StatusResult(Value, kw_only=True):
    """The state of the daemon; *queues* is measured at this moment, *rss_bytes* at most a second earlier."""

    pid: int
    version: str
    uptime_ms: int
    clients: tuple[ClientInfo, ...]
    sessions: SessionCounts
    queues: QueueCounts
    rss_bytes: int
    watch: WatchInfo
    children: tuple[ChildInfo, ...]
    last_errors: tuple[str, ...]


class SchemaParams(Value):
    """The form of the description: JSON Schema, TypeScript, or this page in Markdown.

    With the *face* ``acp`` the names of the methods in the schema have the underscore of that face.
    """

    format: Literal["jsonschema", "ts", "markdown"] = "jsonschema"
    face: Literal["lsp", "acp"] = "lsp"


class SchemaResult(Value):
    """The description; *hash* is the ``schemaHash`` of the handshake, the same for every form."""

    text: str
    hash: str


class LogTailParams(Value):
    """The lines to read: from number *from_line* on, by default the newest, of *level* and above.

    With *session* only lines that name this session are read.
    """

    from_line: int | None = None
    level: Literal["info", "warning", "error"] = "info"
    session: str | None = None


class LogLine(Value, kw_only=True):
    """One line of the daemon's log, without prompts, file contents or keys; *line* counts from 1."""

    line: int
    at: int
    level: str
    logger: str
    text: str


class LogTailResult(Value):
    """The lines, oldest first; *next* is the *from_line* of the next request."""

    lines: tuple[LogLine, ...]
    next: int


class TraceSetParams(Value):
    """The level of the trace for all clients: nothing, the passing messages, or also redacted content.

    *to_file* is the absolute path of a new file, or of one that this daemon has traced to. By default a new
    file is made in the state directory.
    """

    level: Literal["off", "messages", "verbose"]
    to_file: str | None = None


class TraceSetResult(Value):
    """The path of the trace; absent when tracing is off."""

    path: str | None = None


class AttachParams(Value):
    """The loaded session to follow, to ``observe`` it or to ``control`` it.

    Every client may read. One that controls the session is asked for permissions, and may act on it: send
    prompts, stop turns, compact, change options. A client that starts, loads or forks a session controls it.
    *from_seq* is the last event that the client has; without it, events are sent from now on.
    """

    sid: str
    mode: Literal["observe", "control"] = "control"
    from_seq: int | None = None


class EventRange(Value):
    """A range of event numbers, both ends included."""

    first: int = field(name="from")
    last: int = field(name="to")


class AttachResult(Value):
    """The state of the session; *gap* is the range of requested events that cannot be sent.

    They are no longer kept; or the client named a number that the log has not reached, so that its events
    are of another log and *snapshot* replaces them. *controllers* are the names of the clients that may
    answer its questions, this one included.
    """

    snapshot: SessionSnapshot
    seq: int
    controllers: tuple[str, ...]
    gap: EventRange | None = None


# Messages that the daemon sends by itself: notifications, and the requests that it makes to a client.


class EventNotification(Value, kw_only=True):
    """One event of a session; *kind* decides the shape of *data*.

    *seq* counts from 1 and goes on across restarts. No number is ever used for two events: after a crash the
    count goes on far above the last one. It is 0 for past events that a load sends again.
    """

    sid: str
    seq: int
    at: int
    kind: str
    data: Mapping[str, Any]
    turn_id: str | None = None


class GapNotification(Value):
    """A range of events that this client will not get.

    *reason* is ``slowClient`` when it read too slowly, or ``notKept`` when they are no longer stored.
    """

    sid: str
    first: int = field(name="from")
    last: int = field(name="to")
    reason: str


class SessionsChangedNotification(Value):
    """The result of ``sidecar/session/list`` has changed: the lines that are new or others, and *removed*.

    It comes as often as a session begins to work, waits for its user, settles or fails. Without any line, as
    for a client that reads too slowly, the list has to be requested again.
    """

    sessions: tuple[SessionSummary, ...] = ()
    removed: tuple[str, ...] = ()


class PermissionResolvedNotification(Value):
    """The end of a question; *outcome* is the chosen option, ``expired`` or ``cancelled``."""

    sid: str
    permission_id: str
    outcome: str
    by: str


class ElicitResolvedNotification(Value):
    """The end of a form; *action* is that of the user, ``expired``, or ``unasked`` where it became text."""

    sid: str
    elicitation_id: str
    action: str
    by: str


class FsChangedNotification(Value):
    """The watched files that may have changed, in an editor or on disk; a folder stands for its contents."""

    sid: str
    watch_id: str
    uris: tuple[str, ...]


class ClosingNotification(Value):
    """The end of the daemon, *in_ms* milliseconds from now."""

    reason: str
    in_ms: int


class EditApplyParams(Value):
    """An edit of open buffers, for a client without ``workspace/applyEdit``.

    *edit* is a WorkspaceEdit of the Language Server Protocol, with versioned ``documentChanges``.
    """

    label: str
    edit: Mapping[str, Any]


class EditApplyResult(Value):
    """*applied* is true when the buffers have the edit; a buffer of another version must be left alone."""

    applied: bool


class EditorQueryParams(Value, kw_only=True):
    """A question for the language servers of the editor, over the text of its buffers, saved or not.

    *position* is the place in the file *uri* that ``definition``, ``references``, ``hover``, ``rename`` and
    ``codeActions`` are about, the last one with all of its line; it is in the negotiated unit on the LSP
    face, else in UTF-16. *text* is the new name of a ``rename``, and the words of a search for
    ``workspaceSymbols``; such a search has as *uri* the folder of the session, or a file in its language.
    """

    kind: QueryKind
    uri: str
    position: EditorPosition | None = None
    text: str | None = None


class EditorQueryResult(Value, kw_only=True):
    """The answer as the language server gave it; without one there is none, and *problem* may say why.

    It has the shape of the Language Server Protocol: one or more of Location or LocationLink,
    DocumentSymbol, SymbolInformation or WorkspaceSymbol; a Hover; a WorkspaceEdit, which is not applied; or
    code actions, with the edit of each. *position_encoding* is the unit of its characters, where that is not
    the unit of the question.
    """

    answer: Any = None
    problem: str | None = None
    position_encoding: PositionEncoding | None = None
