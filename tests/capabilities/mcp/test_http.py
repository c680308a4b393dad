"""Servers over HTTP that do what the package's own never would, played by a few lines on a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.capabilities.mcp import HttpServer
from sidecar.capabilities.mcp.servers import ServerTimeouts

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("needs_mcp")]

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk
    from tests.capabilities.mcp.conftest import Rig


MiB = 1024 * 1024
DEEP = "[" * 100_000 + "]" * 100_000


class Web:
    """Answers with plain JSON: a tool that returns *text*, behind *status*; a DELETE it leaves hanging."""

    def __init__(self, text: str = "", status: str = "200 OK") -> None:
        self.text = text
        self.status = status
        self.is_asked_to_forget = asyncio.Event()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[HttpServer]:
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            yield HttpServer("web", f"http://127.0.0.1:{port}/mcp?key=s3cret")

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            if head.startswith("delete"):
                self.is_asked_to_forget.set()
                await reader.read()
            length = head.partition("content-length: ")[2].partition("\r\n")[0]
            message = json.loads(await reader.readexactly(int(length))) if length else {}
            writer.write(self._response(message))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # who is asked for no more than that has got it
        finally:
            writer.close()

    def _response(self, message: Mapping[str, Any]) -> bytes:
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "page", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": self.text}]},
        }
        result = results.get(message.get("method", ""))
        answer = {"jsonrpc": "2.0", "id": message.get("id"), "result": result}
        body = b"" if result is None else json.dumps(answer).replace('"DEEP"', DEEP).encode()
        status = self.status if body else "202 Accepted" if message else "405 Method Not Allowed"
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nMcp-Session-Id: s1\r\n"
        return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


async def test_an_answer_of_some_size_is_cut(rig: Rig, desk: Desk) -> None:
    async with Web("x" * MiB).serve() as server:
        await rig.start(server)
        output = await desk.output(rig.offered["mcp__web__page"])
        assert len(output) <= desk.max_output_chars + 100
        await rig.made[0].aclose()


async def test_an_answer_beyond_all_bounds_is_not_read_to_its_end(rig: Rig, desk: Desk) -> None:
    async with Web("x" * 17 * MiB).serve() as server:
        await rig.start(server)
        failed = await desk.failure(rig.offered["mcp__web__page"])
        assert failed.endswith("it is longer than 16 MiB")
        assert rig.warnings == []
        await rig.made[0].aclose()


class OlderWeb(Web):
    """The same by the older transport: every answer comes as an event on the first connection."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._events: asyncio.StreamWriter | None = None

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[HttpServer]:
        async with super().serve() as server:
            yield HttpServer("web", server.url, is_sse=True)
            assert self._events is not None
            self._events.close()
            await self._events.wait_closed()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        except asyncio.IncompleteReadError:  # a connection that was not needed after all
            writer.close()
            return
        if head.startswith("get"):
            self._events = writer
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            writer.write(b"event: endpoint\ndata: /post\n\n")
            return
        length = head.partition("content-length: ")[2].partition("\r\n")[0]
        body = self._response(json.loads(await reader.readexactly(int(length)))).partition(b"\r\n\r\n")[2]
        writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()
        assert self._events is not None
        if body:
            self._events.write(b"event: message\ndata: %b\n\n" % body)


@pytest.mark.parametrize("kind", [Web, OlderWeb])
async def test_an_answer_that_nests_too_deep_fails_its_call_at_once(
    rig: Rig, desk: Desk, kind: type[Web]
) -> None:
    async with asyncio.timeout(30), kind("DEEP").serve() as server:
        await rig.start(server)
        failed = await desk.failure(rig.offered["mcp__web__page"])
        assert failed == "mcp__web__page: the server's answer cannot be decoded"
        await rig.made[0].aclose()


async def test_a_server_that_is_gone_at_the_next_call_costs_its_tools(rig: Rig, desk: Desk) -> None:
    async with Web("hi").serve() as server:
        await rig.start(server)
    await desk.failure(rig.offered["mcp__web__page"])
    await rig.until(lambda: bool(rig.warnings))
    assert rig.warnings[0][0] == "The tool server 'web' has ended"


async def test_an_address_is_quoted_to_nobody(rig: Rig) -> None:
    async with Web(status="500 Internal Server Error").serve() as server:
        await rig.start(server)
    ((_, why),) = rig.warnings
    assert "HTTP 500 Internal Server Error" in why
    assert "s3cret" not in why


async def test_a_server_that_cannot_let_go_is_let_go_of(rig: Rig) -> None:
    web = Web()
    async with web.serve() as server:
        servers = await rig.start(server, timeouts=ServerTimeouts(prompt_s=30, close_s=0.2))
        async with asyncio.timeout(30):
            await servers.aclose()
            await web.is_asked_to_forget.wait()
