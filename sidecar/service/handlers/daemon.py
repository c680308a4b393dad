"""The daemon: ``sidecar/status``, ``schema``, ``log/tail``, ``trace/set``, ``attach`` and ``model/list``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from sidecar import __version__
from sidecar.conductor.errors import SessionNotFound
from sidecar.protocol import messages as m
from sidecar.runtime.store import SessionLockedError
from sidecar.runtime.store.place import SessionQuery
from sidecar.service.contract import Answer

if TYPE_CHECKING:
    from sidecar.llmgateway.contract import ModelCard
    from sidecar.llmgateway.registry import ModelOrigin
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection


def status(connection: Connection, _: m.Empty) -> m.StatusResult:
    """Return the state of the daemon."""
    stats, sessions = connection.service.stats, connection.hub.sessions
    connections = connection.service.connections
    loads = [each.sink.load() for each in connections]
    return m.StatusResult(
        pid=os.getpid(),
        version=__version__,
        uptime_ms=stats.uptime_ms,
        clients=tuple(m.ClientInfo(each.client_id, each.name, each.sink.face) for each in connections),
        sessions=m.SessionCounts(len(sessions), sum(session.is_running for session in sessions)),
        queues=m.QueueCounts(sum(load[0] for load in loads), sum(load[1] for load in loads)),
        rss_bytes=stats.memory_bytes(),
        watch=stats.watch(),
        children=stats.children.all(),
        last_errors=stats.log.errors,
    )


async def schema(_: Connection, params: m.SchemaParams) -> m.SchemaResult:
    """Describe the protocol."""
    # Loaded here because few clients ask for it, and all wait for the start.
    from sidecar.protocol.schema import schema_hash, schema_text

    text = await asyncio.to_thread(schema_text, params.format, params.face)
    return m.SchemaResult(text, await asyncio.to_thread(schema_hash))


def log_tail(connection: Connection, params: m.LogTailParams) -> m.LogTailResult:
    """Read the daemon's log."""
    lines, after = connection.service.stats.log.tail(params.from_line, params.level, params.session or "")
    return m.LogTailResult(tuple(lines), after)


async def trace_set(connection: Connection, params: m.TraceSetParams) -> m.TraceSetResult:
    """Start or end a trace."""
    path = await connection.service.tracer.start(params.level, params.to_file)
    return m.TraceSetResult(None if path is None else str(path))


def attach(connection: Connection, params: m.AttachParams) -> Answer | Awaitable[Answer]:
    """Follow a session, from an event of the client's choice or from now on."""
    if all(session.sid != params.sid for session in connection.hub.sessions):
        return refuse(connection, params.sid)
    session = connection.hub.session(params.sid)
    seq = session.record.log.seq
    after = seq if params.from_seq is None else max(0, min(params.from_seq, seq))
    controls = params.mode == "control"
    connection.hub.audience.attach(connection, session.sid, controls=controls)
    names = tuple(client.name for client in connection.hub.audience.controllers(session.sid))
    kept = session.record.log.after(after, 1)
    first_kept = kept[0].seq if kept else seq + 1
    gap = m.EventRange(after + 1, first_kept - 1) if first_kept > after + 1 else None
    if params.from_seq is not None and params.from_seq > seq:
        gap = m.EventRange(seq + 1, params.from_seq)
    result = m.AttachResult(session.snapshot(), seq, names, gap)

    def follow() -> None:
        # A client that follows already may ask again for events that it has lost.
        connection.sink.unfollow(session.sid)
        connection.follow(session, after, controls=controls)
        connection.introduce(session)

    return Answer(result, follow)


async def refuse(connection: Connection, sid: str) -> Answer:
    """Raise the reason for which *sid* cannot be followed here: SessionNotFound, unless others have it."""
    if sid in connection.hub.lost:
        connection.hub.session(sid)  # raises
    for found in await connection.hub.list(SessionQuery(ids={sid})):
        if found.host is not None:
            raise SessionLockedError(sid, None, f"process {found.pid} on {found.host}")
    raise SessionNotFound(sid)


async def detach(connection: Connection, params: m.SidParams) -> m.Empty:
    """Stop following a session."""
    if connection not in connection.hub.audience.listeners(params.sid):
        await connection.hub.info(params.sid)  # raises for a session that does not exist
    connection.unfollow(params.sid)
    return m.Empty()


async def list_models(connection: Connection, params: m.SidParams) -> m.ModelListResult:
    """List the models on offer, the default first; servers on this machine are asked for theirs."""
    session = connection.hub.session(params.sid)
    await session.record.models.list_servers()
    found = await asyncio.to_thread(session.turns.options.find_models)
    return m.ModelListResult(tuple(as_listed(*each) for each in found), session.info.model)


def as_listed(name: str, source: ModelOrigin, card: ModelCard | None, why_not: str | None) -> m.ListedModel:
    """Return the model *name* as clients are shown it.

    Args:
        name: the value that chooses it.
        source: the place that it is known from.
        card: its facts, None where none are known.
        why_not: why it cannot be called, None when a call can be tried.
    """
    if card is None:
        return m.ListedModel(model=name, name=name, source=source, why_not=why_not)
    cost = card.cost
    price = m.ModelPrice(
        input=cost.input_per_mtok,
        output=cost.output_per_mtok,
        cache_read=cost.cache_read_per_mtok,
        cache_write=cost.cache_write_per_mtok,
    )
    return m.ListedModel(
        model=name,
        name=card.display_name,
        source=source,
        provider=card.provider,
        context_window=card.context_window,
        max_output_tokens=card.max_output_tokens,
        reasoning=card.reasoning,
        images="image" in card.modalities,
        price=price if price.input or price.output else None,
        why_not=why_not,
    )


HANDLERS: Final[dict[str, Handler]] = {
    "sidecar/status": status,
    "sidecar/schema": schema,
    "sidecar/log/tail": log_tail,
    "sidecar/trace/set": trace_set,
    "sidecar/attach": attach,
    "sidecar/detach": detach,
    "sidecar/model/list": list_models,
}
