"""Servers made with the ``mcp`` package itself, in every way they can be reached."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import Tool
from sidecar.capabilities.mcp import HttpServer, McpServer

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk
    from tests.capabilities.mcp.conftest import Rig

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

LET_IN = (("Authorization", "Bearer let-me-in"),)


@pytest.fixture(scope="module")
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run the real server on a port of its own."""
    program = request.path.with_name("real_server.py")
    server = subprocess.Popen([sys.executable, program, "http"], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline())
    finally:
        server.kill()
        server.stdout.close()
        server.wait()


def way(rig: Rig, port: int, name: str) -> McpServer:
    if name == "stdio":
        return rig.real()
    if name == "sse":
        return HttpServer("real", f"http://127.0.0.1:{port}/sse", LET_IN, is_sse=True)
    return HttpServer("real", f"http://127.0.0.1:{port}/mcp", LET_IN)


@pytest.mark.parametrize("name", ["stdio", "http", "sse"])
async def test_a_session_with_a_real_server(rig: Rig, desk: Desk, port: int, name: str) -> None:
    servers = await rig.start(way(rig, port, name))
    assert rig.told == []
    assert list(rig.offered) == [
        f"mcp__real__{tool}" for tool in ("add", "count", "picture", "hang", "cancelled")
    ]
    add, count, picture, hang, cancelled = rig.offered.values()
    assert (add.kind, count.kind) == ("read", "other")
    assert (add.descriptor.description, count.title({})) == ("Add two numbers.", "real: Count Up")
    assert set(add.descriptor.parameters["properties"]) == {"a", "b"}
    assert await desk.output(add, a=2, b=3) == "5"
    assert "validation error" in await desk.failure(add, a="x", b=3)
    assert await desk.output(count, up_to=3) == "done"
    assert desk.told[0] == "1 of 3 at 1\n"
    assert await desk.output(picture) == "[image image/png, 5 bytes, not shown]"
    await check_cancel(desk, hang, cancelled)
    await servers.aclose()
    assert rig.told == []


async def check_cancel(desk: Desk, hang: Tool, cancelled: Tool) -> None:
    desk.told.clear()
    desk.heard.clear()
    hanging = asyncio.ensure_future(desk.failure(hang))
    await desk.heard.wait()
    desk.cancel.cancel()
    assert await hanging == "mcp__real__hang: cancelled"
    desk.cancel = CancelToken()
    async with asyncio.timeout(30):
        while "hang" not in await desk.output(cancelled):
            continue  # over HTTP a cancel and the next call may overtake each other


@pytest.mark.parametrize(
    ("path", "is_sse", "why"),
    [
        pytest.param(
            "mcp", False, "Server returned an error response (HTTP 401 Unauthorized)", id="not let in"
        ),
        pytest.param("sse", True, "HTTP 401 Unauthorized", id="nor in the older way"),
    ],
)
async def test_a_server_that_refuses(rig: Rig, port: int, path: str, is_sse: bool, why: str) -> None:
    await rig.start(HttpServer("real", f"http://127.0.0.1:{port}/{path}", is_sse=is_sse))
    assert rig.told == [("The tool server 'real' did not start: it adds no tools", why)]


@pytest.mark.parametrize("is_sse", [False, True])
async def test_nobody_there(rig: Rig, is_sse: bool) -> None:
    await rig.start(HttpServer("real", "http://127.0.0.1:9/mcp", is_sse=is_sse))
    ((_, text),) = rig.told
    assert "ConnectError" in text


async def test_a_server_that_leaves(rig: Rig, desk: Desk, request: pytest.FixtureRequest) -> None:
    """A server that is reached over HTTP and gone at the next call costs its tools, and is told."""
    program = request.path.with_name("real_server.py")
    server = await asyncio.create_subprocess_exec(sys.executable, program, "http", stdout=subprocess.PIPE)
    assert server.stdout is not None
    await rig.start(way(rig, int(await server.stdout.readline()), "http"))
    server.kill()
    await server.wait()
    tools = dict(rig.offered)
    await desk.failure(tools["mcp__real__add"], a=2, b=3)
    await rig.until(lambda: bool(rig.told))
    assert rig.told[0][0] == "The tool server 'real' has ended: its tools are gone"
    assert rig.offered == {}
