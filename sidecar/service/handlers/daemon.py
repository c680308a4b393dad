"""``sidecar/status``, ``schema``, ``log/tail``, ``trace/set``, ``attach``, ``detach``: the daemon itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar import __version__
from sidecar.conductor.log import EventLog
from sidecar.protocol.messages import (
    AttachParams,
    AttachResult,
    Empty,
    EventRange,
    LogTailParams,
    LogTailResult,
    QueueCounts,
    SchemaParams,
    SchemaResult,
    SessionCounts,
    SidParams,
    StatusResult,
    TraceSetParams,
    TraceSetResult,
)
from sidecar.service.contract import Answer

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = ["attach", "detach", "log_tail", "schema", "status", "trace_set"]


def status(connection: Connection, _: Empty) -> StatusResult:
    """Tell how the daemon is."""
    stats, sessions = connection.service.stats, connection.hub.sessions
    connections = connection.service.connections
    loads = [other.link.load() for other in connections]
    return StatusResult(
        pid=stats.pid,
        version=__version__,
        uptime_ms=stats.uptime_ms,
        clients=tuple(other.describe() for other in connections),
        sessions=SessionCounts(len(sessions), sum(session.is_running for session in sessions)),
        queues=QueueCounts(sum(load[0] for load in loads), sum(load[1] for load in loads)),
        rss_bytes=stats.memory.bytes(),
        watch=stats.watch(),
        children=stats.children.all(),
        last_errors=stats.log.errors,
    )


def schema(_: Connection, params: SchemaParams) -> SchemaResult:
    """Describe the protocol."""
    # Loaded when asked for: few clients are curious, and all wait for the start.
    from sidecar.protocol.schema import schema_hash, schema_text

    return SchemaResult(schema_text(params.format), schema_hash())


def log_tail(connection: Connection, params: LogTailParams) -> LogTailResult:
    """Read the daemon's log."""
    lines, after = connection.service.stats.log.tail(params.from_line, params.level)
    return LogTailResult(tuple(lines), after)


async def trace_set(connection: Connection, params: TraceSetParams) -> TraceSetResult:
    """Begin or end a trace."""
    path = await connection.service.tracer.start(params.level, params.to_file)
    return TraceSetResult(None if path is None else str(path))


def attach(connection: Connection, params: AttachParams) -> Answer:
    """Follow a session from the event asked for on, or from now on."""
    session = connection.hub.session(params.sid)
    seq = session.log.seq
    after = seq if params.from_seq is None else max(0, min(params.from_seq, seq))
    controls = params.mode == "control"
    connection.hub.audience.attach(connection, session.sid, controls=controls)
    names = tuple(client.name for client in connection.hub.controllers(session.sid))
    result = AttachResult(session.snapshot(), seq, names, _gap(session.log, after))

    def follow() -> None:
        # A client that follows already may want to hear again what it has lost.
        connection.link.unfollow(session.sid)
        connection.follow(session, after, controls=controls)
        session.introduce()

    return Answer(result, follow)


def detach(connection: Connection, params: SidParams) -> Empty:
    """Follow a session no longer."""
    connection.unfollow(params.sid)
    return Empty()


def _gap(log: EventLog, after: int) -> EventRange | None:
    """Return the first events after number *after* that are not kept any more."""
    kept = log.after(after, 1)
    first = kept[0].seq if kept else log.seq + 1
    return EventRange(after + 1, first - 1) if first > after + 1 else None
