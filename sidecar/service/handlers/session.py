"""``sidecar/session/*``: make, load, list, look at, fork, rewind, name, store away and set up sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.changes import HeadChange
from sidecar.conductor.contract import SessionSummary
from sidecar.conductor.hub import ForkOf, NewSession
from sidecar.conductor.session import Session
from sidecar.protocol.codec import event_to_wire
from sidecar.protocol.messages import (
    Empty,
    Integrity,
    NodeView,
    SessionForkParams,
    SessionListParams,
    SessionListResult,
    SessionLoadParams,
    SessionLoadResult,
    SessionNewParams,
    SessionNewResult,
    SessionReadParams,
    SessionReadResult,
    SessionRenameParams,
    SessionRewindParams,
    SessionRewindResult,
    SessionTreeResult,
    SetConfigOptionParams,
    SetConfigOptionResult,
    SidParams,
)
from sidecar.service.contract import Answer
from sidecar.service.handlers.tool_servers import tool_servers
from sidecar.service.nodes import node_view, tree_node, viewed_nodes
from sidecar.service.replay import last_turns, replay_events, replay_timeline, timeline

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = [
    "archive",
    "close",
    "delete",
    "fork",
    "list_sessions",
    "load",
    "new",
    "read",
    "rename",
    "rewind",
    "set_config_option",
    "tree",
    "unarchive",
]

_MOST = 1000


async def new(connection: Connection, params: SessionNewParams) -> Answer:
    """Start a session; the client follows it from its first event."""
    session = await connection.hub.new(
        NewSession(
            cwd=params.cwd,
            roots=params.roots,
            title=params.title,
            model=params.model,
            engine=params.engine,
            policy=params.policy or {},
            knowledge=params.knowledge,
            ephemeral=params.ephemeral,
            parent=params.parent,
            servers=tool_servers(params.mcp_servers),
        )
    )
    return _begun(connection, session)


async def fork(connection: Connection, params: SessionForkParams) -> Answer:
    """Start a session with the turns of another; the client follows it from its first event."""
    servers = None if params.mcp_servers is None else tool_servers(params.mcp_servers)
    wanted = ForkOf(params.sid, params.at_node, params.title, params.cwd, servers, params.roots)
    return _begun(connection, await connection.hub.fork(wanted))


async def load(connection: Connection, params: SessionLoadParams) -> Answer:
    """Load a stored session; the client follows it, after as much of its past as it asked for."""
    _check_replay(params.replay)
    servers = None if params.mcp_servers is None else tool_servers(params.mcp_servers)
    loaded = await connection.hub.load(params.sid, params.cwd, servers, params.roots)
    session, report = loaded.session, loaded.report
    integrity = Integrity(report.ok, report.repaired, report.missing)
    seq = session.log.seq
    result = SessionLoadResult(session.snapshot(), session.options.all(), session.usage(), integrity, seq)
    return Answer(result, lambda: _replay(connection, session, params.replay, seq))


async def list_sessions(connection: Connection, params: SessionListParams) -> SessionListResult:
    """List the sessions, the newest first."""
    start = _cursor(params.cursor)
    limit = max(1, min(params.limit, _MOST))
    wanted = [found for found in await connection.hub.list() if _matches(found, params)]
    more = len(wanted) > start + limit
    return SessionListResult(tuple(wanted[start : start + limit]), str(start + limit) if more else None)


async def read(connection: Connection, params: SessionReadParams) -> SessionReadResult:
    """Read a session's nodes, without loading or locking it."""
    nodes = await viewed_nodes(connection.hub, params.sid, params.view)
    start, limit = _cursor(params.cursor), max(1, min(params.limit, _MOST))
    page: tuple[NodeView, ...] = tuple(map(node_view, nodes[start : start + limit]))
    return SessionReadResult(page, str(start + limit) if len(nodes) > start + limit else None)


async def tree(connection: Connection, params: SidParams) -> SessionTreeResult:
    """Show every branch of a session."""
    graph = await connection.hub.graph(params.sid)
    parents = {node.parent for node in graph.nodes}
    leaves = tuple(node.id for node in graph.nodes if node.id not in parents)
    return SessionTreeResult(tuple(map(tree_node, graph.nodes)), graph.leaf, leaves)


def rewind(connection: Connection, params: SessionRewindParams) -> Awaitable[SessionRewindResult]:
    """Move the end of the conversation."""
    session = connection.hub.session(params.sid)
    return _rewound(session, session.rewind(params.to_node, expect_head=params.expect_head))


async def rename(connection: Connection, params: SessionRenameParams) -> Empty:
    """Give a session a title."""
    await connection.hub.amend(params.sid, lambda info: replace(info, title=params.title))
    return Empty()


async def archive(connection: Connection, params: SidParams) -> Empty:
    """Leave a session out of lists."""
    await connection.hub.amend(params.sid, lambda info: replace(info, archived=True))
    return Empty()


async def unarchive(connection: Connection, params: SidParams) -> Empty:
    """Put a session into lists again."""
    await connection.hub.amend(params.sid, lambda info: replace(info, archived=False))
    return Empty()


async def delete(connection: Connection, params: SidParams) -> Empty:
    """Remove a session for good."""
    await connection.hub.delete(params.sid)
    connection.service.unfollow(params.sid)
    return Empty()


async def close(connection: Connection, params: SidParams) -> Empty:
    """Close a session; it stays stored."""
    await connection.hub.close(params.sid)
    connection.service.unfollow(params.sid)
    return Empty()


def set_config_option(
    connection: Connection, params: SetConfigOptionParams
) -> Awaitable[SetConfigOptionResult]:
    """Set one knob of a session."""
    session = connection.hub.session(params.sid)
    return _chosen(session, session.choose(params.config_id, params.value))


def _begun(connection: Connection, session: Session) -> Answer:
    seq = session.log.seq
    result = SessionNewResult(session.sid, session.snapshot(), session.options.all(), session.usage(), seq)

    def follow() -> None:
        connection.follow(session, seq)
        session.introduce()

    return Answer(result, follow)


async def _rewound(session: Session, rewinding: Awaitable[HeadChange]) -> SessionRewindResult:
    moved = await rewinding
    return SessionRewindResult(moved.head, moved.removed, session.log.seq)


async def _chosen(session: Session, storing: Awaitable[None]) -> SetConfigOptionResult:
    await storing
    return SetConfigOptionResult(session.options.all(), session.log.seq)


def _matches(found: SessionSummary, params: SessionListParams) -> bool:
    if found.archived and not params.archived:
        return False
    if params.cwd is not None and found.cwd != params.cwd:
        return False
    words: Sequence[str] = (params.query or "").casefold().split()
    return all(word in found.title.casefold() for word in words)


def _cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal():
        raise InvalidInput(f"unknown cursor {cursor!r}", hint="pass the nextCursor of the page before")
    return int(cursor)


def _check_replay(replay: object) -> None:
    if isinstance(replay, Mapping):
        ok = len(replay) == 1 and next(iter(replay)) in ("fromSeq", "lastTurns")
        ok = ok and isinstance(next(iter(replay.values())), int)
        if not ok:
            raise InvalidInput('replay must be "none", "full", {"fromSeq": n} or {"lastTurns": n}')


def _replay(connection: Connection, session: Session, replay: str | Mapping[str, int], seq: int) -> None:
    """Send the past asked for, then follow."""
    if isinstance(replay, Mapping) and "fromSeq" in replay:
        seq = min(replay["fromSeq"], seq)
    else:
        for event in _past(session, replay):
            connection.link.notify("sidecar/event", event)
    connection.follow(session, seq)
    session.introduce()


def _past(session: Session, replay: str | Mapping[str, int]) -> Sequence[dict[str, object]]:
    if replay == "none":
        return ()
    history = session.history
    if isinstance(replay, Mapping):
        turns, ids = last_turns(history.turns, history.node_ids, replay["lastTurns"])
        return [event_to_wire(event) for event in replay_events(session.sid, turns, ids, session.describe)]
    parts = timeline(history.graph, session.compactions, history.head)
    stored = replay_timeline(session.sid, parts, session.describe)
    unstored = replay_events(session.sid, history.turns[len(history.node_ids) :], (), session.describe)
    return [event_to_wire(event) for event in (*stored, *unstored)]
