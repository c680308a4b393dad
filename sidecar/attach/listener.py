"""A listening socket of the shared daemon.

Whoever may not come in is let go at once and costs nothing more. What a connection says is not read here.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
from collections.abc import Callable
from typing import Final, TypeAlias

from sidecar._internal.errors import log_fault

__all__ = ["Admit", "Listener"]

Admit: TypeAlias = Callable[[socket.socket], bool]
"""Whether a connection that was just accepted may stay."""

_BACKLOG: Final = 128
_RETRY_S: Final = 1.0
"""How long not to accept when the process has no descriptors left."""

_log = logging.getLogger("sidecar.attach")


class Listener:
    """Accepts on *listening*, which it owns, and hands those that *admit* lets in to *serve*."""

    def __init__(
        self, listening: socket.socket, admit: Admit, serve: Callable[[socket.socket], None]
    ) -> None:
        listening.setblocking(False)
        listening.listen(_BACKLOG)
        self._socket = listening
        self._admit = admit
        self._serve = serve
        self._task = asyncio.ensure_future(self._accept())
        self._task.add_done_callback(lambda _: listening.close())

    @property
    def is_asked(self) -> bool:
        """Whether somebody waits to be let in."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def hide(self) -> None:
        """Let nobody find it any more; a port cannot be hidden."""

    def show(self) -> None:
        """Let it be found again."""

    def close(self) -> None:
        """Accept nobody any more; again does nothing."""
        self._task.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                log_fault("accepting a client", error)
                await asyncio.sleep(_RETRY_S)
                continue
            self._take(connection)
            await asyncio.sleep(0)  # a crowd at the door must not keep the others waiting

    def _take(self, connection: socket.socket) -> None:
        try:
            is_welcome = self._admit(connection)
        except OSError as error:  # gone already
            log_fault("looking at who connects", error)
            is_welcome = False
        if is_welcome:
            connection.setblocking(False)
            self._serve(connection)
        else:
            connection.close()
