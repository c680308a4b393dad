"""``sidecar/fs/*`` and ``sidecar/rehydrate/*``: files that change, and files put before the model again."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.restoring import Restoration
from sidecar.conductor.session import Session
from sidecar.protocol.messages import (
    Empty,
    FsUnwatchParams,
    FsWatchParams,
    FsWatchResult,
    RehydrateParams,
    RehydratePreviewResult,
    RehydrateRunResult,
)

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = ["rehydrate_preview", "rehydrate_run", "unwatch", "watch"]


def watch(connection: Connection, params: FsWatchParams) -> FsWatchResult:
    """Tell the client of files that change."""
    if not params.globs:
        raise InvalidInput("globs is empty", hint='"**" matches every file')
    watch_id = connection.watch(connection.hub.session(params.sid), params.globs)
    return FsWatchResult(watch_id, connection.service.stats.watch().backend)


def unwatch(connection: Connection, params: FsUnwatchParams) -> Empty:
    """Tell it no longer."""
    connection.unwatch(params.watch_id)
    return Empty()


async def rehydrate_preview(connection: Connection, params: RehydrateParams) -> RehydratePreviewResult:
    """Tell what would come back."""
    session = connection.hub.session(params.sid)
    found = await session.restoration(params.uris, params.budget)
    return RehydratePreviewResult(found.files, found.missing, found.tokens)


def rehydrate_run(connection: Connection, params: RehydrateParams) -> Awaitable[RehydrateRunResult]:
    """Put files before the model's eyes again."""
    session = connection.hub.session(params.sid)
    return _restored(session, session.rehydrate(params.uris, params.budget))


async def _restored(session: Session, restoring: Awaitable[Restoration]) -> RehydrateRunResult:
    done = await restoring
    return RehydrateRunResult(done.files, done.missing, done.tokens, session.history.head, session.log.seq)
