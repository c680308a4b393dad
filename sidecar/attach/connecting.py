"""Connecting to the shared daemon by its unix socket, and starting it first when it is not running.

The daemon is a child of no program, so that it survives when its starter is killed with all its children.
Only a listener of this user is trusted. On Windows :mod:`sidecar.attach.loopback` does the same.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.attach.starting import start_daemon, start_unless_connected

_LOCAL_PEERCRED = 1
_XUCRED_BYTES = 76
_UCRED_BYTES = 12


def peer_uid(connection: socket.socket) -> int:
    """Return the user id of the process at the other end of a unix socket.

    Raises:
        OSError: the kernel does not know, as for a peer that is gone.
    """
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED_BYTES)
    else:
        # ``struct xucred`` of macOS and the BSDs, read at level 0.
        credentials = connection.getsockopt(0, _LOCAL_PEERCRED, _XUCRED_BYTES)
    # In both structures the user id is the second number of 32 bits.
    return int.from_bytes(credentials[4:8], sys.byteorder)


assert sys.platform != "win32"  # the rest needs unix sockets and fork


def connect_or_start(paths: DaemonPaths, command: Sequence[str]) -> socket.socket:
    """Return a connection to the shared daemon of *paths*.

    Args:
        paths: the files of the daemon.
        command: starts the daemon when it is not running.

    Raises:
        AttachError: the daemon does not start, or another user is listening in its place.
    """
    return start_unless_connected(
        paths, lambda: connect(paths), lambda: start_daemon(paths, command, run_detached)
    )


def connect(paths: DaemonPaths, uid_of: Callable[[socket.socket], int] = peer_uid) -> socket.socket | None:
    """Return a connection to the daemon of *paths*, None when none is running. Raises AttachError."""
    if not paths.has_socket():
        return None
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(paths.socket_name)
        owner = uid_of(connection)
    except (FileNotFoundError, ConnectionError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise AttachError(f"cannot connect to {paths.socket}: {error.strerror}") from error
    if owner != os.geteuid():
        connection.close()
        raise AttachError(f"user {owner} is listening at {paths.socket}, not you; find out who created it")
    return connection


def is_answering(paths: DaemonPaths) -> bool:
    """Whether a daemon of *paths* accepts connections. Raises AttachError."""
    found = connect(paths)
    if found is not None:
        found.close()
    return found is not None


def run_detached(command: Sequence[str], output_fd: int, log_fd: int) -> None:
    """Run *command* as a grandchild in a session of its own, without input. Raises OSError."""
    # Imported by the few programs that start a daemon, not by the many that find one.
    import subprocess

    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if status:
            raise FileNotFoundError(2, "it is not a program that can be run", command[0])
        return
    code = 1
    with suppress(BaseException):  # nothing may escape from this process, which ends here
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output_fd, stderr=log_fd, start_new_session=True
        )
        code = 0
    os._exit(code)
