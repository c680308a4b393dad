"""Starting the shared daemon: one program at a time starts it, and its log explains a failure."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from sidecar._internal.file_lock import FileLock
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.attach.preamble import READY
from sidecar.transport.processes import has_lost_parent

TYPE_CHECKING = False
if TYPE_CHECKING:  # as type checkers know it: a shim is quicker without the module
    from typing import TypeAlias

START_S = 30.0
"""How long a daemon may take to accept connections, in seconds."""

RunDetached: TypeAlias = Callable[[Sequence[str], int, int], None]
"""Runs a command that outlives its starter, with descriptors for its output and its errors.

Contract: raises OSError when the command cannot be run.
"""

_LOOK_S = 0.1
_LOG_BYTES = 1024 * 1024
_TAIL_BYTES = 4096
_TAIL_LINES = 8


def start_unless_connected(
    paths: DaemonPaths, connect: Callable[[], socket.socket | None], start: Callable[[], None]
) -> socket.socket:
    """Return a connection to the daemon of *paths*, which is started when there is none.

    Of several programs that do this at once, one starts the daemon, and the others wait and connect.

    Args:
        paths: the files of the daemon; their folder is created.
        connect: returns a connection, or None when no daemon is running.
        start: returns once the daemon accepts connections.

    Raises:
        AttachError: the daemon does not start, or must not be trusted.
    """
    found = connect()
    if found is not None:
        return found
    paths.make()
    starting = FileLock(paths.start_lock)
    try:
        starting.take()
        found = connect()
        if found is None:
            start()
            found = connect()
    finally:
        starting.release()
    if found is None:
        raise AttachError(f"the shared daemon was started and has ended again; {log_tail(paths)}")
    return found


def start_daemon(paths: DaemonPaths, command: Sequence[str], run_detached: RunDetached) -> None:
    """Start the daemon and return once it has written that it is ready.

    Args:
        paths: the files of the daemon; its errors are appended to the log.
        command: starts the daemon.
        run_detached: runs the command.

    Raises:
        AttachError: the daemon does not start in time.
    """
    with suppress(FileNotFoundError):
        if paths.log.stat().st_size > _LOG_BYTES:
            paths.log.replace(paths.log.with_suffix(".log.1"))
    log_fd = os.open(paths.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    read_fd, write_fd = os.pipe()
    try:
        run_detached(command, write_fd, log_fd)
    except OSError as error:
        os.close(read_fd)
        raise AttachError(f"cannot run {command[0]}: {error.strerror}") from error
    finally:
        os.close(write_fd)
        os.close(log_fd)
    first: list[bytes] = []

    def read_first() -> None:
        try:
            first.append(os.read(read_fd, 4096))
        finally:
            os.close(read_fd)

    # A thread can be abandoned after a time limit; Windows has no such limit for a pipe.
    reading = threading.Thread(target=read_first, daemon=True)
    reading.start()
    for _ in range(int(START_S / _LOOK_S)):
        reading.join(_LOOK_S)
        if not reading.is_alive():
            break
        if has_lost_parent():
            raise AttachError("the program that wanted the shared daemon has ended while it was starting")
    if not first:
        raise AttachError(f"the shared daemon was not ready in {START_S:.0f} s; {log_tail(paths)}")
    if not first[0].startswith(READY):
        raise AttachError(f"the shared daemon did not start; {log_tail(paths)}")


def log_tail(paths: DaemonPaths) -> str:
    """Return the path of the log and its last lines, for a message."""
    with suppress(OSError):
        last = paths.log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace").splitlines()
        if last:
            return "\n".join((f"{paths.log} ends with:", *last[-_TAIL_LINES:]))
    return f"see {paths.log}"
