"""Standard input and output, reserved for the protocol, and a standard error that never blocks.

Taking them comes first, before anything heavy is imported. From then on a stray ``print``, a C library that
writes to descriptor 1, or a child process reaches standard error, and a child cannot read the client's input.
This module imports only cheap modules, and never puts the descriptors back.

Many programs start a daemon with a pipe for its errors and never read it. Such a pipe is full after some
64 kB of log, and then a write never returns. So a thread writes the errors, and drops them when too many
wait.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import sys
import threading
from dataclasses import dataclass
from typing import Final

_HELD_BYTES: Final = 1024 * 1024
"""The most bytes that wait for a reader of standard error; more are dropped."""

_DRAIN_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class ProtocolFds:
    """The descriptors of the client's pipes, which children do not inherit."""

    read_fd: int
    write_fd: int


def take_stdio() -> ProtocolFds:
    """Move the client's pipes away from descriptors 0 and 1. Raises OSError when one of them is closed."""
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        os.fstat(2)
    except OSError:  # closed by the starter: without this, the client's pipe would become descriptor 2
        _move(os.open(os.devnull, os.O_WRONLY), 2)
    taken = ProtocolFds(os.dup(0), os.dup(1))
    _move(os.open(os.devnull, os.O_RDONLY), 0)
    _move(os.dup(2), 1)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # as long as the process
    sys.stdout = sys.stderr = stderr = LossyStderr(2)
    atexit.register(stderr.drain)
    if sys.platform == "win32":
        import msvcrt

        for fd in (taken.read_fd, taken.write_fd):
            msvcrt.setmode(fd, os.O_BINARY)  # or Windows turns LF into CR LF
    return taken


class LossyStderr(io.TextIOBase):
    """Text for the descriptor *fd*, written by a thread, in whole lines unless it is flushed.

    No method blocks but :meth:`drain`.
    """

    encoding = "utf-8"

    def __init__(self, fd: int) -> None:
        self._fd = fd
        # Reentrant, as a destructor may write a warning in the middle of another write.
        self._changed = threading.Condition(threading.RLock())
        self._held = bytearray()
        self._line = b""
        self._n_dropped = 0
        self._is_running = False

    def write(self, text: str) -> int:
        """Take *text*, or drop it when too much is waiting."""
        data = text.encode("utf-8", "backslashreplace")
        with self._changed:
            if len(self._held) + len(self._line) + len(data) > _HELD_BYTES:
                self._n_dropped += len(data)
                return len(text)
            lines, newline, rest = data.rpartition(b"\n")
            if newline:
                self._pass_on(self._line + lines + newline)
                self._line = rest
            else:
                self._line += data
        return len(text)

    def flush(self) -> None:
        """Write the line that has no end yet."""
        with self._changed:
            line, self._line = self._line, b""
            if line:
                self._pass_on(line)

    def drain(self, seconds: float = _DRAIN_S) -> None:
        """Wait until everything is written, but no longer than *seconds*."""
        self.flush()
        with self._changed:
            self._changed.wait_for(lambda: not self._is_running, seconds)

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def _pass_on(self, data: bytes) -> None:
        self._held += data
        if not self._is_running:
            self._is_running = True
            threading.Thread(target=self.write_held, name="sidecar-stderr", daemon=True).start()

    def write_held(self) -> None:
        """Write until nothing waits any more, in a thread."""
        while True:
            with self._changed:
                data = bytes(self._held)
                self._held.clear()
                if self._n_dropped:
                    data += b"[%d bytes of the log were dropped: nothing read them]\n" % self._n_dropped
                    self._n_dropped = 0
                if not data:
                    self._is_running = False
                    self._changed.notify_all()
                    return
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:  # its starter has made it non-blocking
                    select.select([], [self._fd], [])
                except OSError:  # its reader is gone
                    break


def _move(source: int, target: int) -> None:
    """Make *source* the descriptor *target*, which children inherit."""
    if source == target:
        os.set_inheritable(target, True)
        return
    os.dup2(source, target)
    os.close(source)
