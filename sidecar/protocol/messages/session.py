"""Messages of ``sidecar/session/*``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sidecar.conductor.contract import ConfigOption, ContextUsage, SessionSnapshot, SessionSummary

__all__ = [
    "Integrity",
    "McpServerConfig",
    "NamedValue",
    "NodeView",
    "SessionExportParams",
    "SessionExportResult",
    "SessionForkParams",
    "SessionListParams",
    "SessionListResult",
    "SessionLoadParams",
    "SessionLoadResult",
    "SessionNewParams",
    "SessionNewResult",
    "SessionReadParams",
    "SessionReadResult",
    "SessionRenameParams",
    "SessionRewindParams",
    "SessionRewindResult",
    "SessionTreeResult",
    "SetConfigOptionParams",
    "SetConfigOptionResult",
    "TreeNode",
]


@dataclass(frozen=True, slots=True)
class NamedValue:
    """An environment variable, or a header."""

    name: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class McpServerConfig:
    """A server of the Model Context Protocol, whose tools stand beside the daemon's own.

    One of type ``stdio`` is started as a process: it needs *command*, an absolute path or a program in the
    daemon's path. The others need *url*; ``sse`` is the older way to speak over HTTP.
    """

    name: str
    type: Literal["stdio", "http", "sse"] = "stdio"
    command: str | None = None
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[NamedValue, ...] = ()
    url: str | None = field(default=None, repr=False)
    headers: tuple[NamedValue, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionNewParams:
    """A new session. *cwd* is an absolute folder; *roots* are further folders the tools may use.

    *policy* overrides the engine's thresholds: ``triggerRatio``, ``keepRecent``, ``reserveTokens``; of
    ``slidingWindow`` ``maxEvents``, of ``summarizing`` ``tier1Ratio``, ``tier2Ratio``, ``truncateChars``,
    ``summaryMaxTokens``, ``minEvents``. *knowledge* names sources that are searched before each prompt is
    answered: ``workspace``, the files of the session's folders, and ``sessions``, what was said in sessions
    of *cwd*. The *mcp_servers* start in the background: a prompt that comes at once waits for them, for some
    seconds.
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

    *cwd* and *roots* are other folders than it had, where it is not in memory. *replay* is ``"none"``,
    ``"full"``, ``{"fromSeq": n}`` or ``{"lastTurns": n}``. *mcp_servers* are among its tool servers from now
    on; how to start them is not stored, so a session that was not in memory has those named here alone.
    """

    sid: str
    cwd: str | None = None
    roots: tuple[str, ...] | None = None
    replay: Literal["none", "full"] | Mapping[str, int] = "none"
    mcp_servers: tuple[McpServerConfig, ...] | None = None


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
    """The nodes of a stored session; *view* is ``"active"``, ``"full"``, or a moment of its past.

    Such a moment is ``{"compactionId": id, "at": "before" | "after"}``, before when *at* is left out; after
    one that was undone, it is the conversation as the undoing left it.
    """

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
class SessionForkParams:
    """A session to go on from elsewhere: from *at_node*, its head for none. It need not be loaded.

    *cwd* and *roots* are other folders than it has. Without *mcp_servers* the new session has those of one
    that is in memory.
    """

    sid: str
    at_node: str | None = None
    title: str | None = None
    cwd: str | None = None
    roots: tuple[str, ...] | None = None
    mcp_servers: tuple[McpServerConfig, ...] | None = None


@dataclass(frozen=True, slots=True)
class SessionRewindParams:
    """Where the conversation is to end: at *to_node*, on any branch; before everything for null.

    *expect_head* is the head the client saw; null takes any.
    """

    sid: str
    to_node: str | None
    expect_head: str | None


@dataclass(frozen=True, slots=True)
class SessionRewindResult:
    """The head now, which is another node when a torn tool call had to be mended; *undone* stay stored."""

    head: str | None
    undone: tuple[str, ...]
    seq: int


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One node; *tokens* is an estimate."""

    id: str
    parent: str | None
    kind: Literal["user", "assistant", "tool", "summary", "file"]
    tokens: int
    at: int


@dataclass(frozen=True, slots=True)
class SessionTreeResult:
    """Every node of every branch, oldest first; *leaves* are those that nothing follows."""

    nodes: tuple[TreeNode, ...]
    head: str | None
    leaves: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionRenameParams:
    """Another title."""

    sid: str
    title: str


@dataclass(frozen=True, slots=True)
class SessionExportParams:
    """A conversation as text: for people, one node a line, or one object.

    *view* is that of ``sidecar/session/read``. *path*, absolute, is a file to make; without it the text is
    the result. A file that exists is kept.
    """

    sid: str
    format: Literal["markdown", "jsonl", "json"] = "markdown"
    view: Literal["active", "full"] | Mapping[str, str] = "active"
    path: str | None = None


@dataclass(frozen=True, slots=True)
class SessionExportResult:
    """The text, or where it was written."""

    path: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class SetConfigOptionParams:
    """One knob of a session: ``model``, ``engine``, ``thinking`` or ``permissions``."""

    sid: str
    config_id: str
    value: str


@dataclass(frozen=True, slots=True)
class SetConfigOptionResult:
    """All the knobs, as they stand now."""

    config_options: tuple[ConfigOption, ...]
    seq: int
