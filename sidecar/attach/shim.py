"""The shim: bytes between an editor's standard input and output and the shared daemon, both ways, unread.

There is one thread for each direction and no buffer, so that a side that does not read stops the side that
writes. The only byte it looks for cannot occur in the protocol: the daemon's farewell, before the exit code.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

HELLO = b"sidecar-shim\n"
"""The first bytes of a shim. The daemon then ends an orderly connection with a farewell."""

FAREWELL = b"\0"
"""The last byte but one to a shim; the last is its exit code as a digit. The protocol has no such byte."""

_CHUNK_BYTES = 256 * 1024


class DaemonLost(Exception):
    """The daemon ended without a farewell: it was stopped, or it died."""


def pump(daemon: socket.socket, read_fd: int, write_fd: int) -> int:
    """Copy bytes until the daemon ends the connection, and return the exit code that it sends.

    Args:
        daemon: a connection to the daemon.
        read_fd: the editor's output.
        write_fd: the editor's input.

    Raises:
        DaemonLost: the daemon has sent no exit code.
    """
    if sys.platform != "win32":  # there pipes are always blocking
        for fd in (read_fd, write_fd):
            with suppress(OSError):  # closed by the starter: reading and writing will fail
                os.set_blocking(fd, True)
    with suppress(ConnectionError):  # likewise
        daemon.sendall(HELLO)
    threading.Thread(target=copy_to_daemon, args=(read_fd, daemon), daemon=True).start()
    while data := _receive(daemon):
        body, farewell, code = data.partition(FAREWELL)
        view = memoryview(body)
        try:
            while view:
                view = view[os.write(write_fd, view) :]
        except OSError:  # the editor is gone
            return 1
        if farewell and (code := code or _receive(daemon)):
            return int(code)
    raise DaemonLost


def leave_after(wait: Callable[[], None]) -> None:
    """End this process, with exit code 1, once *wait* has returned."""

    def watch() -> None:
        wait()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def copy_to_daemon(read_fd: int, daemon: socket.socket) -> None:
    """Copy the input, and its end; an input that cannot be read has ended."""
    with suppress(OSError):  # the daemon is gone: the other direction reports it
        while True:
            try:
                data = os.read(read_fd, _CHUNK_BYTES)
            except OSError:  # closed by the starter, or a terminal that went away
                data = b""
            if not data:
                break
            daemon.sendall(data)
        daemon.shutdown(socket.SHUT_WR)


def _receive(daemon: socket.socket) -> bytes:
    try:
        return daemon.recv(_CHUNK_BYTES)
    except ConnectionError:
        return b""
