"""Attaching to a daemon at a unix socket, and leaving it alone."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.protocol import jsonrpc
from sidecar.protocol.framing import HeaderDecoder, frame_with_header
from sidecar_client import ConnectionLost, SidecarClient

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no unix sockets on Windows")


class Echo(asyncio.Protocol):
    """A daemon for one client: it answers with the params, and hangs up on ``hangUp``."""

    def __init__(self) -> None:
        self.frames = HeaderDecoder()
        self.heard: list[tuple[str, Any]] = []
        self.left = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.left.set()

    def data_received(self, data: bytes) -> None:
        self.frames.feed(data)
        while isinstance(body := self.frames.next(), bytes):
            message = jsonrpc.decode(body)
            assert isinstance(message, jsonrpc.Request | jsonrpc.Notification)
            self.heard.append((message.method, message.params))
            if message.method == "hangUp":
                self.transport.close()
            elif isinstance(message, jsonrpc.Request):
                self.answer(message)

    def answer(self, request: jsonrpc.Request) -> None:
        ready = {"capabilities": {"experimental": {"sidecar": {"protocol": 1}}}}
        result = ready if request.method == "initialize" else request.params
        self.transport.write(frame_with_header(jsonrpc.encode_result(request.id, result)))


@contextlib.asynccontextmanager
async def listening(path: Path) -> AsyncIterator[Echo]:
    daemon = Echo()
    server = await asyncio.get_running_loop().create_unix_server(lambda: daemon, path)
    try:
        yield daemon
    finally:
        server.close()
        await server.wait_closed()


async def test_an_attached_client_asks_for_no_shutdown_and_no_watch(tmp_path: Path) -> None:
    text = "x" * 1_000_000
    async with listening(tmp_path / "s") as daemon:
        async with SidecarClient.connect(tmp_path / "s") as client:
            assert await client.request("echo", text) == text
            assert (client.exit_code, client.stderr_tail) == (None, "")
            await client.notify("last", text)
        await daemon.left.wait()
    assert [method for method, _ in daemon.heard] == ["initialize", "initialized", "echo", "last"]
    assert daemon.heard[0][1]["processId"] is None


async def test_a_daemon_that_hangs_up_is_reported_at_once(tmp_path: Path) -> None:
    async with listening(tmp_path / "s"), SidecarClient.connect(str(tmp_path / "s")) as client:
        with pytest.raises(ConnectionLost, match="closed the connection"):
            await client.request("hangUp")


async def test_a_socket_without_a_daemon_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectionLost, match="no daemon is running at"):
        await SidecarClient.connect(tmp_path / "nobody").start()
