"""Streams over what asyncio's transports can wait for, pipes and sockets, and the choice among the adapters.

Never makes a terminal non-blocking: the shell it is shared with would suffer.
"""

from __future__ import annotations

import asyncio
import io
import os
import stat

from sidecar.transport.stdio import ProtocolFds
from sidecar.transport.streams import ByteStream, StreamBase
from sidecar.transport.threads import ThreadStream

__all__ = ["TransportStream", "open_stdio"]


class TransportStream(StreamBase, asyncio.Protocol):
    """A socket, or two pipes, driven by asyncio. For a socket pass the class as the protocol factory."""

    def __init__(self) -> None:
        super().__init__()
        self._reader: asyncio.ReadTransport | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._has_room = True
        self._is_paused = False

    @classmethod
    async def over_pipes(cls, fds: ProtocolFds) -> TransportStream:
        """Return the stream over two descriptors, which it owns from now on."""
        loop = asyncio.get_running_loop()
        stream = cls()
        await loop.connect_write_pipe(lambda: stream, io.FileIO(fds.write_fd, "wb"))
        await loop.connect_read_pipe(lambda: stream, io.FileIO(fds.read_fd, "rb"))
        return stream

    @property
    def has_room(self) -> bool:
        """Whether everything written so far is on its way."""
        return self._has_room and not self._is_lost

    def pause_reading(self) -> None:
        """Take nothing more from the client until told to."""
        if not self._is_paused and self._reader is not None and not self._is_ended:
            self._reader.pause_reading()
            self._is_paused = True

    def resume_reading(self) -> None:
        """Go on reading."""
        if self._is_paused and self._reader is not None and not self._is_ended:
            self._reader.resume_reading()
        self._is_paused = False

    def write(self, data: bytes) -> None:
        """Send *data*; after the loss it is dropped."""
        if self._writer is not None and not self._is_lost:
            self._writer.write(data)

    def close(self) -> None:
        """Let go of both ends; what was not sent yet is dropped."""
        self._end(is_lost=True)
        if self._writer is not None and not self._writer.is_closing():
            self._writer.abort()
        if self._reader is not None:
            self._reader.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport: of pipes the writing end comes first, a socket is both. Called by asyncio."""
        if self._writer is None:
            self._writer = transport  # type: ignore[assignment]  # asyncio types pipes as the base class
            # No mark but empty and not empty: room means that the kernel has everything.
            self._writer.set_write_buffer_limits(high=0)  # type: ignore[union-attr]  # assigned above
        self._reader = transport  # type: ignore[assignment]  # asyncio types pipes as the base class

    def data_received(self, data: bytes) -> None:
        """Pass it on. Called by asyncio."""
        self._take(data)

    def pause_writing(self) -> None:
        """Remember that the kernel takes no more. Called by asyncio."""
        self._has_room = False

    def resume_writing(self) -> None:
        """Tell that the kernel has everything. Called by asyncio."""
        self._has_room = True
        if self._receiver is not None and not self._is_lost:
            self._receiver.writable()

    def eof_received(self) -> bool:
        """Keep a socket open for answers after the end of its input. Called by asyncio."""
        self._end(is_lost=False)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the end; without the writing end it is the end of everything. Called by asyncio."""
        self._end(is_lost=self._writer is None or self._writer.is_closing())


async def open_stdio(fds: ProtocolFds) -> ByteStream:
    """Return the stream over the descriptors of :func:`sidecar.transport.stdio.take_stdio`."""
    if _can_be_waited_for(fds):
        return await TransportStream.over_pipes(fds)
    return ThreadStream(fds)


def _can_be_waited_for(fds: ProtocolFds) -> bool:
    """Whether asyncio's pipe transports fit.

    They make a descriptor non-blocking for everybody who has it: a terminal is shared with the shell, so
    it is left alone. Nor do they work with one socket for both ways.
    """
    if os.name == "nt":
        return False
    found = [os.fstat(fd) for fd in (fds.read_fd, fds.write_fd)]
    are_pipes = all(stat.S_ISFIFO(one.st_mode) or stat.S_ISSOCK(one.st_mode) for one in found)
    return are_pipes and found[0].st_ino != found[1].st_ino
