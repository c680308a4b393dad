"""Who is at the other end of a unix socket, as the kernel says."""

from __future__ import annotations

import socket
import sys

__all__ = ["peer_uid"]

_LOCAL_PEERCRED = 1
_XUCRED_BYTES = 76
_UCRED_BYTES = 12


def peer_uid(connection: socket.socket) -> int:
    """Return the user id of the process that connected, or listens, at the other end.

    Raises:
        OSError: the kernel does not say, as for a peer that is gone.
    """
    if sys.platform == "linux":
        said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED_BYTES)
    else:
        # ``struct xucred`` of macOS and the BSDs, asked for at level 0.
        said = connection.getsockopt(0, _LOCAL_PEERCRED, _XUCRED_BYTES)
    # In both structures the user id is the second number of 32 bits.
    return int.from_bytes(said[4:8], sys.byteorder)
