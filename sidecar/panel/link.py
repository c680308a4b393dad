"""The link of one page to the shared daemon: a process that joins it, as an editor would start.

It carries message bodies and reads none of them. The process starts the daemon when it is not running, on
every system, and ends with its input.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final, Self

from sidecar.protocol.framing import BrokenStream, HeaderDecoder, Oversized, frame_with_header

_CHUNK_BYTES: Final = 256 * 1024
_GRACE_S: Final = 3.0
_TAIL_BYTES: Final = 4096


class DaemonLink:
    """A connection to the daemon, for one page."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._errors = b""
        self._reading = asyncio.ensure_future(self.keep_errors(process.stderr))

    @classmethod
    async def open(cls, command: Sequence[str], folder: str) -> Self:
        """Return a link by *command*, started in *folder*. Raises OSError."""
        return cls(
            await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=folder)
        )

    async def send(self, body: bytes) -> None:
        """Send one message; nothing happens when the daemon is gone."""
        with suppress(ConnectionError):
            self._stdin.write(frame_with_header(body))
            await self._stdin.drain()

    async def bodies(self) -> AsyncIterator[bytes]:
        """Yield the messages of the daemon until it is gone."""
        decoder = HeaderDecoder()
        while data := await self._stdout.read(_CHUNK_BYTES):
            decoder.feed(data)
            while (frame := decoder.next()) is not None:
                if isinstance(frame, BrokenStream):
                    return
                if not isinstance(frame, Oversized):
                    yield frame

    async def aclose(self) -> str:
        """End the process, and return the last line that it wrote to its log, empty when there is none."""
        self._stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _GRACE_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading
        return next(reversed(self._errors.decode("utf-8", "replace").split("\n")[:-1]), "")

    async def keep_errors(self, stream: asyncio.StreamReader) -> None:
        """Read the log of the process to its end, and keep the last of it."""
        while data := await stream.read(_TAIL_BYTES):
            self._errors = (self._errors + data)[-_TAIL_BYTES:]
