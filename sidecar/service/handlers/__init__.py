"""One handler a method, by resource. A test proves that they are exactly the methods of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sidecar.service.handlers import compact, context, daemon, export, files, session, turn

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = ["HANDLERS", "Handler"]

Handler: TypeAlias = "Callable[[Connection, Any], Any]"
"""Takes the connection and the params; returns a result or an Answer, now or as an awaitable."""

HANDLERS: Final[dict[str, Handler]] = {
    "sidecar/status": daemon.status,
    "sidecar/schema": daemon.schema,
    "sidecar/log/tail": daemon.log_tail,
    "sidecar/trace/set": daemon.trace_set,
    "sidecar/attach": daemon.attach,
    "sidecar/detach": daemon.detach,
    "sidecar/session/new": session.new,
    "sidecar/session/load": session.load,
    "sidecar/session/list": session.list_sessions,
    "sidecar/session/read": session.read,
    "sidecar/session/tree": session.tree,
    "sidecar/session/fork": session.fork,
    "sidecar/session/rewind": session.rewind,
    "sidecar/session/rename": session.rename,
    "sidecar/session/archive": session.archive,
    "sidecar/session/unarchive": session.unarchive,
    "sidecar/session/delete": session.delete,
    "sidecar/session/close": session.close,
    "sidecar/session/export": export.export,
    "sidecar/session/setConfigOption": session.set_config_option,
    "sidecar/turn/start": turn.start,
    "sidecar/turn/run": turn.run,
    "sidecar/turn/steer": turn.steer,
    "sidecar/turn/interrupt": turn.interrupt,
    "sidecar/queue/list": turn.queue_list,
    "sidecar/queue/edit": turn.queue_edit,
    "sidecar/queue/remove": turn.queue_remove,
    "sidecar/context/usage": context.usage,
    "sidecar/context/files": context.files,
    "sidecar/context/drop": context.drop,
    "sidecar/rehydrate/preview": files.rehydrate_preview,
    "sidecar/rehydrate/run": files.rehydrate_run,
    "sidecar/fs/watch": files.watch,
    "sidecar/fs/unwatch": files.unwatch,
    "sidecar/compact/preview": compact.preview,
    "sidecar/compact/compare": compact.compare,
    "sidecar/compact/start": compact.start,
    "sidecar/compact/cancel": compact.cancel,
    "sidecar/compact/undo": compact.undo,
    "sidecar/compact/list": compact.list_compactions,
    "sidecar/compact/read": compact.read,
}
