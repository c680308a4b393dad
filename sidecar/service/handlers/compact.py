"""``sidecar/compact/*``: preview, run, cancel, undo and inspect compactions."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from sidecar.conductor.contract import Compaction, describe_loss, fact_line
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.record.compactions import with_undoable_now
from sidecar.conductor.turns.changes import UndoneCompaction
from sidecar.protocol import messages as m
from sidecar.service.contract import Answer
from sidecar.service.handlers.session import answer_after, answer_long, take_page
from sidecar.service.replay import node_view
from sidecar.service.streaming import show_compaction

if TYPE_CHECKING:
    from sidecar.conductor.session import Session
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection


async def preview(connection: Connection, params: m.CompactPreviewParams) -> Answer:
    """Return the plan of a compaction."""
    request = CompactionRequest(
        engine=params.engine or "",
        force=params.mode == "force",
        policy=params.policy or {},
        instructions=params.instructions,
    )
    plan = await connection.hub.session(params.sid).preview(request)
    return await answer_long(lambda: plan)


async def compare(connection: Connection, params: m.CompactCompareParams) -> Answer:
    """Return the plans of several engines."""
    session, force = connection.hub.session(params.sid), params.mode == "force"
    engines = session.compacting_engines() if params.engines is None else params.engines
    requests = (CompactionRequest(engine=engine, force=force) for engine in engines)
    plans = [await session.compare(request, detail=params.detail) for request in requests]
    return await answer_long(lambda: m.CompactCompareResult(tuple(plans)))


async def start(connection: Connection, params: m.CompactStartParams) -> m.CompactStartResult:
    """Compact; the outcome is a ``compaction`` event."""
    session = connection.hub.session(params.sid)
    request = CompactionRequest(
        engine=params.engine or "",
        force=params.mode == "force",
        policy=params.policy or {},
        instructions=params.instructions,
        plan_id=params.plan_id,
        expect_head=params.expect_head,
        reject_when_busy=params.when_busy == "reject",
    )
    noop = await session.judge(request)
    seq = session.record.log.seq
    started = session.compact(request, noop)
    progress = None if started.disposition == "noop" else connection.sink.progress(params.work_done_token)
    if progress is not None:
        show_compaction(session, started, progress, seq)
    return m.CompactStartResult(
        started.compaction_id, started.disposition, session.record.log.seq, started.reason
    )


def cancel(connection: Connection, params: m.CompactCancelParams) -> m.CancelResult:
    """Stop a compaction; the conversation stays as it was."""
    session, wanted = connection.hub.session(params.sid), params.compaction_id
    is_stopped = session.cancel_compaction(wanted)
    if not is_stopped and wanted not in session.record.compactions.begun:
        session.record.compactions.find(wanted)  # raises
    return m.CancelResult(is_stopped, session.record.log.seq)


def undo(connection: Connection, params: m.CompactUndoParams) -> Awaitable[m.CompactUndoResult]:
    """Undo a compaction."""
    session = connection.hub.session(params.sid)
    undoing = session.undo(
        params.compaction_id,
        force=params.force,
        expect_head=params.expect_head,
        restores_files=params.files == "restore",
    )

    def answer(undone: UndoneCompaction) -> m.CompactUndoResult:
        info = undone.compaction.info or {}
        restored = max(0, info.get("tokensBefore", 0) - info.get("tokensAfter", 0))
        return m.CompactUndoResult(
            session.record.history.head, restored, session.record.log.seq, undone.edited_files, undone.files
        )

    return answer_after(undoing, answer)


def list_compactions(connection: Connection, params: m.SidParams) -> m.CompactListResult:
    """List the compactions, oldest first."""
    session = connection.hub.session(params.sid)
    record = session.record
    done = with_undoable_now(record.compactions.all, record.history.current)
    return m.CompactListResult(done, record.queue.compactions)


async def read(connection: Connection, params: m.CompactReadParams) -> m.CompactReadResult | Answer:
    """Read one part of a compaction."""
    session = connection.hub.session(params.sid)
    found = session.record.compactions.find(params.compaction_id)
    if params.part == "summary":
        return m.CompactReadResult(found.summary or "")
    if params.part == "prompt":
        return m.CompactReadResult(await session.read_prompt(found))
    if params.part == "loss":
        return await read_facts(session, found, params)
    graph = await connection.hub.graph(params.sid)

    def read_turns() -> m.CompactReadResult:
        folded = graph.kept_path(found.before_head)[: found.cut]
        page, next_cursor = take_page(folded, params.cursor, params.limit)
        return m.CompactReadResult(
            f"{len(folded)} messages", tuple(map(node_view, page)), next_cursor=next_cursor
        )

    return await answer_long(read_turns)


async def read_facts(session: Session, done: Compaction, params: m.CompactReadParams) -> m.CompactReadResult:
    """Return a page of the facts that *done* folded away."""
    report = await session.window.losses.read(done)
    page, next_cursor = take_page(report.select(params.kinds, params.states), params.cursor, params.limit)
    content = "\n".join((describe_loss(report.loss), *map(fact_line, page)))
    return m.CompactReadResult(content, None, tuple(page), report.loss, next_cursor)


HANDLERS: Final[dict[str, Handler]] = {
    "sidecar/compact/preview": preview,
    "sidecar/compact/compare": compare,
    "sidecar/compact/start": start,
    "sidecar/compact/cancel": cancel,
    "sidecar/compact/undo": undo,
    "sidecar/compact/list": list_compactions,
    "sidecar/compact/read": read,
}
