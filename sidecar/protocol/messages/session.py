"""Messages of ``sidecar/session/*``, and messages that many methods share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

from sidecar._internal.values import Value
from sidecar.conductor.contract import ConfigOption, ContextUsage, SessionSnapshot, SessionSummary
from sidecar.conductor.workbench.kept_changes import FileRestore


class Empty(Value):
    """No members."""


class SidParams(Value):
    """The session, by its id."""

    sid: str


class SeqResult(Value):
    """The number of the newest event of a session that was changed or closed."""

    seq: int


@dataclass(frozen=True, slots=True)
class NamedValue:
    """An environment variable or a header."""

    name: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class McpServerConfig:
    """A server of the Model Context Protocol; its tools stand beside the daemon's own.

    A server of type ``stdio`` is started as a process and needs *command*: an absolute path, or a program in
    the daemon's path. The other types need *url*; ``sse`` is the older transport over HTTP.
    """

    name: str
    _: KW_ONLY
    type: Literal["stdio", "http", "sse"] = "stdio"
    command: str | None = None
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[NamedValue, ...] = ()
    url: str | None = field(default=None, repr=False)
    headers: tuple[NamedValue, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionNewParams:
    """The new session. *cwd* is an absolute folder; *roots* are further folders for the tools.

    *policy* overrides thresholds of the engine: ``triggerRatio``, a share of the window from 0 to 1,
    ``keepRecent``, in tokens and with engine ``runtime`` in turns, and ``reserveTokens``; for
    ``slidingWindow`` also ``maxEvents``; for ``summarizing`` also ``tier1Ratio``, ``tier2Ratio``,
    ``truncateChars``, ``summaryMaxTokens`` and ``minEvents``. Other names are refused.

    *knowledge* names sources that are searched for each prompt: ``workspace`` has the files of the session's
    folders, ``sessions`` the earlier conversations in *cwd*. The *mcp_servers* start in the background; a
    prompt that comes at once waits for them for at most ten seconds.
    """

    cwd: str
    _: KW_ONLY
    roots: tuple[str, ...] = ()
    title: str | None = None
    model: str | None = None
    engine: str | None = None
    policy: Mapping[str, float] | None = None
    knowledge: tuple[str, ...] = ()
    ephemeral: bool = False
    parent: str | None = None
    mcp_servers: tuple[McpServerConfig, ...] = ()


class SessionNewResult(Value, kw_only=True):
    """The new session, its options and its usage; its events follow this answer."""

    sid: str
    snapshot: SessionSnapshot
    config_options: tuple[ConfigOption, ...]
    usage: ContextUsage
    seq: int


@dataclass(frozen=True, slots=True)
class SessionLoadParams:
    """The stored session, and the part of its past to send again after the result.

    *cwd* and *roots* replace its folders if it is not in memory yet. *replay* is ``"none"``, ``"full"``,
    ``{"fromSeq": n}`` or ``{"lastTurns": n}``. *mcp_servers* are added to its tool servers. The way to start
    them is not stored, so a session that was not in memory has only the servers of this request.
    """

    sid: str
    _: KW_ONLY
    cwd: str | None = None
    roots: tuple[str, ...] | None = None
    replay: Literal["none", "full"] | Mapping[str, int] = "none"
    mcp_servers: tuple[McpServerConfig, ...] | None = None


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


@dataclass(frozen=True, slots=True)
class SessionListParams:
    """The sessions to list: of folder *cwd*, with *query* in the title, with *content*; each is optional.

    *content* are words that all stand in the conversation, its compacted turns included. *archived* includes
    archived sessions; *cursor* asks for the sessions behind the page that had it.
    """

    cwd: str | None = None
    _: KW_ONLY
    query: str | None = None
    archived: bool = False
    cursor: str | None = None
    limit: int = 50
    content: str | None = None


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


@dataclass(frozen=True, slots=True)
class SessionForkParams:
    """The session to copy, up to *at_node* or up to its head; it need not be loaded.

    *cwd* and *roots* replace its folders. Without *mcp_servers* the new session takes the servers of a
    session that is in memory.
    """

    sid: str
    _: KW_ONLY
    at_node: str | None = None
    title: str | None = None
    cwd: str | None = None
    roots: tuple[str, ...] | None = None
    mcp_servers: tuple[McpServerConfig, ...] | None = None


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
