"""Byte streams: one client's bytes, both ways, over pipes, a socket, or descriptors that need threads.

A stream never blocks the event loop, never looks into the bytes, and buffers at most one chunk each way. So
a writer checks :attr:`ByteStream.has_room` first. A terminal is never made non-blocking, because the shell
that shares it would suffer.
"""

from __future__ import annotations

import asyncio
import io
import os
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from sidecar.transport.stdio import ProtocolFds

T = TypeVar("T")

_CHUNK_BYTES: Final = 256 * 1024
_PIPE_BYTES: Final = 64 * 1024
"""What a pipe of Linux holds, so that no read of one finds more."""


class Receiver(Protocol):
    """The reader of a stream. No method raises."""

    def on_data(self, data: bytes) -> None:
        """Handle bytes that came in."""
        ...

    def on_writable(self) -> None:
        """Write more: there is room again."""
        ...

    def on_end(self) -> None:
        """Handle the end of input; called again when the way out is lost later than the way in."""
        ...


class ByteStream(ABC):
    """One open connection. All methods are called in the thread of the event loop.

    Here are its receiver, the bytes that came before there was one, and its end.
    """

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self._early: list[bytes] = []
        self._is_ended = False
        self._is_lost = False
        self._first_input = asyncio.Event()

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether everything written so far is on its way; always False once the way out is lost."""

    @property
    def is_lost(self) -> bool:
        """Whether the way out is lost."""
        return self._is_lost

    async def peek(self) -> bytes:
        """Return the first bytes and leave them for the receiver; empty at the end of input."""
        await self._first_input.wait()
        return b"".join(self._early)

    def open(self, receiver: Receiver) -> None:
        """Pass everything to *receiver*, beginning with the bytes that came before this call."""
        self._receiver = receiver
        early, self._early = self._early, []
        if early:
            self.resume_reading()
        for data in early:
            receiver.on_data(data)
        if self._is_ended:
            receiver.on_end()

    @abstractmethod
    def pause_reading(self) -> None:
        """Stop reading; one chunk that is already here may follow."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Read again."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send *data*. Contract: called only while there is room; after the loss *data* is dropped."""

    @abstractmethod
    def close(self) -> None:
        """Close both ends; unsent bytes are dropped."""

    def _deliver(self, data: bytes) -> None:
        """Pass *data* on, or keep it while there is no receiver."""
        if self._receiver is not None:
            self._receiver.on_data(data)
            return
        self._early.append(data)
        self.pause_reading()
        self._first_input.set()

    def _end(self, *, is_lost: bool) -> None:
        """Record the end of input, and with *is_lost* of output too; the receiver gets each change once."""
        is_news = not self._is_ended or (is_lost and not self._is_lost)
        self._is_lost = self._is_lost or is_lost
        self._is_ended = True
        self._first_input.set()
        if is_news and self._receiver is not None:
            self._receiver.on_end()


async def open_stdio(fds: ProtocolFds) -> ByteStream:
    """Return the stream over the descriptors of :func:`sidecar.transport.stdio.take_stdio`.

    Pipe transports of asyncio make a descriptor non-blocking for every process that shares it, as a shell
    shares its terminal, and they do not work with one socket for both ways. Everything but two separate
    pipes or sockets is therefore read and written by threads.
    """
    if os.name != "nt":
        found = [os.fstat(fd) for fd in (fds.read_fd, fds.write_fd)]
        are_pipes = all(stat.S_ISFIFO(one.st_mode) or stat.S_ISSOCK(one.st_mode) for one in found)
        if are_pipes and found[0].st_ino != found[1].st_ino:
            return await TransportStream.over_pipes(fds)
    return ThreadStream(fds)


class TransportStream(ByteStream, asyncio.Protocol):
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
        return self._has_room and not self._is_lost

    def pause_reading(self) -> None:
        if not self._is_paused and self._reader is not None and not self._is_ended:
            self._reader.pause_reading()
            self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused and self._reader is not None and not self._is_ended:
            self._reader.resume_reading()
        self._is_paused = False

    def write(self, data: bytes) -> None:
        if self._writer is not None and not self._is_lost:
            self._writer.write(data)

    def close(self) -> None:
        self._end(is_lost=True)
        if self._writer is not None and not self._writer.is_closing():
            self._writer.abort()
        if self._reader is not None:
            self._reader.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport: of two pipes the writing end comes first, a socket is both. For asyncio."""
        if self._writer is None:
            self._writer = transport  # type: ignore[assignment]  # asyncio types pipes as the base class
            # Room means that the kernel has every byte, so the only mark is "empty".
            self._writer.set_write_buffer_limits(high=0)  # type: ignore[union-attr]  # assigned above
        self._reader = transport  # type: ignore[assignment]  # asyncio types pipes as the base class
        # For each read asyncio allocates this much, and from 128 kB on the C library asks the kernel for it.
        self._reader.max_size = _PIPE_BYTES  # type: ignore[union-attr]  # an attribute of all its transports

    def data_received(self, data: bytes) -> None:
        """Deliver *data*. For asyncio."""
        self._deliver(data)

    def pause_writing(self) -> None:
        """Note that the kernel accepts no more. For asyncio."""
        self._has_room = False

    def resume_writing(self) -> None:
        """Let the receiver write: the kernel has everything. For asyncio."""
        self._has_room = True
        if self._receiver is not None and not self._is_lost:
            self._receiver.on_writable()

    def eof_received(self) -> bool:
        """Keep a socket open for answers after the end of its input. For asyncio."""
        self._end(is_lost=False)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """End the input, and the output unless its pipe is still open. For asyncio."""
        self._end(is_lost=self._writer is None or self._writer.is_closing())


class ThreadStream(ByteStream):
    """Two descriptors that asyncio cannot wait for: regular files, terminals, the pipes of Windows.

    One daemon thread reads and one writes; neither keeps the process from ending.
    """

    def __init__(self, fds: ProtocolFds) -> None:
        super().__init__()
        self._fds = fds
        self._loop = asyncio.get_running_loop()
        self._may_read = threading.Event()
        self._may_read.set()
        self._is_paused = False
        self._unsent: bytes | None = None
        self._to_write = threading.Semaphore(0)
        for loop in (self._run_reader, self._run_writer):
            threading.Thread(target=loop, name="sidecar-stdio", daemon=True).start()

    @property
    def has_room(self) -> bool:
        return self._unsent is None and not self._is_lost

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._may_read.set()

    def write(self, data: bytes) -> None:
        if not self._is_lost:
            self._unsent = data
            self._to_write.release()

    def close(self) -> None:
        """Close; a thread that is blocked in the kernel ends with the process."""
        self._end(is_lost=True)
        self._unsent = None
        self._to_write.release()
        self._may_read.set()

    def _run_reader(self) -> None:
        def finish(data: bytes) -> None:
            if not data:
                self._end(is_lost=False)
                return
            self._deliver(data)
            if not self._is_paused:
                self._may_read.set()

        while self._may_read.wait():
            self._may_read.clear()
            try:
                data = os.read(self._fds.read_fd, _CHUNK_BYTES)
            except OSError:
                data = b""
            if self._is_lost or not self._call_in_loop(finish, data) or not data:
                return

    def _run_writer(self) -> None:
        def finish(is_sent: bool) -> None:
            self._unsent = None
            if not is_sent:
                self._end(is_lost=True)
            elif self._receiver is not None and not self._is_lost:
                self._receiver.on_writable()

        while self._to_write.acquire():
            if (data := self._unsent) is None:
                return
            view, is_sent = memoryview(data), True
            try:
                while view:
                    view = view[os.write(self._fds.write_fd, view) :]
            except OSError:
                is_sent = False
            if not self._call_in_loop(finish, is_sent):
                return

    def _call_in_loop(self, function: Callable[[T], None], argument: T) -> bool:
        """Run *function* in the event loop; False when the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            return False
        return True
