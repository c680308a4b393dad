"""The server of the panel: the files of the page, and a link to the daemon for each page with the token.

Any program and any page of another site can reach a loopback port. So three things must hold for a request:

- Its ``Host`` is the address of this server; a name that was bound to this machine is another one.
- Its ``Origin``, where it has one, is this server. All but the files of the page need one.
- It has the token, as all but the files do. Only this user was given it: in the fragment of the address,
  which a browser never sends.

A request without the token is read as far as its head. There are few at a time, and the one that waits
longest makes way for the next, so that strangers cost little memory and keep nobody out.

The page reads a stream of messages, one on each line, and posts its own. The first line names the channel to
post to. Fetched like this, another site can cause nothing: a browser would ask first, and is refused. The
server listens no longer than it is needed: it ends when no page has been open for a while.

The link of a page is a process that joins the shared daemon, as an editor would start. It carries message
bodies and reads none of them, starts the daemon when it is not running, and ends with its input. No
connection is kept open for a second request, so a response may end where the connection does. That is how an
answer of unknown length is streamed.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, Self

from sidecar._internal.async_cancel import keep_until_done
from sidecar._internal.errors import log_fault
from sidecar._internal.values import Value
from sidecar.protocol.framing import BrokenStream, HeaderDecoder, Oversized, frame_with_header
from sidecar.transport.bounds import Strangers

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
HEAD_BYTES: Final = 16 * 1024
"""The most bytes of a request line and its headers."""

_LENGTH: Final = re.compile(r"[0-9]{1,15}")


class RequestError(Exception):
    """A request that is refused.

    Attributes:
        status: the status of the response.
    """

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class PageRequest(Value):
    """The head of one request; the names of *headers* are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


async def read_head(reader: asyncio.StreamReader) -> PageRequest:
    """Return the request of a connection without its body, which nobody need hold for a stranger.

    Raises RequestError, and IncompleteReadError at the end of the connection.
    """
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
    except (asyncio.LimitOverrunError, UnicodeDecodeError):
        raise RequestError(HTTPStatus.BAD_REQUEST, "the head of the request cannot be read") from None
    line, *lines = head.rstrip("\r\n").split("\r\n")
    pairs = [
        (name.strip().lower(), value.strip()) for name, _, value in (each.partition(":") for each in lines)
    ]
    headers = dict(pairs)
    words = line.split(" ")
    length = headers.get("content-length", "0")
    if (
        len(words) != 3
        or not all(words)
        or len(headers) != len(pairs)
        or not _LENGTH.fullmatch(length)
        or "transfer-encoding" in headers
    ):
        raise RequestError(HTTPStatus.BAD_REQUEST, "the head of the request is not understood")
    if int(length) > MAX_BODY_BYTES:
        raise RequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a message has at most {MAX_BODY_BYTES} bytes"
        )
    return PageRequest(words[0], words[1].partition("?")[0], headers)


def response(status: HTTPStatus, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Return a response, or with an empty *body* and no Content-Length in *headers* the head of a stream."""
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join((*lines, "Connection: close", "", "")).encode("ascii") + body


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


UNUSED_S: Final = 60.0
"""How long the server stays without an open page, in seconds. A page that is reloaded is back at once."""

_STRANGER_S: Final = 10.0
_MAX_STRANGERS: Final = 32
"""The time for a connection without the token, and the most of them at a time."""

KINDS: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
"""The type of each kind of file of the page."""

_SAFE_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def page_files() -> dict[str, bytes]:
    """Return the files of the page by their paths below the server."""
    folder = files("sidecar.panel") / "page"
    found = {f"/{each.name}": each.read_bytes() for each in folder.iterdir() if each.is_file()}
    return {"/": found["/index.html"], **found}


class PanelServer:
    """The panel of one folder, at a free port of the loopback interface.

    Args:
        command: starts a process that joins the daemon on its standard input and output.
        folder: the folder of new conversations; *command* is started there.
        session: the conversation to open: the start of its id, ``last``, or empty for a choice.
        unused_s: how long to stay without an open page.
    """

    def __init__(self, command: Sequence[str], folder: str, session: str, unused_s: float = UNUSED_S) -> None:
        self._command = command
        self._greeting = {"folder": folder, "session": session}
        self._token = secrets.token_urlsafe(32)
        self._files = page_files()
        self._links: dict[str, DaemonLink] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._strangers = Strangers(_MAX_STRANGERS, _STRANGER_S)
        self._unused_s = unused_s
        self._timer: asyncio.TimerHandle | None = None
        self._is_unused = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._host = ""

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"http://{self._host}/#token={self._token}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self.accept, "127.0.0.1", 0, limit=HEAD_BYTES)
        self._host = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._wait_for_pages()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait_unused(self) -> None:
        """Return when no page has been open for the time that it may take to open one."""
        await self._is_unused.wait()

    def _wait_for_pages(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._unused_s, self._is_unused.set)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a task of its own."""
        keep_until_done(asyncio.ensure_future(self.serve(reader, writer)), self._tasks)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the request of a connection, and close it."""
        try:
            async with self._strangers.admit():
                request = await read_head(reader)
                self.check(request)
                if request.method == "GET":
                    writer.transport.set_write_buffer_limits(high=0)  # drained when the kernel has all of it
                    writer.write(self.file(request.path))
                    await writer.drain()
                    return
            body = await reader.readexactly(int(request.headers.get("content-length", "0")))
            if request.path == "/events":
                await self.stream(reader, writer, body)
            else:
                writer.write(await self.take(request.path, body))
        except RequestError as error:
            headers = {**_SAFE_HEADERS, "Content-Type": "text/plain; charset=utf-8"}
            writer.write(response(error.status, headers, f"{error}\n".encode()))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client is gone
        except TimeoutError:  # it does not read, either
            writer.transport.abort()
        except Exception as error:
            log_fault("serving the panel", error)
        finally:
            with suppress(ConnectionError):
                writer.close()
                await writer.wait_closed()

    def check(self, request: PageRequest) -> None:
        """Raise RequestError unless *request* comes from the page of this server, or fetches a part of it."""
        origin = request.headers.get("origin")
        if request.headers.get("host") != self._host or origin not in (None, f"http://{self._host}"):
            raise RequestError(HTTPStatus.FORBIDDEN, "this address is not the panel's own")
        if request.method == "GET" and request.path in self._files:
            return
        if request.method != "POST":
            raise RequestError(HTTPStatus.NOT_FOUND, "there is no such page")
        known = f"Bearer {self._token}"
        given = request.headers.get("authorization", "")
        if origin is None or not hmac.compare_digest(given.encode(), known.encode()):
            raise RequestError(HTTPStatus.UNAUTHORIZED, "open the panel with the address that it printed")

    def file(self, path: str) -> bytes:
        """Return the response with a file of the page."""
        kind = KINDS[path.rpartition(".")[2] if path != "/" else "html"]
        return _plain_response(self._files[path], f"{kind}; charset=utf-8")

    async def take(self, path: str, body: bytes) -> bytes:
        """Send the messages that a page posts, and return the response."""
        link = self._links.get(path.removeprefix("/send/"))
        if link is None:
            raise RequestError(HTTPStatus.GONE, "the connection of this page has ended")
        for line in body.splitlines():
            await link.send(line)
        return _plain_response(b"", "text/plain")

    async def stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pid: bytes) -> None:
        """Send the messages of the daemon until it or the page is gone.

        *pid* names a process, to join its own daemon; it is empty for the shared one.
        """
        join = ("--join", pid.decode()) if pid.isdigit() else ()
        headers = {**_SAFE_HEADERS, "Content-Type": "application/x-ndjson"}
        writer.write(response(HTTPStatus.OK, headers))
        channel = secrets.token_urlsafe(8)
        try:
            link = self._links[channel] = await DaemonLink.open(
                (*self._command, *join), self._greeting["folder"]
            )
        except OSError as error:
            writer.write(_line({"over": f"the daemon cannot be started: {error.strerror}"}))
            return
        if self._timer is not None:
            self._timer.cancel()
        writer.write(_line({"channel": channel, **self._greeting}))
        sending = asyncio.ensure_future(self.send_all(link, writer))
        leaving = asyncio.ensure_future(reader.read(1))
        last = ""
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._links[channel]
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            last = await link.aclose()
            if not self._links:
                self._wait_for_pages()
        writer.write(_line({"over": last or "the daemon has ended"}))

    async def send_all(self, link: DaemonLink, writer: asyncio.StreamWriter) -> None:
        """Send every message of the daemon, no faster than the page takes them."""
        async for body in link.bodies():
            writer.write(body + b"\n")
            await writer.drain()


def _line(panel: Mapping[str, Any]) -> bytes:
    """Return a line about the panel itself."""
    return json.dumps({"panel": panel}).encode() + b"\n"


def _plain_response(body: bytes, kind: str) -> bytes:
    return response(
        HTTPStatus.OK, {**_SAFE_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}, body
    )
