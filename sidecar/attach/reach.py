"""Come to the shared daemon: connect, and start it first when none answers.

One program at a time starts it, the others wait for that and connect. The daemon is nobody's child, so that
whoever ends the starter and all it has started does not end it. Trusts a listener of this user only.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from sidecar.attach.credentials import peer_uid
from sidecar.attach.errors import AttachError
from sidecar.attach.manners import READY
from sidecar.attach.place import Place
from sidecar.attach.starting import START_S, connect_or_start, log_tail, open_log

assert sys.platform != "win32"  # there :mod:`sidecar.attach.loopback` does it

__all__ = ["connect", "is_answering", "reach", "start"]


def reach(
    place: Place, command: Sequence[str], uid_of: Callable[[socket.socket], int] = peer_uid
) -> socket.socket:
    """Return a connection to the shared daemon of *place*, started by *command* when none answers.

    Raises AttachError.
    """
    return connect_or_start(place, lambda: connect(place, uid_of), lambda: start(place, command))


def connect(place: Place, uid_of: Callable[[socket.socket], int] = peer_uid) -> socket.socket | None:
    """Return a connection to the daemon of *place*, None when none answers. Raises AttachError."""
    if not place.exists():
        return None
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(place.socket))
        owner = uid_of(connection)
    except (FileNotFoundError, ConnectionError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise AttachError(f"cannot connect to {place.socket}: {error.strerror}") from error
    if owner != os.geteuid():
        connection.close()
        raise AttachError(f"user {owner} listens at {place.socket}, not you; look who put it there")
    return connection


def is_answering(place: Place) -> bool:
    """Whether a daemon of *place* lets one in. Raises AttachError."""
    found = connect(place)
    if found is not None:
        found.close()
    return found is not None


def start(place: Place, command: Sequence[str]) -> None:
    """Run *command* detached and return once it is ready. Raises AttachError when it will not be.

    It gets no input, its errors go to the log of *place*, and the ready word is awaited on its output.
    """
    read_fd, write_fd = os.pipe()
    try:
        try:
            _run_detached(command, write_fd, place)
        finally:
            os.close(write_fd)
        readable, _, _ = select.select([read_fd], [], [], START_S)
        if not readable:
            raise AttachError(f"the shared daemon was not ready in {START_S:.0f} s; {log_tail(place)}")
        if not os.read(read_fd, 4096).startswith(READY):
            raise AttachError(f"the shared daemon did not start; {log_tail(place)}")
    finally:
        os.close(read_fd)


def _run_detached(command: Sequence[str], output_fd: int, place: Place) -> None:
    # Imported by those who start a daemon, not by the many who find one.
    import subprocess

    log_fd = open_log(place)
    child = os.fork()
    if child:
        os.close(log_fd)
        _, status = os.waitpid(child, 0)
        if status:
            raise AttachError(f"cannot run {command[0]}")
        return
    code = 1
    with suppress(BaseException):  # nothing may get past this process, which ends here
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output_fd, stderr=log_fd, start_new_session=True
        )
        code = 0
    os._exit(code)
