"""The few bytes a shim, a starter and the daemon say to each other around the protocol."""

from __future__ import annotations

__all__ = ["FAREWELL", "HELLO", "READY"]

HELLO = b"sidecar-shim\n"
"""What a shim says first. A daemon that has heard it ends an ordered connection with a farewell."""

FAREWELL = b"\0"
"""The last byte but one to a shim; the last is its exit code as a digit. The protocol has no such byte."""

READY = b"listening"
"""The first word of a daemon on its standard output, for whoever started it: it can be connected to."""
