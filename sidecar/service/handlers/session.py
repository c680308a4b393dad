"""``sidecar/session/*``: make, load, list, read and close sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import SessionSummary
from sidecar.conductor.errors import CompactionNotFound
from sidecar.conductor.hub import NewSession
from sidecar.conductor.session import Session
from sidecar.llmgateway.contract import Turn
from sidecar.protocol.codec import event_to_wire
from sidecar.protocol.messages import (
    Empty,
    Integrity,
    NodeView,
    SessionListParams,
    SessionListResult,
    SessionLoadParams,
    SessionLoadResult,
    SessionNewParams,
    SessionNewResult,
    SessionReadParams,
    SessionReadResult,
    SidParams,
)
from sidecar.runtime.contract import SessionNode
from sidecar.service.contract import Answer
from sidecar.service.nodes import node_view, path_to
from sidecar.service.replay import last_turns, replay_events

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = ["close", "list_sessions", "load", "new", "read"]

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
            ephemeral=params.ephemeral,
            parent=params.parent,
        )
    )
    seq = session.log.seq
    result = SessionNewResult(session.sid, session.snapshot(), session.options.all(), session.usage(), seq)
    return Answer(result, lambda: connection.follow(session, seq))


async def load(connection: Connection, params: SessionLoadParams) -> Answer:
    """Load a stored session; the client follows it, after as much of its past as it asked for."""
    _check_replay(params.replay)
    loaded = await connection.hub.load(params.sid, params.cwd)
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
    """Read a session's stored nodes, without loading or locking it."""
    nodes = await _viewed(connection, params)
    start, limit = _cursor(params.cursor), max(1, min(params.limit, _MOST))
    page: tuple[NodeView, ...] = tuple(map(node_view, nodes[start : start + limit]))
    return SessionReadResult(page, str(start + limit) if len(nodes) > start + limit else None)


async def close(connection: Connection, params: SidParams) -> Empty:
    """Close a session; it stays stored."""
    await connection.hub.close(params.sid)
    connection.link.unfollow(params.sid)
    return Empty()


async def _viewed(connection: Connection, params: SessionReadParams) -> Sequence[SessionNode]:
    graph = await connection.hub.graph(params.sid)
    if params.view == "full":
        return graph.nodes
    if params.view == "active":
        return path_to(graph, graph.leaf)
    wanted = params.view.get("compactionId", "")
    for done in await connection.hub.compactions(params.sid):
        if done.compaction_id == wanted:
            return path_to(graph, done.before_head)
    raise CompactionNotFound(params.sid, wanted)


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
        connection.follow(session, min(replay["fromSeq"], seq))
        return
    turns: Sequence[Turn] = session.history.turns
    ids = session.history.node_ids
    if replay == "none":
        turns = []
    elif isinstance(replay, Mapping):
        turns, ids = last_turns(turns, ids, replay["lastTurns"])
    for event in replay_events(session.sid, turns, ids):
        connection.link.notify("sidecar/event", event_to_wire(event))
    connection.follow(session, seq)
