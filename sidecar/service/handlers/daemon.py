"""``sidecar/status``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar import __version__
from sidecar.protocol.messages import Empty, QueueCounts, SessionCounts, StatusResult
from sidecar.service.vitals import rss_bytes

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = ["status"]


def status(connection: Connection, _: Empty) -> StatusResult:
    """Tell how the daemon is."""
    vitals, sessions = connection.service.vitals, connection.hub.sessions
    loads = [other.link.load() for other in connection.service.connections]
    return StatusResult(
        pid=vitals.pid,
        version=__version__,
        uptime_ms=vitals.uptime_ms,
        clients=tuple(other.describe() for other in connection.service.connections),
        sessions=SessionCounts(len(sessions), sum(session.is_running for session in sessions)),
        queues=QueueCounts(sum(load[0] for load in loads), sum(load[1] for load in loads)),
        rss_bytes=rss_bytes(),
        watch=vitals.watch(),
        children=vitals.children.all(),
        last_errors=tuple(vitals.errors.lines),
    )
