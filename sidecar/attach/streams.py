"""The stream of one attached client: a socket with a preamble, and with a farewell for a shim."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress
from typing import Final

from sidecar.attach.shim import FAREWELL, HELLO
from sidecar.transport.processes import is_alive, is_process_id
from sidecar.transport.streams import TransportStream

_POLL_S: Final = 1.0


class SocketStream(TransportStream):
    """A connected socket; the class is asyncio's protocol factory.

    Attributes:
        is_shim: whether the client is a shim, which waits for an exit code at the end.
        exit_code: sent to a shim at the end; with None nothing is sent, and the shim reports a dead daemon.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_shim = False
        self.exit_code: int | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def early_bytes(self) -> bytes:
        """The bytes that came before a receiver did."""
        return b"".join(self._early)

    def close_after_process(self, pid: int | None) -> None:
        """Close when process *pid* has ended, or at once when it is gone; None and 0 are ignored.

        The client of a shim may be on another machine, where *pid* means nothing here. A shim ends with it.
        """

        async def watch(pid: int) -> None:
            await wait_until_gone(pid)
            self.close()

        if is_process_id(pid) and self._watch is None and not self.is_shim:
            self._watch = asyncio.ensure_future(watch(pid))

    async def take_line(self, limit: int) -> bytes | None:
        """Remove the first line from the input, and return it with its end.

        Returns None, with nothing removed, when there is none within *limit* bytes or before the input ends.
        """
        while True:
            await self._first_input.wait()
            head = self.early_bytes
            line, end, rest = head.partition(b"\n")
            if end and len(line) < limit:
                self._early = [rest] if rest else []
                if not rest and not self._is_ended:
                    self._first_input.clear()
                    self.resume_reading()
                return line + end
            if len(head) >= limit or self._is_ended:
                return None
            self._first_input.clear()
            self.resume_reading()

    def close(self) -> None:
        """Send a shim the exit code, if the client has ended the connection, then close."""
        if self.is_shim and self.exit_code is not None and self.has_room:
            self.write(FAREWELL + b"%d" % self.exit_code)
        super().close()
        if self._watch is not None:
            self._watch.cancel()


async def over_socket(connection: socket.socket) -> SocketStream:
    """Return the stream over a connected socket, which it owns from now on."""
    _, stream = await asyncio.get_running_loop().connect_accepted_socket(SocketStream, connection)
    return stream


async def read_hello(stream: SocketStream) -> None:
    """Remove the hello of a shim; every other first line belongs to the protocol."""
    first = await stream.peek()
    if first[:1] == HELLO[:1]:
        stream.is_shim = await stream.take_line(len(HELLO)) == HELLO


async def wait_until_gone(pid: int) -> None:
    """Return when there is no process *pid*."""
    if sys.platform == "linux":
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            loop, ended = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(descriptor, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
            return
    while is_alive(pid):  # noqa: ASYNC110  # there is nothing else to wait for
        await asyncio.sleep(_POLL_S)
