"""Params and results of the method table, in snake_case; the codec spells them in camelCase.

Only shapes. What a session shows of itself comes from :mod:`sidecar.conductor.contract`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sidecar.conductor.contract import (
    Compaction,
    ConfigOption,
    ContextFile,
    ContextUsage,
    SessionSnapshot,
    SessionSummary,
)

__all__ = [
    "CancelResult",
    "ChildInfo",
    "ClientInfo",
    "CompactCancelParams",
    "CompactListResult",
    "CompactPreviewParams",
    "CompactReadParams",
    "CompactReadResult",
    "CompactStartParams",
    "CompactStartResult",
    "CompactUndoParams",
    "CompactUndoResult",
    "ContextFilesResult",
    "ContextUsageParams",
    "Empty",
    "Integrity",
    "InterruptParams",
    "InterruptResult",
    "NodeView",
    "QueueCounts",
    "SessionCounts",
    "SessionListParams",
    "SessionListResult",
    "SessionLoadParams",
    "SessionLoadResult",
    "SessionNewParams",
    "SessionNewResult",
    "SessionReadParams",
    "SessionReadResult",
    "SidParams",
    "StatusResult",
    "TurnParams",
    "TurnRunResult",
    "TurnStartResult",
    "WatchInfo",
]


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing to say."""


@dataclass(frozen=True, slots=True)
class SidParams:
    """A session."""

    sid: str


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """A connected client."""

    id: str
    name: str
    face: str


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """Sessions in memory, and those at work."""

    loaded: int
    running: int


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Requests being answered, and bytes on their way out."""

    requests: int
    out_bytes: int


@dataclass(frozen=True, slots=True)
class WatchInfo:
    """Who watches the disk: ``client``, ``watchfiles`` or ``none``."""

    backend: str
    roots: int
    dropped: int


@dataclass(frozen=True, slots=True)
class ChildInfo:
    """A process the daemon started."""

    pid: int
    what: str


@dataclass(frozen=True, slots=True)
class StatusResult:
    """How the daemon is."""

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


@dataclass(frozen=True, slots=True)
class SessionNewParams:
    """A new session. *cwd* is an absolute folder; *roots* are further folders the tools may use.

    *policy* overrides the engine's thresholds: ``triggerRatio``, ``keepRecent``, ``reserveTokens``.
    """

    cwd: str
    roots: tuple[str, ...] = ()
    title: str | None = None
    model: str | None = None
    engine: str | None = None
    policy: Mapping[str, float] | None = None
    ephemeral: bool = False
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class SessionNewResult:
    """The new session."""

    sid: str
    snapshot: SessionSnapshot
    config_options: tuple[ConfigOption, ...]
    usage: ContextUsage
    seq: int


@dataclass(frozen=True, slots=True)
class SessionLoadParams:
    """A stored session, and how much of its past to send again after the result.

    *replay* is ``"none"``, ``"full"``, ``{"fromSeq": n}`` or ``{"lastTurns": n}``.
    """

    sid: str
    cwd: str | None = None
    replay: Literal["none", "full"] | Mapping[str, int] = "none"


@dataclass(frozen=True, slots=True)
class Integrity:
    """What the store found: *repaired* was mended, *missing* could not be."""

    ok: bool
    repaired: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionLoadResult:
    """The session as it stands."""

    snapshot: SessionSnapshot
    config_options: tuple[ConfigOption, ...]
    usage: ContextUsage
    integrity: Integrity
    seq: int


@dataclass(frozen=True, slots=True)
class SessionListParams:
    """Which sessions: of a folder, by words of the title, archived ones too or not; page by *cursor*."""

    cwd: str | None = None
    query: str | None = None
    archived: bool = False
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class SessionListResult:
    """The newest first."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class SessionReadParams:
    """The nodes of a stored session; *view* is ``"active"``, ``"full"`` or ``{"compactionId": id}``."""

    sid: str
    view: Literal["active", "full"] | Mapping[str, str] = "active"
    cursor: str | None = None
    limit: int = 200


@dataclass(frozen=True, slots=True)
class NodeView:
    """One stored turn; *blocks* are the gateway's blocks as JSON."""

    id: str
    parent: str | None
    role: str
    blocks: tuple[Mapping[str, Any], ...]
    created_at: int


@dataclass(frozen=True, slots=True)
class SessionReadResult:
    """Nodes, oldest first."""

    nodes: tuple[NodeView, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class TurnParams:
    """A prompt. *input* is a list of content blocks (text, resource_link, resource, image).

    A second request with the *idempotency_key* of an earlier one answers as that one did.
    """

    sid: str
    input: tuple[Mapping[str, Any], ...]
    expect_head: str | None = None
    when_busy: Literal["queue", "steer", "reject"] = "queue"
    idempotency_key: str | None = None
    work_done_token: str | int | None = None
    partial_result_token: str | int | None = None


@dataclass(frozen=True, slots=True)
class TurnStartResult:
    """What became of the prompt; *position* counts from 1 in the queue."""

    turn_id: str
    user_node_id: str | None
    disposition: Literal["started", "queued", "steered"]
    seq: int
    position: int | None = None


@dataclass(frozen=True, slots=True)
class TurnRunResult:
    """How the turn ended; *text* is the last answer."""

    turn_id: str
    stop_reason: str
    head: str | None
    usage: ContextUsage
    text: str
    seq: int


@dataclass(frozen=True, slots=True)
class InterruptParams:
    """Stop the turn *turn_id*, else the running one; *queue* says what becomes of waiting prompts."""

    sid: str
    turn_id: str | None = None
    queue: Literal["keep", "drop", "return"] = "keep"


@dataclass(frozen=True, slots=True)
class InterruptResult:
    """Whether there was such a turn; *returned* holds the prompts taken out of the queue."""

    accepted: bool
    returned: tuple[tuple[Mapping[str, Any], ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class ContextUsageParams:
    """How full the window is; *detail* adds where the tokens come from."""

    sid: str
    detail: bool = False


@dataclass(frozen=True, slots=True)
class ContextFilesResult:
    """The files the model has read."""

    files: tuple[ContextFile, ...]


@dataclass(frozen=True, slots=True)
class CompactPreviewParams:
    """What a compaction would do."""

    sid: str
    engine: str | None = None
    mode: Literal["auto", "force"] = "auto"
    policy: Mapping[str, float] | None = None
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class CompactStartParams:
    """Compact, as previewed in *plan_id* or as said here."""

    sid: str
    plan_id: str | None = None
    engine: str | None = None
    mode: Literal["auto", "force"] = "force"
    policy: Mapping[str, float] | None = None
    instructions: str | None = None
    expect_head: str | None = None
    when_busy: Literal["afterTurn", "reject"] = "afterTurn"
    work_done_token: str | int | None = None


@dataclass(frozen=True, slots=True)
class CompactStartResult:
    """What became of the request; the outcome is a ``compaction`` event."""

    compaction_id: str
    disposition: Literal["started", "queued", "noop"]
    seq: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CompactCancelParams:
    """Stop a compaction; the conversation stays as it was."""

    sid: str
    compaction_id: str


@dataclass(frozen=True, slots=True)
class CancelResult:
    """Whether there was something to stop."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class CompactUndoParams:
    """Take a compaction back, the newest when none is named; *force* also when it will not fit the window."""

    sid: str
    compaction_id: str | None = None
    expect_head: str | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class CompactUndoResult:
    """The new head, and the tokens that are back."""

    head: str | None
    restored_tokens: int
    seq: int


@dataclass(frozen=True, slots=True)
class CompactListResult:
    """Every compaction of the session, oldest first."""

    compactions: tuple[Compaction, ...]


@dataclass(frozen=True, slots=True)
class CompactReadParams:
    """One part of a compaction."""

    sid: str
    compaction_id: str
    part: Literal["summary", "dropped", "prompt"] = "summary"


@dataclass(frozen=True, slots=True)
class CompactReadResult:
    """The part as text; for ``dropped`` also its nodes."""

    content: str
    nodes: tuple[NodeView, ...] | None = None
