"""The stream of one attached client: a socket that may begin with a line of ours and end with a farewell."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from typing import Final

from sidecar.attach.manners import FAREWELL, HELLO
from sidecar.transport.processes import is_alive, is_process_id
from sidecar.transport.streams import TransportStream

__all__ = ["SocketStream", "greet", "over_socket"]

_POLL_S: Final = 1.0


class SocketStream(TransportStream):
    """A connected socket, before and after a face reads it; the class is asyncio's protocol factory.

    Attributes:
        hears_farewell: whether the client is a shim, which waits for an exit code at the end.
        exit_code: what to tell it; None tells nothing, and the shim that the daemon is gone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hears_farewell = False
        self.exit_code: int | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def early(self) -> bytes:
        """What has come in before anybody listens."""
        return b"".join(self._early)

    def end_with(self, pid: int | None) -> None:
        """Close when process *pid* is gone, at once when it is gone already; None and 0 are no process."""
        if is_process_id(pid) and self._watch is None:
            self._watch = asyncio.ensure_future(self._close_after(pid))

    async def take_line(self, limit: int) -> bytes | None:
        """Take the first line off the input, with its end.

        Returns None, with nothing taken, when there is none within *limit* bytes or before the input ends.
        """
        while True:
            await self._first_input.wait()
            head = self.early
            line, end, rest = head.partition(b"\n")
            if end and len(line) < limit:
                self._keep(rest)
                return line + end
            if len(head) >= limit or self._is_ended:
                return None
            self._first_input.clear()
            self.resume_reading()

    def close(self) -> None:
        """Say farewell to a shim whose client has ended the connection, then let go of it."""
        if self.hears_farewell and self.exit_code is not None and self.has_room:
            self.write(FAREWELL + b"%d" % self.exit_code)
        super().close()
        if self._watch is not None:
            self._watch.cancel()

    async def _close_after(self, pid: int) -> None:
        await _wait_until_gone(pid)
        self.close()

    def _keep(self, rest: bytes) -> None:
        """Leave *rest* alone for the face."""
        self._early = [rest] if rest else []
        if not rest and not self._is_ended:
            self._first_input.clear()
            self.resume_reading()


async def over_socket(connection: socket.socket) -> SocketStream:
    """Return the stream over a connected socket, which it owns from now on."""
    _, stream = await asyncio.get_running_loop().connect_accepted_socket(SocketStream, connection)
    return stream


async def greet(stream: SocketStream) -> bool:
    """Take the hello off a shim's connection; every other first line is the protocol's. Always True."""
    first = await stream.peek()
    if first[:1] == HELLO[:1]:
        stream.hears_farewell = await stream.take_line(len(HELLO)) == HELLO
    return True


async def _wait_until_gone(pid: int) -> None:
    """Return when there is no process *pid*."""
    if sys.platform == "linux":
        with suppress(OSError):
            fd = os.pidfd_open(pid)
            await _wait_until_readable(fd)
            return
    while is_alive(pid):  # noqa: ASYNC110  # there is nothing else to wait for
        await asyncio.sleep(_POLL_S)


async def _wait_until_readable(fd: int) -> None:
    """Return when there is something to read from *fd*, and close it."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
