"""What is typed or piped in, a line at a time, so that waiting for it can be given up at any moment."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from typing import Protocol, TextIO

__all__ = ["Lines", "raw_input_of"]

_CHUNK_BYTES = 64 * 1024


class _Raw(Protocol):
    def read(self, n: int, /) -> bytes | None: ...


class Lines:
    """The lines of *raw*, read by a thread that nobody has to wait for; made in a running loop.

    The thread reads past Python's buffers: their lock, held by a thread that waits, would stop the process
    from ending.
    """

    def __init__(self, raw: _Raw | None, *, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._raw = raw
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="sidecar-input", daemon=True).start()

    async def next(self, prompt: str = "") -> str | None:
        """Return the next line without its end, None when there are no more."""
        if self.is_terminal:
            sys.stderr.write(prompt) if not sys.stdout.isatty() else sys.stdout.write(prompt)
            sys.stdout.flush()
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)  # whoever asks once more is told the same
        return line

    def forget(self) -> None:
        """Drop what was typed before it was asked for; what is piped in stays."""
        while self.is_terminal and not self._lines.empty():
            if self._lines.get_nowait() is None:
                self._lines.put_nowait(None)
                return

    def _read(self) -> None:
        rest = b""
        while data := self._chunk():
            *lines, rest = (rest + data).split(b"\n")
            self._tell(lines)
        self._tell([rest] if rest else [])
        self._hand_over([None])

    def _chunk(self) -> bytes:
        try:
            return (self._raw.read(_CHUNK_BYTES) if self._raw else None) or b""
        except OSError:  # a terminal that went away
            return b""

    def _tell(self, lines: Sequence[bytes]) -> None:
        self._hand_over([line.decode("utf-8", "replace").rstrip("\r") for line in lines])

    def _hand_over(self, lines: Sequence[str | None]) -> None:
        """Give the loop what was read at once: who forgets what was typed forgets all of it."""
        try:
            self._loop.call_soon_threadsafe(self._take, lines)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def _take(self, lines: Sequence[str | None]) -> None:
        for line in lines:
            self._lines.put_nowait(line)


def raw_input_of(stream: TextIO | None) -> _Raw | None:
    """Return what *stream* reads from, None for a stream that is closed."""
    raw: _Raw | None = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw
