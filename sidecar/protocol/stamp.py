"""What every handshake tells of the protocol: the hash of its schema and the names of its methods.

Written down, so that a start need not load the method table, and so that no message changes unnoticed: a test
compares it with what the table says, and is satisfied by whoever changes both.
"""

from __future__ import annotations

from typing import Final

__all__ = ["METHOD_NAMES", "SCHEMA_HASH"]

SCHEMA_HASH: Final = "sha256:2f93a85fec5a407de50f8295485d408364e5d32fdba231c370aaf68dd517d863"
"""What ``sidecar.protocol.schema.schema_hash`` returns."""

METHOD_NAMES: Final = (
    "sidecar/status",
    "sidecar/schema",
    "sidecar/log/tail",
    "sidecar/trace/set",
    "sidecar/attach",
    "sidecar/detach",
    "sidecar/session/new",
    "sidecar/session/load",
    "sidecar/session/list",
    "sidecar/session/read",
    "sidecar/session/tree",
    "sidecar/session/fork",
    "sidecar/session/rewind",
    "sidecar/session/rename",
    "sidecar/session/archive",
    "sidecar/session/unarchive",
    "sidecar/session/delete",
    "sidecar/session/close",
    "sidecar/session/export",
    "sidecar/session/setConfigOption",
    "sidecar/turn/start",
    "sidecar/turn/run",
    "sidecar/turn/steer",
    "sidecar/turn/interrupt",
    "sidecar/queue/list",
    "sidecar/queue/edit",
    "sidecar/queue/remove",
    "sidecar/context/usage",
    "sidecar/context/files",
    "sidecar/context/drop",
    "sidecar/rehydrate/preview",
    "sidecar/rehydrate/run",
    "sidecar/fs/watch",
    "sidecar/fs/unwatch",
    "sidecar/compact/preview",
    "sidecar/compact/compare",
    "sidecar/compact/start",
    "sidecar/compact/cancel",
    "sidecar/compact/undo",
    "sidecar/compact/list",
    "sidecar/compact/read",
)
"""The methods of ``sidecar.protocol.methods.METHODS``, in the order of the table."""
