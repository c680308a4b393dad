"""A small HTTP server on the loopback: answers as it is told, byte by byte, and remembers what it was asked.

It can drip, fall silent, cut the line and see that a client hung up. For tests; it checks nothing of HTTP
that a client would have to get wrong first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Asked:
    """One request; header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON, None when there is none."""
        return json.loads(self.body) if self.body else None


@dataclass(frozen=True, slots=True)
class Cut:
    """Break the connection without a word."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing more until the client hangs up."""


@dataclass(frozen=True, slots=True)
class Until:
    """Go on when *event* is set."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class Drip:
    """Send *data* again and again, *times* in all, with a pause of *every_s* seconds before each."""

    data: bytes
    times: int
    every_s: float


Piece: TypeAlias = bytes | Cut | Hang | Until | Drip
"""What is done next of an answer: bytes are sent at once, as a write of their own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One response."""

    pieces: Iterable[Piece] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class FakeHttp:
    """A running server. *asked* holds every request so far, oldest first."""

    def __init__(self, answer: Callable[[Asked], Answer]) -> None:
        self.asked: list[Asked] = []
        self.url = ""
        self.was_asked = asyncio.Event()
        """Set by the first request."""
        self.hung_up = asyncio.Event()
        """Set when a client has gone in the middle of an answer."""
        self._answer = answer
        self._lines: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    async def start(self) -> Callable[[], Awaitable[None]]:
        """Listen on a free port; return how to stop."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"

        async def stop() -> None:
            server.close()
            # A connection that was accepted a moment ago is known a few turns of the loop later.
            for _ in range(4):
                await asyncio.sleep(0)
                for line in self._lines:
                    line.transport.abort()
            await asyncio.gather(*self._lines.values())

        return stop

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = self._lines[writer] = asyncio.ensure_future(self._converse(reader, writer))
        await line
        del self._lines[writer]

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until either side ends it."""
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                self.was_asked.set()
                if not await self._send(reader, writer, self._answer(asked)):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> bool:
        """Send *answer*; False when the connection is over with it."""
        headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **answer.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {answer.status} Fake\r\n{lines}\r\n".encode())
        for piece in answer.pieces:
            match piece:
                case Cut():
                    await writer.drain()
                    writer.transport.abort()
                    return False
                case Hang():
                    await writer.drain()
                    await reader.read(1)
                    self.hung_up.set()
                    return False
                case Until(event=event):
                    await writer.drain()
                    if not await _comes_before_the_end(event, reader):
                        self.hung_up.set()
                        return False
                case Drip(data=data, times=times, every_s=every_s):
                    for _ in range(times):
                        await asyncio.sleep(every_s)
                        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
                        await writer.drain()
                case bytes():
                    writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@asynccontextmanager
async def serve_http(answer: Callable[[Asked], Answer]) -> AsyncIterator[FakeHttp]:
    """Serve *answer* on the loopback while the context is open."""
    server = FakeHttp(answer)
    stop = await server.start()
    try:
        yield server
    finally:
        await stop()


async def _comes_before_the_end(event: asyncio.Event, reader: asyncio.StreamReader) -> bool:
    """Wait for *event*; False when the client hangs up first."""
    waits = {asyncio.ensure_future(event.wait()), asyncio.ensure_future(reader.read(1))}
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    return event.is_set()


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    """Return the next request, None when the client has left between two."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body)
