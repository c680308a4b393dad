"""``sidecar/session/export``: a conversation as text, or in a file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar._internal.errors import InvalidInput
from sidecar.protocol.messages import SessionExportParams, SessionExportResult
from sidecar.service.export import export_text
from sidecar.service.nodes import node_view, viewed_nodes

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = ["export"]


async def export(connection: Connection, params: SessionExportParams) -> SessionExportResult:
    """Return the conversation, or write it to a file that does not exist yet."""
    info = await connection.hub.info(params.sid)
    nodes = await viewed_nodes(connection.hub, params.sid, params.view)
    text = export_text(info, [node_view(node) for node in nodes], params.format)
    if params.path is None:
        return SessionExportResult(text=text)
    path = Path(params.path)
    if not path.is_absolute() or "\0" in params.path:
        raise InvalidInput(f"path {params.path!r} is no absolute path")
    try:
        await asyncio.to_thread(_write_new, path, text)
    except OSError as error:
        hint = "name a file that does not exist, in a folder that does"
        raise InvalidInput(f"cannot write {params.path!r}: {error.strerror}", hint=hint) from None
    return SessionExportResult(path=str(path))


def _write_new(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8", errors="replace", newline="\n") as file:
        file.write(text)
