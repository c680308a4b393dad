"""Come to the shared daemon by its loopback port and its token: what Windows does, without sockets of files.

The port and the token are in a file of the place, which only its user can read. A file that a dead daemon has
left is not believed: the daemon holds the lock of the place as long as it lives.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sidecar._internal.file_lock import FileLock
from sidecar.attach.errors import AttachError
from sidecar.attach.manners import READY
from sidecar.attach.place import Place
from sidecar.attach.starting import START_S, connect_or_start, log_tail, open_log

if TYPE_CHECKING:
    from sidecar.attach.broker import Broker
    from sidecar.attach.listener import Listener

__all__ = ["connect", "is_answering", "open_door", "open_port", "reach", "start"]

_DETACHED = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
_BREAKAWAY = getattr(subprocess, "CREATE_BREAKAWAY_FROM_JOB", 0)


def reach(place: Place, command: Sequence[str]) -> socket.socket:
    """Return a connection to the shared daemon of *place*, started by *command* when none answers.

    Raises AttachError.
    """
    return connect_or_start(place, lambda: connect(place), lambda: start(place, command))


def connect(place: Place) -> socket.socket | None:
    """Return a connection that has shown its token, None when no daemon answers. Raises AttachError."""
    if not place.tcp.exists() or not _is_held(place):
        return None
    try:
        said = json.loads(place.tcp.read_text(encoding="utf-8"))
        address, token = (said["host"], said["port"]), said["token"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = type(error).__name__
        raise AttachError(f"{place.tcp} cannot be read ({found}); end the daemon and remove it") from error
    try:
        connection = socket.create_connection(address)
        connection.sendall(f"Authorization: Bearer {token}\n".encode())
    except ConnectionError:
        return None
    except OSError as error:
        raise AttachError(f"cannot connect to {address[0]}:{address[1]}: {error.strerror}") from error
    return connection


def is_answering(place: Place) -> bool:
    """Whether a daemon of *place* lets one in. Raises AttachError."""
    found = connect(place)
    if found is not None:
        found.close()
    return found is not None


def start(place: Place, command: Sequence[str]) -> None:
    """Run *command* detached and return once it is ready. Raises AttachError when it will not be."""
    log = open_log(place)
    try:
        output = _run_detached(command, log)
    except OSError as error:
        raise AttachError(f"cannot run {command[0]}: {error.strerror}") from error
    finally:
        os.close(log)
    said: list[bytes] = []
    # Windows cannot wait for a pipe with a time limit; a thread can be left.
    reading = threading.Thread(target=lambda: said.append(_first_word(output)), daemon=True)
    reading.start()
    reading.join(START_S)
    if not said:
        raise AttachError(f"the shared daemon was not ready in {START_S:.0f} s; {log_tail(place)}")
    if not said[0].startswith(READY):
        raise AttachError(f"the shared daemon did not start; {log_tail(place)}")


def open_door(place: Place, broker: Broker) -> Listener:
    """Let this user's clients in at a free port, which the place's file names. Raises AttachError."""
    from sidecar.attach.tcp import bind_loopback

    return open_port(bind_loopback("127.0.0.1:0"), place, broker)


def open_port(port: socket.socket, place: Place, broker: Broker) -> Listener:
    """Let clients in at *port* that have read the token, and say in the place's file where that is."""
    from sidecar.attach.listener import Listener
    from sidecar.attach.streams import SocketStream, greet, over_socket
    from sidecar.attach.tcp import TokenDesk, write_tcp_file

    token = secrets.token_urlsafe()
    desk = TokenDesk(token)

    async def admit(stream: SocketStream) -> bool:
        return await desk.ask(stream) and await greet(stream)

    door = Listener(port, desk.has_room, lambda found: broker.take(over_socket(found), admit))
    write_tcp_file(place.tcp, port, token)
    return door


def _is_held(place: Place) -> bool:
    """Whether a daemon lives."""
    if not place.lock.exists():
        return False
    lock = FileLock(place.lock)
    try:
        return not lock.try_take()
    finally:
        lock.release()


def _run_detached(command: Sequence[str], log: int) -> int:
    """Run *command* so that it outlives its starter; return the end of its output to read from.

    An editor may keep what it starts in a job that ends with it; where that forbids to leave, so be it.
    """
    read_fd, write_fd = os.pipe()
    try:
        for flags in dict.fromkeys((_DETACHED | _BREAKAWAY, _DETACHED)):
            with suppress(PermissionError):
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=write_fd,
                    stderr=log,
                    creationflags=flags,
                    start_new_session=os.name != "nt",
                )
                child.returncode = 0  # nobody's child: it is not waited for, and must not be warned about
                return read_fd
        os.close(read_fd)
        raise PermissionError(13, "not allowed", command[0])
    finally:
        os.close(write_fd)


def _first_word(read_fd: int) -> bytes:
    try:
        return os.read(read_fd, 4096)
    finally:
        os.close(read_fd)
