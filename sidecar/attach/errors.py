"""Why the shared daemon cannot be reached."""

from __future__ import annotations

__all__ = ["AttachError"]


class AttachError(Exception):
    """The shared daemon cannot be reached, or must not be trusted; the text says what to do about it.

    It is for whoever started the program and never crosses the wire, so it is none of the tree of
    :mod:`sidecar._internal.errors`, which would load half of the start of a shim.
    """
