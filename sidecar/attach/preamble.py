"""The few bytes around the protocol between a shim, a starter and the shared daemon.

Apart from both sides, because a shim must load nothing of the daemon's.
"""

from __future__ import annotations

HELLO = b"sidecar-shim\n"
"""The first bytes of a shim. The daemon then ends an orderly connection with a farewell."""

FAREWELL = b"\0"
"""The last byte but one to a shim; the last is its exit code as a digit. The protocol has no such byte."""

READY = b"listening"
"""The first word of a daemon on its standard output: its starter can connect."""
