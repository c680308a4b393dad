"""``sidecar/context/*``: how full the window is, with which files, and taking nodes out."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from sidecar.conductor.changes import HeadChange
from sidecar.conductor.contract import ContextUsage
from sidecar.conductor.session import Session
from sidecar.protocol.messages import (
    ContextDropParams,
    ContextDropResult,
    ContextFilesResult,
    ContextUsageParams,
    SidParams,
)

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = ["drop", "files", "usage"]


def usage(connection: Connection, params: ContextUsageParams) -> ContextUsage:
    """Tell how full the window is."""
    return connection.hub.session(params.sid).usage(detail=params.detail)


def files(connection: Connection, params: SidParams) -> ContextFilesResult:
    """List the files the model has read."""
    return ContextFilesResult(connection.hub.session(params.sid).context_files())


def drop(connection: Connection, params: ContextDropParams) -> Awaitable[ContextDropResult]:
    """Go on without some nodes of the conversation."""
    session = connection.hub.session(params.sid)
    return _dropped(session, session.drop(params.node_ids, expect_head=params.expect_head))


async def _dropped(session: Session, dropping: Awaitable[HeadChange]) -> ContextDropResult:
    moved = await dropping
    return ContextDropResult(moved.head, moved.removed, moved.tokens, session.log.seq)
