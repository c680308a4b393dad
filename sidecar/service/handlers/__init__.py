"""One handler a method, by resource. A test proves that they are exactly the methods of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sidecar.service.handlers import compact, context, daemon, session, turn

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = ["HANDLERS", "Handler"]

Handler: TypeAlias = "Callable[[Connection, Any], Any]"
"""Takes the connection and the params; returns a result or an Answer, now or as an awaitable."""

HANDLERS: Final[dict[str, Handler]] = {
    "sidecar/status": daemon.status,
    "sidecar/session/new": session.new,
    "sidecar/session/load": session.load,
    "sidecar/session/list": session.list_sessions,
    "sidecar/session/read": session.read,
    "sidecar/session/close": session.close,
    "sidecar/turn/start": turn.start,
    "sidecar/turn/run": turn.run,
    "sidecar/turn/interrupt": turn.interrupt,
    "sidecar/context/usage": context.usage,
    "sidecar/context/files": context.files,
    "sidecar/compact/preview": compact.preview,
    "sidecar/compact/start": compact.start,
    "sidecar/compact/cancel": compact.cancel,
    "sidecar/compact/undo": compact.undo,
    "sidecar/compact/list": compact.list_compactions,
    "sidecar/compact/read": compact.read,
}
