"""The unix socket of the shared daemon, at which the holder of the daemon's lock listens.

Only processes of this user are admitted, as reported by the kernel; the folder of the socket keeps others out
already.
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
from sidecar.attach.connecting import peer_uid
from sidecar.attach.listener import Admit, Listener
from sidecar.attach.paths import DaemonPaths
from sidecar.attach.streams import over_socket, read_hello

assert sys.platform != "win32"  # there :mod:`sidecar.attach.tcp` listens

_log = logging.getLogger("sidecar.attach")


def open_listener(paths: DaemonPaths, broker: Broker) -> UnixListener:
    """Serve this user's clients at the socket of *paths*. Raises OSError when it cannot be created."""
    return UnixListener(
        paths.socket, admit_own_user(), lambda found: broker.serve(over_socket(found), read_hello)
    )


def admit_own_user(uid_of: Callable[[socket.socket], int] = peer_uid) -> Admit:
    """Return a check that admits processes of this user; *uid_of* returns the user of a connection."""

    def admit(connection: socket.socket) -> bool:
        uid = uid_of(connection)
        if uid != os.geteuid():
            _log.error(f"a process of user {uid} was refused")
        return uid == os.geteuid()

    return admit


class UnixListener(Listener):
    """Listens at *path*. The caller holds the daemon's lock, so that an existing socket is stale.

    Raises OSError when the socket cannot be created.
    """

    def __init__(self, path: Path, admit: Admit, serve: Callable[[socket.socket], None]) -> None:
        self._path = path
        self._hidden = path.with_suffix(".leaving")
        for stale in (path, self._hidden):
            stale.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(str(path))
            path.chmod(0o600)
            super().__init__(listening, admit, serve)
        except BaseException:
            listening.close()
            raise

    def hide(self) -> None:
        """Rename the socket: no new client can connect, and waiting ones can still be accepted."""
        with suppress(FileNotFoundError):  # it was removed, so that no client can connect either
            self._path.rename(self._hidden)

    def show(self) -> None:
        """Give the socket its name again."""
        with suppress(FileNotFoundError):
            self._hidden.rename(self._path)

    def close(self) -> None:
        """Accept no more clients, and remove the socket."""
        if not self._task.cancelling():
            for path in (self._path, self._hidden):
                with suppress(OSError):
                    path.unlink()
        super().close()
