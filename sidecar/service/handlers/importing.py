"""``sidecar/session/import``: sessions of other agents, found and imported.

The readers are loaded when they are first used: most daemons never import anything.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sidecar._internal.cancel import CancelToken
from sidecar._internal.env import copy_environment
from sidecar._internal.errors import InvalidInput
from sidecar.conductor.hub import NewSession
from sidecar.protocol import messages as m

if TYPE_CHECKING:
    from sidecar.importing.contract import FoundSession, ImportedSession
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection

_MAX_LISTED: Final = 1000


async def list_importable(connection: Connection, params: m.SessionImportParams) -> m.SessionImportResult:
    """List the sessions of other agents, the newest first."""
    if params.limit < 1:
        raise InvalidInput(f"limit is {params.limit}", hint="ask for one or more")
    limit = min(params.limit, _MAX_LISTED)
    found = await _find(connection, params.source, params.cwd, limit)
    sessions = tuple(
        m.ImportableSession(
            source=each.format,
            id=each.id,
            path=each.path,
            cwd=each.cwd,
            title=each.title,
            updated_at=each.updated_at,
            size_bytes=each.size_bytes,
        )
        for each in found
    )
    return m.SessionImportResult(sessions=sessions)


async def import_session(connection: Connection, params: m.SessionImportParams) -> m.SessionImportResult:
    """Read a session of another agent, and store it as a session of its own; or list such sessions."""
    from sidecar.importing.contract import NOTES
    from sidecar.importing.registry import FORMATS

    if params.source not in (None, *FORMATS):
        raise InvalidInput(f"no source {params.source!r}", hint=f"known sources: {', '.join(FORMATS)}")
    if params.list_only:
        return await list_importable(connection, params)
    imported = await read_with_progress(
        connection, await choose_session(connection, params), params.work_done_token
    )
    wanted = NewSession(
        cwd=params.cwd or imported.cwd,
        title=params.title,
        model=params.model,
        engine=params.engine,
    )
    info = await connection.hub.import_session(imported, wanted)
    report = imported.report
    shown = m.SessionImportReport(
        source=report.format,
        title=info.title,
        cwd=info.cwd,
        tokens=info.tokens,
        entries=report.entries,
        reads=report.n_reads,
        compactions=report.n_compactions,
        notes=tuple(m.ImportNote(reason, n, NOTES[reason]) for reason, n in report.notes.items()),
    )
    return m.SessionImportResult(info.sid, shown)


async def read_with_progress(
    connection: Connection, wanted: FoundSession, token: str | int | None
) -> ImportedSession:
    """Read the session in a thread, with progress; a request that is cancelled ends the reading."""
    from sidecar.importing.reading import read_session

    loop, stop = asyncio.get_running_loop(), CancelToken()
    progress = connection.sink.progress(token)
    path = Path(wanted.path)
    if progress is not None:
        progress.begin(f"Importing {path.name}", cancellable=False)

    def report(n_bytes: int, size: int) -> None:
        stop.raise_if_cancelled()
        if progress is not None:
            message = f"{n_bytes >> 20} of {size >> 20} MiB"
            loop.call_soon_threadsafe(progress.report, message, 100 * n_bytes // size)

    try:
        return await asyncio.to_thread(
            read_session,
            path,
            session_id=wanted.id,
            format_name=wanted.format,
            cwd=wanted.cwd,
            on_progress=report,
        )
    finally:
        stop.cancel("the request is over")
        if progress is not None:
            progress.end(path.name)


async def choose_session(connection: Connection, params: m.SessionImportParams) -> FoundSession:
    """Return the session to read; of one that is named by its path the format and folder may be empty.

    Raises InvalidInput when nothing or no single session is named.
    """
    from sidecar.importing.contract import FoundSession

    if params.path is not None:
        if not Path(params.path).is_absolute() or "\0" in params.path:
            raise InvalidInput(f"path {params.path!r} is not an absolute path")
        return FoundSession(
            format=params.source or "",
            id=params.id or "",
            path=params.path,
            cwd=params.cwd or "",
            title="",
            updated_at=0,
            size_bytes=0,
        )
    if not params.id:
        raise InvalidInput("neither path nor id is given", hint="with listOnly it lists both")
    found = await _find(connection, params.source, params.cwd, _MAX_LISTED, params.id)
    matching = [each for each in found if each.id == params.id] or found
    if len(matching) != 1:
        n_found = f"{len(matching)} sessions begin" if matching else "no session begins"
        hint = '"sidecar import" lists them; the path of a file works as well'
        raise InvalidInput(f"{n_found} with the id {params.id!r}", hint=hint)
    return matching[0]


async def _find(
    connection: Connection, format_name: str | None, cwd: str | None, limit: int, id_start: str = ""
) -> list[FoundSession]:
    from sidecar.importing.finding import find_sessions, usual_places

    known = {each.cwd for each in await connection.hub.list()} | ({cwd} if cwd else set())
    places = usual_places(Path.home(), copy_environment(), map(Path, sorted(known)))
    return await asyncio.to_thread(
        find_sessions, places, format_name=format_name or "", id_start=id_start, limit=limit
    )


HANDLERS: Final[dict[str, Handler]] = {
    "sidecar/session/import": import_session,
}
