"""Connecting to the shared daemon by its loopback port and token: the way of Windows, without unix sockets.

It has never run on Windows; its tests run it elsewhere. Port and token are in a file that only the user can
read. A file that a dead daemon left behind is not trusted, because a living one holds the daemon's lock.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from sidecar._internal.file_lock import FileLock
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.attach.starting import start_daemon, start_unless_connected

_DETACHED = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
_BREAKAWAY = getattr(subprocess, "CREATE_BREAKAWAY_FROM_JOB", 0)


def connect_or_start(paths: DaemonPaths, command: Sequence[str]) -> socket.socket:
    """Return a connection to the shared daemon of *paths*, started by *command* when it is not running.

    Raises AttachError.
    """
    return start_unless_connected(
        paths, lambda: connect(paths), lambda: start_daemon(paths, command, run_detached)
    )


def connect(paths: DaemonPaths) -> socket.socket | None:
    """Return a connection that has sent its token, None when no daemon is running. Raises AttachError."""
    if not paths.tcp.exists() or not paths.lock.exists():
        return None
    lock = FileLock(paths.lock)
    try:
        if lock.try_take():
            return None  # no daemon is alive
    finally:
        lock.release()
    try:
        written = json.loads(paths.tcp.read_text(encoding="utf-8"))
        address, token = (written["host"], written["port"]), written["token"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = type(error).__name__
        raise AttachError(f"{paths.tcp} cannot be read ({found}); end the daemon and remove it") from error
    try:
        connection = socket.create_connection(address)
        connection.sendall(f"Authorization: Bearer {token}\n".encode())
    except ConnectionError:
        return None
    except OSError as error:
        raise AttachError(f"cannot connect to {address[0]}:{address[1]}: {error.strerror}") from error
    return connection


def is_answering(paths: DaemonPaths) -> bool:
    """Whether a daemon of *paths* accepts connections. Raises AttachError."""
    found = connect(paths)
    if found is not None:
        found.close()
    return found is not None


def run_detached(command: Sequence[str], output_fd: int, log_fd: int) -> None:
    """Run *command* so that it outlives its starter. Raises OSError.

    An editor may hold its children in a job that ends with it. Where that job forbids leaving, the daemon
    stays in it.
    """
    for flags in dict.fromkeys((_DETACHED | _BREAKAWAY, _DETACHED)):
        with suppress(PermissionError):
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output_fd,
                stderr=log_fd,
                creationflags=flags,
                start_new_session=os.name != "nt",
            )
            child.returncode = 0  # it is not waited for, so that Python must not warn about it
            return
    raise PermissionError(13, "not allowed", command[0])
