"""Listening sockets of the shared daemon.

A connection that is not admitted is closed at once and costs nothing more. Nothing is read from a connection
here.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Final, TypeAlias

from sidecar._internal.errors import log_fault

Admit: TypeAlias = Callable[[socket.socket], bool]
"""Decides whether a connection that was just accepted may stay."""

_BACKLOG: Final = 128
_RETRY_S: Final = 1.0
"""How long to accept nothing when the process has no descriptors left."""


class Listener:
    """Accepts connections on a socket, which it owns.

    Args:
        listening: a bound socket.
        admit: decides about each connection.
        serve: receives each admitted connection, and owns it.
    """

    def __init__(
        self, listening: socket.socket, admit: Admit, serve: Callable[[socket.socket], None]
    ) -> None:
        listening.setblocking(False)
        listening.listen(_BACKLOG)
        self._socket = listening
        self._admit = admit
        self._serve = serve
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(lambda _: listening.close())

    @property
    def has_waiting(self) -> bool:
        """Whether a client waits to be accepted."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def hide(self) -> None:
        """Prevent new clients from finding it; nothing to do here, because a port cannot be hidden."""

    def show(self) -> None:
        """Let clients find it again."""

    def close(self) -> None:
        """Accept no more clients; a second call does nothing."""
        self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                log_fault("accepting a client", error)
                await asyncio.sleep(_RETRY_S)
                continue
            try:
                is_admitted = self._admit(connection)
            except OSError as error:  # the client is gone already
                log_fault("identifying a client", error)
                is_admitted = False
            if is_admitted:
                connection.setblocking(False)
                self._serve(connection)
            else:
                connection.close()
            await asyncio.sleep(0)  # many new clients must not keep the others waiting
