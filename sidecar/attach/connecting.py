"""Connecting to the shared daemon of this user, and starting it first when it is not running.

It is found by its unix socket, where only a listener of this user is trusted. On Windows it is found by a
loopback port and token in a file that only the user can read; a file that a dead daemon left behind is not
trusted, because a living one holds the daemon's lock. That way has never run on Windows; its tests run it
elsewhere.

One program at a time starts the daemon, and its log explains a failure. The daemon is a child of no program,
so that it survives when its starter is killed with all its children.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from sidecar._internal.file_lock import FileLock
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.transport.processes import has_lost_parent

TYPE_CHECKING = False
if TYPE_CHECKING:  # as type checkers know it: a shim is quicker without the module
    from typing import TypeAlias

READY = b"listening"
"""The first word of a daemon on its standard output: its starter can connect."""

START_S = 30.0
"""How long a daemon may take to accept connections, in seconds."""

Connect: TypeAlias = Callable[[DaemonPaths], socket.socket | None]
"""Returns a connection to the daemon, None when none is running. Raises AttachError."""

RunDetached: TypeAlias = Callable[[Sequence[str], int, int], None]
"""Runs a command that outlives its starter, with descriptors for its output and its errors.

Contract: raises OSError when the command cannot be run.
"""

_LOOK_S = 0.1
_LOG_BYTES = 1024 * 1024
_TAIL_BYTES = 4096
_TAIL_LINES = 8
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


def is_answering(paths: DaemonPaths) -> bool:
    """Whether a daemon of *paths* accepts connections. Raises AttachError."""
    found = connect(paths)
    if found is not None:
        found.close()
    return found is not None


def connect_port(paths: DaemonPaths) -> socket.socket | None:
    """Return a connection that has sent its token, None when no daemon is running. Raises AttachError."""
    import json

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


def run_without_console(command: Sequence[str], output_fd: int, log_fd: int) -> None:
    """Run *command* so that it outlives its starter, on Windows. Raises OSError.

    An editor may hold its children in a job that ends with it. Where that job forbids leaving, the daemon
    stays in it.
    """
    import subprocess

    detached = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    breakaway = getattr(subprocess, "CREATE_BREAKAWAY_FROM_JOB", 0)
    for flags in dict.fromkeys((detached | breakaway, detached)):
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


def log_tail(paths: DaemonPaths) -> str:
    """Return the path of the log and its last lines, for a message."""
    with suppress(OSError):
        last = paths.log.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace").splitlines()
        if last:
            return "\n".join((f"{paths.log} ends with:", *last[-_TAIL_LINES:]))
    return f"see {paths.log}"


if sys.platform == "win32":
    connect, run_detached = connect_port, run_without_console
else:

    def connect(
        paths: DaemonPaths, uid_of: Callable[[socket.socket], int] = peer_uid
    ) -> socket.socket | None:
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
            raise AttachError(
                f"user {owner} is listening at {paths.socket}, not you; find out who created it"
            )
        return connection

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


def connect_or_start(
    paths: DaemonPaths,
    command: Sequence[str],
    connect: Connect = connect,
    run_detached: RunDetached = run_detached,
) -> socket.socket:
    """Return a connection to the shared daemon of *paths*, which is started when it is not running.

    Of several programs that do this at once, one starts the daemon, and the others wait and connect.

    Args:
        paths: the files of the daemon; their folder is created.
        command: starts the daemon.
        connect: the way to the daemon, by default that of this system.
        run_detached: the way to start it, likewise.

    Raises:
        AttachError: the daemon does not start, or another user is listening in its place.
    """
    found = connect(paths)
    if found is not None:
        return found
    paths.make()
    starting = FileLock(paths.start_lock)
    try:
        starting.take()
        found = connect(paths)
        if found is None:
            start_daemon(paths, command, run_detached)
            found = connect(paths)
    finally:
        starting.release()
    if found is None:
        raise AttachError(f"the shared daemon was started and has ended again; {log_tail(paths)}")
    return found
