"""The unix socket of the shared daemon: who holds the place's lock listens there, whatever was left behind.

Lets nobody in but this user, as the kernel says; the folder around it keeps the others out already.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sidecar.attach.broker import Broker
from sidecar.attach.credentials import peer_uid
from sidecar.attach.listener import Admit, Listener
from sidecar.attach.place import Place
from sidecar.attach.streams import greet, over_socket

assert sys.platform != "win32"  # there :mod:`sidecar.attach.loopback` does it

__all__ = ["UnixListener", "admit_own", "open_door"]

_log = logging.getLogger("sidecar.attach")


def open_door(place: Place, broker: Broker) -> UnixListener:
    """Let this user's clients in at the socket of *place*. Raises OSError when there can be none."""
    return UnixListener(place.socket, admit_own(), lambda found: broker.take(over_socket(found), greet))


def admit_own(uid_of: Callable[[socket.socket], int] = peer_uid) -> Admit:
    """Return who may come in: processes of this user. *uid_of* asks the kernel for a connection's."""

    def admit(connection: socket.socket) -> bool:
        uid = uid_of(connection)
        if uid != os.geteuid():
            _log.error(f"a process of user {uid} was refused")
        return uid == os.geteuid()

    return admit


class UnixListener(Listener):
    """Listens at *path*, of which the caller holds the lock: what is there already is stale.

    Raises OSError when the socket cannot be made.
    """

    def __init__(self, path: Path, admit: Admit, serve: Callable[[socket.socket], None]) -> None:
        self._path = path
        self._hidden = path.with_suffix(".leaving")
        for left_over in (path, self._hidden):
            left_over.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(str(path))
            path.chmod(0o600)
            super().__init__(listening, admit, serve)
        except BaseException:
            listening.close()
            raise

    def hide(self) -> None:
        """Take the name off the socket: nobody can come in, and those who wait at it still can be let in."""
        with suppress(FileNotFoundError):  # somebody removed it: then nobody comes in either
            self._path.rename(self._hidden)

    def show(self) -> None:
        """Give the socket its name again."""
        with suppress(FileNotFoundError):
            self._hidden.rename(self._path)

    def close(self) -> None:
        """Accept nobody any more, and leave no file behind."""
        if not self._task.cancelling():
            for path in (self._path, self._hidden):
                with suppress(OSError):
                    path.unlink()
        super().close()
