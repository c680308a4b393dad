"""A stream for what asyncio cannot wait for: regular files, terminals, the pipes of Windows.

Two daemon threads do the blocking calls; they never hold the process, and end with it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from sidecar.transport.stdio import ProtocolFds
from sidecar.transport.streams import StreamBase

__all__ = ["ThreadStream"]

T = TypeVar("T")

_CHUNK_BYTES: Final = 256 * 1024


class ThreadStream(StreamBase):
    """Two descriptors that asyncio cannot wait for, read and written by one daemon thread each."""

    def __init__(self, fds: ProtocolFds) -> None:
        super().__init__()
        self._fds = fds
        self._loop = asyncio.get_running_loop()
        self._may_read = threading.Event()
        self._may_read.set()
        self._is_paused = False
        self._unsent: bytes | None = None
        self._to_write = threading.Semaphore(0)
        for work in (self._read, self._write):
            threading.Thread(target=work, name="sidecar-stdio", daemon=True).start()

    @property
    def has_room(self) -> bool:
        """Whether everything written so far is on its way."""
        return self._unsent is None and not self._is_lost

    def pause_reading(self) -> None:
        """Take nothing more from the client until told to."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Go on reading."""
        self._is_paused = False
        self._may_read.set()

    def write(self, data: bytes) -> None:
        """Send *data*; after the loss it is dropped."""
        if not self._is_lost:
            self._unsent = data
            self._to_write.release()

    def close(self) -> None:
        """Let go; a thread that waits in the kernel ends with the process."""
        self._end(is_lost=True)
        self._unsent = None
        self._to_write.release()
        self._may_read.set()

    def _read(self) -> None:
        while self._may_read.wait():
            self._may_read.clear()
            try:
                data = os.read(self._fds.read_fd, _CHUNK_BYTES)
            except OSError:
                data = b""
            if self._is_lost or not self._call(self._taken, data) or not data:
                return

    def _taken(self, data: bytes) -> None:
        if not data:
            self._end(is_lost=False)
            return
        self._take(data)
        if not self._is_paused:
            self._may_read.set()

    def _write(self) -> None:
        while self._to_write.acquire():
            data = self._unsent
            if data is None or not self._call(self._written, _write_all(self._fds.write_fd, data)):
                return

    def _written(self, is_sent: bool) -> None:
        self._unsent = None
        if not is_sent:
            self._end(is_lost=True)
        elif self._receiver is not None and not self._is_lost:
            self._receiver.writable()

    def _call(self, function: Callable[[T], None], argument: T) -> bool:
        """Run *function* in the loop; False when there is no loop any more."""
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:
            return False
        return True


def _write_all(fd: int, data: bytes) -> bool:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        return False
    return True
