"""What a session shows the outside. Values only, and no import beyond the standard library's.

The shapes here are the wire's shapes (``usage``, ``compaction``, ``plan``, the event payloads), spelled in
snake_case; ``sidecar.protocol.codec`` turns them into camelCase. Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

__all__ = [
    "Author",
    "Compaction",
    "CompactionStatus",
    "ConfigChoice",
    "ConfigOption",
    "ContextFile",
    "ContextUsage",
    "Cut",
    "Dropped",
    "EngineView",
    "Gate",
    "Kept",
    "Microcompact",
    "NoOp",
    "PermissionAnswer",
    "PermissionOption",
    "PermissionRequest",
    "PermissionSubject",
    "Plan",
    "PlanItem",
    "Projected",
    "QueueItem",
    "RehydrateCandidate",
    "RestoredFile",
    "SessionSnapshot",
    "SessionSummary",
    "StopReasonName",
    "SummarySource",
    "TokenCounts",
    "UsageBy",
]

CompactionStatus: TypeAlias = Literal["in_progress", "completed", "noop", "failed", "cancelled", "undone"]
SummarySource: TypeAlias = Literal["model", "localFallback"]
StopReasonName: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
"""Why a turn ended, in the words of the Agent Client Protocol."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of one call or of many added up, as the provider reported them."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True)
class EngineView:
    """What one engine's own meter says: *used* of *limit* tokens."""

    used: int
    limit: int


@dataclass(frozen=True, slots=True)
class UsageBy:
    """Where the tokens of the next request come from."""

    system: int
    tool_defs: int
    user: int
    assistant: int
    thinking: int
    tool_results: int
    images: int
    summary: int
    files: int


@dataclass(frozen=True, slots=True)
class ContextUsage:
    """How full the window is: *used* counts the next request, never a cumulative sum.

    *source* is ``provider`` only when *used* rests on a figure a provider reported; *pct* is of *window*.
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


@dataclass(frozen=True, slots=True)
class Compaction:
    """One compaction, from its start to its outcome; tokens are the engine's own.

    *info* counts tokens and turns before and after, says whether a turn was split and an earlier summary
    updated, and has what the engine keeps besides.
    """

    kind: ClassVar[str] = "compaction"
    compaction_id: str
    engine: str
    trigger: Literal["manual", "auto", "overflow", "undo"]
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


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether the next request is over the engine's limit."""

    tokens: int
    limit: int
    window: int
    over: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the kept part begins; *node_id* is None before anything is stored."""

    node_id: str | None
    index: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a compaction folds away; *nodes* are ids, oldest first."""

    count: int
    tokens: int
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """What a compaction leaves as it is."""

    count: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Microcompact:
    """Old tool results blanked in what is kept, and the tokens that frees."""

    blanked: int
    tokens: int


@dataclass(frozen=True, slots=True)
class RehydrateCandidate:
    """A dropped read that would come back; *stale* when its file has changed since."""

    uri: str
    tokens: int
    stale: bool


@dataclass(frozen=True, slots=True)
class Projected:
    """The size after the compaction, about; *pct* is of the window."""

    tokens: int
    pct: float


@dataclass(frozen=True, slots=True)
class NoOp:
    """Why nothing would be, or was, done."""

    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a compaction would do. Made without a model call."""

    plan_id: str
    expect_head: str | None
    engine: str
    gate: Gate
    cut: Cut | None = None
    dropped: Dropped | None = None
    kept: Kept | None = None
    microcompact: Microcompact | None = None
    rehydrate: tuple[RehydrateCandidate, ...] = ()
    projected: Projected | None = None
    noop: NoOp | None = None
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class RestoredFile:
    """A file that came back after a compaction, as it was at that moment."""

    uri: str
    hash: str
    source: str
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A file the model has read.

    *stale*: it is no longer what was read. *in_window*: the model still sees it. *turns_ago*: how many
    prompts came after the one for which it was read, None where the conversation does not hold that read.
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


@dataclass(frozen=True, slots=True)
class Author:
    """The client that a prompt came from: its connection, and what it calls itself."""

    client_id: str
    name: str


@dataclass(frozen=True, slots=True)
class QueueItem:
    """A prompt that waits for its turn; *input* is its content as it was given."""

    item_id: str
    turn_id: str
    input: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ConfigChoice:
    """One value a config option may take."""

    value: str
    name: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigOption:
    """One knob of a session, in the shape of the Agent Client Protocol."""

    id: str
    name: str
    category: str
    current_value: str
    options: tuple[ConfigChoice, ...]
    type: Literal["select"] = "select"
    description: str | None = None


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One line of the model's todo list."""

    content: str
    status: str
    priority: str


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A session at one moment: what a client needs to draw it before it follows the events after ``seq``."""

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
    queue: tuple[QueueItem, ...] = ()
    parent: str | None = None
    archived: bool = False
    ephemeral: bool = False
    plan: tuple[PlanItem, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One line of a session list."""

    sid: str
    cwd: str
    title: str
    updated_at: int
    phase: str
    messages: int
    tokens: int
    last_compaction_at: int | None = None
    archived: bool = False


@dataclass(frozen=True, slots=True)
class PermissionOption:
    """One answer the user may give."""

    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


@dataclass(frozen=True, slots=True)
class PermissionSubject:
    """What the question is about; *type* is ``toolCall``, ``command`` or ``path``."""

    type: str
    tool_call_id: str
    tool: str
    detail: str
    diffs: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A question to the user; unanswered by *expires_at* it counts as rejected."""

    sid: str
    turn_id: str | None
    permission_id: str
    title: str
    subject: PermissionSubject
    options: tuple[PermissionOption, ...]
    expires_at: int
    description: str | None = None


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """The user's answer; anything but ``selected`` with a known option counts as a rejection."""

    outcome: str
    option_id: str | None = None
