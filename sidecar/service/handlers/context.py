"""``sidecar/context/*``: how full the window is, and with which files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.conductor.contract import ContextUsage
from sidecar.protocol.messages import ContextFilesResult, ContextUsageParams, SidParams

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = ["files", "usage"]


def usage(connection: Connection, params: ContextUsageParams) -> ContextUsage:
    """Tell how full the window is."""
    return connection.hub.session(params.sid).usage(detail=params.detail)


def files(connection: Connection, params: SidParams) -> ContextFilesResult:
    """List the files the model has read."""
    return ContextFilesResult(connection.hub.session(params.sid).context_files())
