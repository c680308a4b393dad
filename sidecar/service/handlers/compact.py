"""``sidecar/compact/*``: preview, run, cancel, undo and look at compactions."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from sidecar.conductor.contract import Compaction, Plan
from sidecar.conductor.session import CompactRequest, Session
from sidecar.protocol.messages import (
    CancelResult,
    CompactCancelParams,
    CompactCompareParams,
    CompactCompareResult,
    CompactListResult,
    CompactPreviewParams,
    CompactReadParams,
    CompactReadResult,
    CompactStartParams,
    CompactStartResult,
    CompactUndoParams,
    CompactUndoResult,
    SidParams,
)
from sidecar.service.nodes import node_view, path_to
from sidecar.service.progress import show_compaction

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = ["cancel", "compare", "list_compactions", "preview", "read", "start", "undo"]


def preview(connection: Connection, params: CompactPreviewParams) -> Plan:
    """Tell what a compaction would do."""
    request = CompactRequest(
        engine=params.engine,
        force=params.mode == "force",
        policy=params.policy,
        instructions=params.instructions,
    )
    return connection.hub.session(params.sid).preview(request)


def compare(connection: Connection, params: CompactCompareParams) -> CompactCompareResult:
    """Tell what several engines would do."""
    session, force = connection.hub.session(params.sid), params.mode == "force"
    engines = session.compacting_engines() if params.engines is None else params.engines
    return CompactCompareResult(
        tuple(session.preview(CompactRequest(engine=engine, force=force)) for engine in engines)
    )


def start(connection: Connection, params: CompactStartParams) -> CompactStartResult:
    """Compact; the outcome is a ``compaction`` event."""
    session = connection.hub.session(params.sid)
    seq = session.log.seq
    started = session.compact(
        CompactRequest(
            engine=params.engine,
            force=params.mode == "force",
            policy=params.policy,
            instructions=params.instructions,
            plan_id=params.plan_id,
            expect_head=params.expect_head,
            reject_when_busy=params.when_busy == "reject",
        )
    )
    if started.disposition != "noop":
        show_compaction(session, started, connection.link.progress(params.work_done_token), seq)
    return CompactStartResult(started.compaction_id, started.disposition, session.log.seq, started.reason)


def cancel(connection: Connection, params: CompactCancelParams) -> CancelResult:
    """Stop a compaction; the conversation stays as it was."""
    return CancelResult(connection.hub.session(params.sid).cancel_compaction(params.compaction_id))


def undo(connection: Connection, params: CompactUndoParams) -> Awaitable[CompactUndoResult]:
    """Take a compaction back."""
    session = connection.hub.session(params.sid)
    undoing = session.undo(params.compaction_id, force=params.force, expect_head=params.expect_head)
    return _undone(session, undoing, session.usage().used)


def list_compactions(connection: Connection, params: SidParams) -> CompactListResult:
    """List the compactions, oldest first."""
    return CompactListResult(connection.hub.session(params.sid).compactions)


async def read(connection: Connection, params: CompactReadParams) -> CompactReadResult:
    """Read one part of a compaction."""
    session = connection.hub.session(params.sid)
    found = session.find_compaction(params.compaction_id)
    if params.part == "summary":
        return CompactReadResult(found.summary or "")
    graph = await connection.hub.graph(params.sid)
    views = tuple(map(node_view, path_to(graph, found.before_head)[: found.cut]))
    return CompactReadResult(f"{len(views)} turns", views)


async def _undone(session: Session, undoing: Awaitable[Compaction], used_before: int) -> CompactUndoResult:
    await undoing
    restored = max(0, session.usage().used - used_before)
    return CompactUndoResult(session.history.head, restored, session.log.seq)
