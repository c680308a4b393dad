"""Many clients of one daemon: each is served on its own, and the daemon leaves when nobody needs it.

What one client does, or fails to do, reaches no other: each has its own connection, task and face. Knows no
method and no session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from sidecar._internal.errors import log_fault
from sidecar.attach.streams import SocketStream
from sidecar.transport.lifetime import ExitReason, SupervisedConnection

__all__ = ["Broker", "Door", "OpenFace", "Opening"]

Opening: TypeAlias = Callable[[SocketStream], Awaitable[bool]]
"""Takes what a connection says before the protocol; False refuses it, and has told it so."""

OpenFace: TypeAlias = Callable[[SocketStream], Awaitable[SupervisedConnection]]
"""Returns the face of a connection, listening."""

_CLOSE_S: Final = 0.5
"""How long the last answers and bytes to a client that leaves may take, each."""

_LOOK_AGAIN_S: Final = 0.1


class Door(Protocol):
    """Where clients come in."""

    def hide(self) -> None:
        """Let nobody find it any more."""
        ...

    def show(self) -> None:
        """Let it be found again."""
        ...

    @property
    def is_asked(self) -> bool:
        """Whether somebody waits to be let in."""
        ...

    def close(self) -> None:
        """Let nobody in any more."""
        ...


class Broker:
    """The clients of one daemon, supervised together: see :class:`SupervisedConnection`.

    Attributes:
        idle_s: how long the daemon stays without a client and without work, in seconds.

    Args:
        open_face: makes the face of each connection.
        is_busy: whether there is work that has to be finished without any client.
        first_s: how long the first client is waited for at least: whoever started the daemon is on its way.
    """

    def __init__(
        self, open_face: OpenFace, is_busy: Callable[[], bool], idle_s: float, *, first_s: float = 0.0
    ) -> None:
        self.idle_s = idle_s
        self._open_face = open_face
        self._is_busy = is_busy
        self._doors: list[Door] = []
        self._faces: set[SupervisedConnection] = set()
        self._clients: set[asyncio.Task[None]] = set()
        self._close_s = _CLOSE_S
        self._idle = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._wait_for_clients(max(idle_s, first_s))

    def add_door(self, door: Door) -> None:
        """Let clients in by *door*, which is closed at the end."""
        self._doors.append(door)

    def take(self, connecting: Awaitable[SocketStream], opening: Opening) -> None:
        """Serve one more client."""
        self._stop_waiting()
        task = asyncio.ensure_future(self._admit(connecting, opening))
        self._clients.add(task)
        task.add_done_callback(self._left)

    async def wait_ended(self) -> ExitReason:
        """Return once there was neither a client nor work for the idle time."""
        await self._idle.wait()
        return ExitReason(f"nobody came for {self.idle_s:g} s", 0)

    def announce_end(self, reason: str, in_s: float) -> None:
        """Let nobody in any more, and tell those who are here."""
        self._stop_waiting()
        for door in self._doors:
            door.close()
        for face in tuple(self._faces):
            face.announce_end(reason, in_s)

    async def aclose(self, seconds: float) -> None:
        """Let go of every client, all at once; in about *seconds*."""
        self._close_s = seconds
        for task in tuple(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _admit(self, connecting: Awaitable[SocketStream], opening: Opening) -> None:
        stream = await connecting
        try:
            if await opening(stream):
                await self._serve(stream)
        finally:
            stream.close()

    async def _serve(self, stream: SocketStream) -> None:
        face = await self._open_face(stream)
        self._faces.add(face)
        try:
            stream.exit_code = (await face.wait_ended()).code
        finally:
            self._faces.discard(face)
            await face.aclose(self._close_s)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._clients.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log_fault("serving a client", error)
        self._wait_for_clients(self.idle_s)

    def _wait_for_clients(self, seconds: float) -> None:
        if not self._clients and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._leave_if_idle)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave_if_idle(self) -> None:
        """Leave, unless there is work or somebody came at the last moment."""
        for door in self._doors:
            door.hide()
        if not self._is_busy() and not any(door.is_asked for door in self._doors):
            self._idle.set()
            return
        for door in self._doors:
            door.show()
        delay_s = max(self.idle_s, _LOOK_AGAIN_S)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._leave_if_idle)
