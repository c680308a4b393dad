"""Values that a session publishes: its usage, compactions, plans, files, options, permissions and snapshot.

Each class is a shape of the wire, which ``sidecar.protocol.codec`` spells in camelCase. Times are epoch ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from sidecar._internal.values import Value
from sidecar.conductor.loss_values import Loss

CompactionStatus: TypeAlias = Literal["in_progress", "completed", "noop", "failed", "cancelled", "undone"]
SummarySource: TypeAlias = Literal["model", "localFallback"]
StopReasonName: TypeAlias = Literal["end_turn", "max_tokens", "refusal", "cancelled"]
"""The reason why a turn ended, in the words of the Agent Client Protocol."""


class TokenCounts(Value):
    """The tokens of one call, or the sum over many calls, as the provider reported them."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


class EngineView(Value):
    """The reading of an engine's own meter: *used* of *limit* tokens."""

    used: int
    limit: int


class UsageBy(Value):
    """The tokens of the next request by their origin.

    *rules* are the user's rules that are sent beside the conversation; others stand in prompts and summaries.
    """

    system: int
    tool_defs: int
    user: int
    assistant: int
    thinking: int
    tool_results: int
    images: int
    summary: int
    files: int
    rules: int = 0


RuleScope: TypeAlias = Literal["user", "project", "folder"]
"""The files that rules are about: all files of the user, those of a project, or those below one folder."""


class RuleFileUsage(Value, kw_only=True):
    """One rule file, such as ``AGENTS.md``, and the tokens that it takes.

    *scope* is ``user`` for a file in the state directory, ``project`` for one from the root of the repository
    to the session's folder, and ``folder`` for one further down. *inSystem* says whether it is in the system
    prompt; else a result in the conversation shows it. *cutChars* counts the characters not shown.
    """

    uri: str
    scope: RuleScope
    in_system: bool
    tokens: int
    size_bytes: int
    cut_chars: int


class ContextUsage(Value):
    """The fill level of the window: *used* is the size of the next request, never a sum over requests.

    *source* is ``provider`` when *used* is based on a figure that the provider reported. *pct* is the share
    of *window* in percent. *limitBy* is ``price`` where a compaction is due before the window needs it,
    because later calls save more than it costs. With *by* come *rules*, the rule files that the model is
    shown, and *factor*, the tokens that its provider counts for one of the estimate, learned from usage.
    """

    kind: ClassVar[str] = "usage"
    used: int
    window: int
    limit: int
    pct: float
    source: Literal["provider", "estimate"]
    as_of_node: str | None
    engine_view: Mapping[str, EngineView]
    by: UsageBy | None = None
    last_turn: TokenCounts | None = None
    session_total: TokenCounts | None = None
    cost: float | None = None
    rules: tuple[RuleFileUsage, ...] | None = None
    limit_by: Literal["price"] | None = None
    factor: float | None = None


class Compaction(Value):
    """One compaction, from its start to its end. Tokens are counted by the engine.

    With the *trigger* ``expand`` it is the opposite: originals behind a summary came back into view.
    *loss* counts the facts of the folded part; it is absent where counting them would have made a turn wait,
    and ``sidecar/compact/read`` lists them in any case. *info* holds the numbers of tokens and turns before
    and after, whether a turn was split, whether an earlier summary was updated, and the engine's own entries.
    """

    kind: ClassVar[str] = "compaction"
    compaction_id: str
    engine: str
    trigger: Literal["manual", "auto", "overflow", "undo", "expand"]
    status: CompactionStatus
    pre_tokens: int
    pre_count: int
    dropped_count: int
    cut: int
    microcompacted: int
    before_head: str | None
    undoable: bool
    reason: str | None = None
    post_tokens: int | None = None
    post_count: int | None = None
    kept_from: str | None = None
    rehydrated: tuple[str, ...] = ()
    summary_source: SummarySource | None = None
    summary: str | None = None
    error: str | None = None
    duration_ms: int | None = None
    after_head: str | None = None
    info: Mapping[str, Any] | None = None
    loss: Loss | None = None


class Gate(Value):
    """Whether the next request is over the engine's limit."""

    tokens: int
    limit: int
    window: int
    over: bool


class Cut(Value):
    """The first turn that is kept; *node_id* is None while nothing is stored."""

    node_id: str | None
    index: int


class Dropped(Value):
    """The turns that a compaction folds away; *nodes* are their ids, oldest first."""

    count: int
    tokens: int
    nodes: tuple[str, ...] = ()


class Kept(Value):
    """The turns that a compaction leaves unchanged."""

    count: int
    tokens: int


class Microcompact(Value):
    """The old tool results that are blanked in the kept turns, and the tokens that this frees."""

    blanked: int
    tokens: int


class RehydrateCandidate(Value):
    """A file that would be restored; *stale* when it changed after the model had read it."""

    uri: str
    tokens: int
    stale: bool


class Projected(Value):
    """The size of the next request after the compaction, in tokens.

    *tokens* is an estimate, *pct* its share of the window in percent. The length of the summary decides, from
    *low* to *high*. Where *high* is that of the gate, a long summary would save nothing, and nothing changes.
    """

    tokens: int
    pct: float
    low: int
    high: int


class NoOp(Value):
    """The reason why a compaction does nothing."""

    reason: str


class Plan(Value):
    """The plan of a compaction, made without a model call.

    The engine counts *pre_tokens*: the sum of *dropped*, *kept*, the system prompt and the tools.
    *loss* is that of a compaction without a model.
    """

    plan_id: str
    expect_head: str | None
    engine: str
    gate: Gate
    cut: Cut | None = None
    pre_tokens: int | None = None
    dropped: Dropped | None = None
    kept: Kept | None = None
    microcompact: Microcompact | None = None
    rehydrate: tuple[RehydrateCandidate, ...] = ()
    projected: Projected | None = None
    noop: NoOp | None = None
    prompt: str | None = None
    loss: Loss | None = None


class RestoredFile(Value):
    """A file that was restored into the conversation, as it was at that moment."""

    uri: str
    hash: str
    source: str
    tokens: int


class ContextFile(Value):
    """A file that the model has read: *stale* when it changed since, *inWindow* while the model sees it.

    *turnsAgo* is the number of prompts since it was read, absent when that is no part of the conversation.
    """

    uri: str
    hash: str
    source: str
    read_at_node: str | None
    tokens: int
    stale: bool
    in_window: bool
    buffer_version: int | None = None
    turns_ago: int | None = None


class Author(Value):
    """The client that sent a prompt: the id of its connection, and its own name for itself."""

    client_id: str
    name: str


class QueueItem(Value):
    """A prompt that waits; *input* is its content as the client wrote it."""

    item_id: str
    turn_id: str
    input: tuple[Mapping[str, Any], ...]


class ConfigChoice(Value):
    """One value of a config option."""

    value: str
    name: str


class ConfigOption(Value):
    """One config option of a session, in the shape of the Agent Client Protocol."""

    id: str
    name: str
    category: str
    current_value: str
    options: tuple[ConfigChoice, ...]
    type: Literal["select"] = "select"


class PlanItem(Value):
    """One line of the model's todo list."""

    content: str
    status: str
    priority: str


class SessionSnapshot(Value):
    """A session at one moment: a client shows this, then follows the events after ``seq``.

    *turn_id* and *compaction_id* name the turn and the compaction that run now, None for none;
    *queued_compactions* name the ones that wait.
    """

    sid: str
    cwd: str
    roots: tuple[str, ...]
    title: str
    model: str
    engine: str
    phase: str
    head: str | None
    messages: int
    seq: int
    created_at: int
    updated_at: int
    turn_id: str | None = None
    compaction_id: str | None = None
    queue: tuple[QueueItem, ...] = ()
    queued_compactions: tuple[str, ...] = ()
    parent: str | None = None
    archived: bool = False
    ephemeral: bool = False
    plan: tuple[PlanItem, ...] = ()


class SessionSummary(Value):
    """One line of a session list; *host* and *pid* have it open elsewhere, until *lease* at least."""

    sid: str
    cwd: str
    title: str
    updated_at: int
    phase: str
    messages: int
    tokens: int
    last_compaction_at: int | None = None
    archived: bool = False
    host: str | None = None
    pid: int | None = None
    lease: int | None = None


class PermissionOption(Value):
    """One answer that the user may choose."""

    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once"]


class PermissionSubject(Value):
    """The subject of a question; *type* is ``toolCall``, ``command`` or ``path``.

    *detail* is for reading: hidden characters stand in it as numbers, and long runs of blanks are counted.
    """

    type: str
    tool_call_id: str
    tool: str
    detail: str
    diffs: tuple[Mapping[str, Any], ...] = ()


class PermissionRequest(Value):
    """A question to the user. Without an answer by *expires_at* it counts as rejected."""

    sid: str
    turn_id: str | None
    permission_id: str
    title: str
    subject: PermissionSubject
    options: tuple[PermissionOption, ...]
    expires_at: int
    description: str | None = None


class PermissionAnswer(Value):
    """The user's answer; anything but ``selected`` with a known option counts as a rejection."""

    outcome: str
    option_id: str | None = None


ExtensionOrigin: TypeAlias = Literal["user", "folder"]
"""The author of an extension: the user, or the author of the session's folder."""


class ListedCommand(Value, kw_only=True):
    """A command from a Markdown file; one that is not *trusted* asks before its first use."""

    name: str
    description: str
    hint: str | None
    model: str | None
    uri: str
    source: ExtensionOrigin
    trusted: bool


class ListedSkill(Value, kw_only=True):
    """A skill; *uri* is its ``SKILL.md``."""

    name: str
    description: str
    uri: str
    source: ExtensionOrigin


class ListedHook(Value, kw_only=True):
    """A hook: its event, its command with secrets masked, and the tools that it is about, none for all."""

    event: str
    command: str
    tools: tuple[str, ...]
    source: ExtensionOrigin


class ListedServer(Value, kw_only=True):
    """A tool server: whether it runs now, its number of tools, and why it does not run.

    The *source* of one that a client named is ``client``.
    """

    name: str
    source: ExtensionOrigin | Literal["client"]
    state: Literal["starting", "running", "restarting", "failed"]
    tools: int
    problem: str | None = None


class ListedExtensions(Value, kw_only=True):
    """All extensions of a session, and sentences about files that are left out."""

    commands: tuple[ListedCommand, ...]
    skills: tuple[ListedSkill, ...]
    hooks: tuple[ListedHook, ...]
    servers: tuple[ListedServer, ...]
    problems: tuple[str, ...]


PermissionEffect: TypeAlias = Literal["allow", "ask", "deny"]

RuleOrigin: TypeAlias = Literal["user", "session", "turn", "workspace", "builtIn"]
"""The user's settings, the session (its mode and the answers "always"), the running turn, the folders of the
session, or the daemon itself."""


class PermissionRule(Value):
    """A rule that holds in a session; *rule* is as the settings write it, *description* says it in words."""

    effect: PermissionEffect
    rule: str
    source: RuleOrigin
    description: str


class PermissionVerdict(Value):
    """The answer to an action that was not run: whether it would be allowed, asked or denied, and why.

    *rule* is the rule of the user or of the turn that decides, absent where none does. *always* is the
    scope of an answer "always".
    """

    outcome: PermissionEffect
    reason: str
    rule: PermissionRule | None = None
    always: str | None = None


CompletionKind: TypeAlias = Literal["command", "argument", "file", "folder", "mention"]


class EditorPosition(Value):
    """A place in a text; *line* and *character* count from 0."""

    line: int
    character: int


class EditorRange(Value):
    """A part of a text, from *start* up to *end*."""

    start: EditorPosition
    end: EditorPosition


class EditorFile(Value):
    """The file that the user looks at.

    *selections* has the main one first; an empty range is a cursor. *selected_text* is needed only for a text
    that the daemon cannot read, such as a file that was never saved.
    """

    uri: str
    language_id: str | None = None
    is_dirty: bool = False
    selections: tuple[EditorRange, ...] = ()
    selected_text: str | None = None
    visible_ranges: tuple[EditorRange, ...] = ()


class EditorTab(Value):
    """A file that is open in the editor; *is_dirty* says that it has unsaved changes."""

    uri: str
    is_dirty: bool = False


class EditorDiagnostic(Value):
    """One problem, in the shape of the Language Server Protocol; *severity* is 1 (an error) to 4 (a hint)."""

    range: EditorRange
    message: str
    severity: int = 1
    code: str | int | None = None
    source: str | None = None


class FileDiagnostics(Value):
    """Every problem of one file, none where *diagnostics* is empty; *version* is that of its buffer."""

    uri: str
    diagnostics: tuple[EditorDiagnostic, ...]
    version: int | None = None


class CompletionItem(Value):
    """One completion: *insert_text* replaces the text from *start* up to *end*.

    *kind* is `command`, `argument` of one, `file`, `folder` or `mention`.
    """

    kind: CompletionKind
    label: str
    insert_text: str
    start: int
    end: int
    detail: str | None = None
