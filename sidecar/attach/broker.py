"""The broker: many clients of one daemon, and the daemon's end when no client needs it.

Each client has its own connection, task and front end, so that a client that fails, floods or stalls affects
no other. The broker knows no method and no session.

A daemon that belongs to one client, such as an editor, and ends with it, has guests: it listens at a unix
socket with its process id for a name, in the folder that its user alone can enter. A program that finds a
session locked gets that process id with the error, and joins there. The life of the daemon does not depend on
its guests, and nothing fails because they cannot come. On Windows none can.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from sidecar._internal.errors import log_fault
from sidecar.attach.listening import Listener
from sidecar.attach.paths import AttachError, DaemonPaths, guest_socket
from sidecar.attach.streams import SocketStream, over_socket, read_hello
from sidecar.transport.lifetime import ExitReason, SupervisedConnection
from sidecar.transport.processes import is_alive

Authenticate: TypeAlias = Callable[[SocketStream], Awaitable[bool]]
"""Reads the proof that a client may come; False refuses the connection, which has got its error by then."""

OpenFrontend: TypeAlias = Callable[[SocketStream], Awaitable[SupervisedConnection]]
"""Returns the front end of a connection, which has begun to read."""

_CLOSE_S: Final = 0.5
"""The time for the last answers and bytes to a client that leaves, each."""

_LOOK_AGAIN_S: Final = 0.1
_FOREVER_S: Final = 7 * 24 * 3600.0

_log = logging.getLogger("sidecar.attach")


class Broker:
    """The clients of one daemon, supervised together: see :class:`SupervisedConnection`.

    Attributes:
        idle_s: how long the daemon stays without a client and without work, in seconds.

    Args:
        open_frontend: makes the front end of each connection.
        is_busy: whether there is work to finish without any client.
        first_s: the least time to wait for the first client, in seconds: the daemon's starter will connect.
    """

    def __init__(
        self, open_frontend: OpenFrontend, is_busy: Callable[[], bool], idle_s: float, *, first_s: float = 0.0
    ) -> None:
        self.idle_s = idle_s
        self._open_frontend = open_frontend
        self._is_busy = is_busy
        self._listeners: list[Listener] = []
        self._frontends: set[SupervisedConnection] = set()
        self._clients: set[asyncio.Task[None]] = set()
        self._close_s = _CLOSE_S
        self._idle = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._wait_for_clients(max(idle_s, first_s))

    def add_listener(self, listener: Listener) -> None:
        """Add a listener, which is closed at the end."""
        self._listeners.append(listener)

    def serve(self, connection: socket.socket, authenticate: Authenticate | None = None) -> None:
        """Serve one more client, in a task of its own; None stands for a client that is known already."""

        async def serve_client() -> None:
            stream = await over_socket(connection)
            try:
                if authenticate is not None and not await authenticate(stream):
                    return
                await read_hello(stream)
                frontend = await self._open_frontend(stream)
                self._frontends.add(frontend)
                try:
                    stream.exit_code = (await frontend.wait_ended()).code
                finally:
                    self._frontends.discard(frontend)
                    await frontend.aclose(self._close_s)
            finally:
                stream.close()

        def on_done(task: asyncio.Task[None]) -> None:
            self._clients.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log_fault("serving a client", error)
            self._wait_for_clients(self.idle_s)

        self._stop_waiting()
        task = asyncio.ensure_future(serve_client())
        self._clients.add(task)
        task.add_done_callback(on_done)

    async def wait_ended(self) -> ExitReason:
        """Return once there has been neither a client nor work for the idle time."""
        await self._idle.wait()
        return ExitReason(f"no client for {self.idle_s:g} s", 0)

    def announce_end(self, reason: str, in_s: float) -> None:
        """Accept no more clients, and notify the present ones."""
        self._stop_waiting()
        for listener in self._listeners:
            listener.close()
        for frontend in tuple(self._frontends):
            frontend.announce_end(reason, in_s)

    async def aclose(self, seconds: float) -> None:
        """Close every connection, all at the same time, in about *seconds*."""
        self._close_s = seconds
        for task in tuple(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def _wait_for_clients(self, seconds: float) -> None:
        if not self._clients and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._leave_if_idle)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave_if_idle(self) -> None:
        """Leave, unless there is work or a client connected at the last moment."""
        for listener in self._listeners:
            listener.hide()
        if not self._is_busy() and not any(listener.has_waiting for listener in self._listeners):
            self._idle.set()
            return
        for listener in self._listeners:
            listener.show()
        delay_s = max(self.idle_s, _LOOK_AGAIN_S)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._leave_if_idle)


def admit_guests(home: Path, open_frontend: OpenFrontend) -> Listener | None:
    """Listen for guests of this process; None when that is not possible. Close it at the end."""
    if sys.platform != "win32":
        from sidecar.attach.listening import UnixListener

        path = guest_socket(home, os.getpid())
        try:
            DaemonPaths(home).make()
            remove_stale_sockets(path.parent)
            return UnixListener(path, Broker(open_frontend, lambda: True, _FOREVER_S).serve)
        except (AttachError, OSError) as error:
            _log.info(f"no other client can join: {type(error).__name__}")
    return None


def remove_stale_sockets(folder: Path) -> None:
    """Remove the sockets in *folder* of daemons that were killed."""
    for path in folder.glob("*-*.sock"):
        pid = path.stem.rpartition("-")[2]
        if pid.isdecimal() and not is_alive(int(pid)):
            with suppress(OSError):
                path.unlink()
