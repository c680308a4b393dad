"""Between an editor's standard input and output and the shared daemon: bytes, both ways, unread.

One thread a direction and nothing kept, so that whoever does not read stops whoever writes. Knows nothing of
the protocol but one byte that cannot occur in it: the daemon's farewell, which tells the exit code.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from sidecar.attach.manners import FAREWELL, HELLO

__all__ = ["DaemonGone", "leave_after", "pump"]

_CHUNK_BYTES = 256 * 1024


class DaemonGone(Exception):
    """The daemon ended without a farewell: it was told to end, or died."""


def pump(daemon: socket.socket, read_fd: int, write_fd: int) -> int:
    """Pass bytes on until the daemon ends the connection, and return the exit code it told.

    Raises DaemonGone.
    """
    if sys.platform != "win32":  # there nobody makes a pipe anything else
        for fd in (read_fd, write_fd):
            with suppress(OSError):  # closed by the starter: reading and writing will say so
                os.set_blocking(fd, True)
    with suppress(ConnectionError):  # likewise
        daemon.sendall(HELLO)
    threading.Thread(target=_send, args=(read_fd, daemon), daemon=True).start()
    return _receive(daemon, write_fd)


def leave_after(wait: Callable[[], None]) -> None:
    """End this process, with exit code 1, once *wait* has returned."""

    def watch() -> None:
        wait()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _send(read_fd: int, daemon: socket.socket) -> None:
    """Pass on what comes in, and its end."""
    with suppress(OSError):  # the daemon is gone: the other direction tells
        while data := _read(read_fd):
            daemon.sendall(data)
        daemon.shutdown(socket.SHUT_WR)


def _receive(daemon: socket.socket, write_fd: int) -> int:
    while data := _read_socket(daemon):
        body, farewell, code = data.partition(FAREWELL)
        if not _write(write_fd, body):
            return 1
        if farewell and (code := code or _read_socket(daemon)):
            return int(code)
    raise DaemonGone


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK_BYTES)
    except OSError:  # closed by the starter, or a terminal that went away
        return b""


def _read_socket(daemon: socket.socket) -> bytes:
    try:
        return daemon.recv(_CHUNK_BYTES)
    except ConnectionError:
        return b""


def _write(fd: int, data: bytes) -> bool:
    """Write all of *data*; False when nobody reads any more."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        return False
    return True
