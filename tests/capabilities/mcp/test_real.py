"""Servers made with the ``mcp`` package itself, in every way they can be reached."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fake_panel import FAKE_AGENT
from memory_stream import MemoryClient
from sidecar._internal.cancel import CancelToken
from sidecar.acp import AcpConnection, AcpOptions
from sidecar.boot import build
from sidecar.capabilities.contract import FormAction, FormAnswer, Tool
from sidecar.capabilities.mcp import HttpServer, McpServer
from sidecar.capabilities.mcp.servers import ServerTimeouts
from sidecar.service.contract import Backend
from started_processes import started_processes

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("needs_mcp")]

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk
    from tests.capabilities.mcp.conftest import Rig


LET_IN = (("Authorization", "Bearer let-me-in"),)


@pytest.fixture(scope="module")
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run the real server on a port of its own."""
    program = request.path.with_name("real_server.py")
    with started_processes() as start:
        server = start([sys.executable, program, "http"])
        assert server.stdout is not None
        yield int(server.stdout.readline())


def way(rig: Rig, port: int, name: str) -> McpServer:
    if name == "stdio":
        return rig.real()
    if name == "sse":
        return HttpServer("real", f"http://127.0.0.1:{port}/sse", LET_IN, is_sse=True)
    return HttpServer("real", f"http://127.0.0.1:{port}/mcp", LET_IN)


@pytest.mark.parametrize("name", ["stdio", "http", "sse"])
async def test_a_session_with_a_real_server(rig: Rig, desk: Desk, port: int, name: str) -> None:
    servers = await rig.start(way(rig, port, name))
    assert rig.warnings == []
    assert list(rig.offered) == [
        f"mcp__real__{tool}" for tool in ("add", "count", "picture", "hang", "cancelled", "connect")
    ]
    add, count, picture, hang, cancelled, connect = rig.offered.values()
    assert (add.kind, count.kind) == ("read", "other")
    assert (add.descriptor.description, count.title({})) == ("Add two numbers.", "real: Count Up")
    assert set(add.descriptor.parameters["properties"]) == {"a", "b"}
    assert await desk.output(add, a=2, b=3) == "5"
    assert "validation error" in await desk.failure(add, a="x", b=3)
    assert await desk.output(count, up_to=3) == "done"
    assert desk.progress[0] == "1 of 3 at 1\n"
    assert await desk.output(picture) == (
        "[image image/png, 5 bytes]\n[the images are not shown: this model sees no images]"
    )
    await check_cancel(desk, hang, cancelled)
    assert await desk.output(connect) == "port 7013, signed in: accept"
    port_form, sign_in = rig.forms
    assert (port_form.message, port_form.asker, sign_in.url) == (
        "Which port?",
        "real",
        "https://example.org/sign-in",
    )
    assert port_form.schema == {
        "type": "object",
        "properties": {
            "port": {
                "type": "integer",
                "title": "Port",
                "description": "Where the database listens",
                "minimum": 1,
                "maximum": 9999,
            }
        },
        "required": ["port"],
    }
    await servers.aclose()
    assert rig.warnings == []


async def test_a_form_is_taken_back_with_its_call_and_no_call_is_idle_meanwhile(
    rig: Rig, desk: Desk, port: int
) -> None:
    """The user takes longer than a server may."""
    rig.form_answer = None
    await rig.start(way(rig, port, "http"), timeouts=ServerTimeouts(prompt_s=30, idle_s=0.2))
    cancel = CancelToken()
    calling = asyncio.ensure_future(rig.offered["mcp__real__connect"].run({}, desk.context(), cancel))
    await rig.until(lambda: bool(rig.forms))
    done, _ = await asyncio.wait({calling}, timeout=0.5)
    assert not done
    cancel.cancel("stopped")
    assert (await calling).is_error
    await rig.until(lambda: rig.n_taken_back == 1)


async def check_cancel(desk: Desk, hang: Tool, cancelled: Tool) -> None:
    desk.progress.clear()
    desk.has_progress.clear()
    hanging = asyncio.ensure_future(desk.failure(hang))
    await desk.has_progress.wait()
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
    assert rig.warnings == [("The tool server 'real' did not start: it adds no tools", why)]


@pytest.mark.parametrize("is_sse", [False, True])
async def test_nobody_there(rig: Rig, is_sse: bool) -> None:
    await rig.start(HttpServer("real", "http://127.0.0.1:9/mcp", is_sse=is_sse))
    ((_, text),) = rig.warnings
    assert "ConnectError" in text


async def test_a_panel_brings_servers_of_both_kinds(rig: Rig, port: int, tmp_path: Path) -> None:
    """From ``session/new`` of an agent panel to what its model reads: asked for, and beside our own."""
    calls = [
        {"toolCall": {"name": "mcp__a__echo", "input": {"text": "theirs"}}},
        {"toolCall": {"name": "mcp__b__add", "input": {"a": 2, "b": 3}}},
    ]
    ours = {"toolCall": {"name": "read", "input": {"path": "here.txt"}}}
    (tmp_path / "here.txt").write_text("ours\n")
    daemon = build(tmp_path / "home")
    daemon.models.add_scripted({"fake-1": {"scripted": [[*calls, ours], [{"text": "done"}]]}})
    panel = MemoryClient(lines=True)
    backend = Backend(daemon.service, daemon.workspace)
    AcpConnection(panel.stream, AcpOptions(FAKE_AGENT, lambda _: backend)).start()
    await panel.request("hi", "initialize", {"protocolVersion": 1})
    header = {"name": LET_IN[0][0], "value": LET_IN[0][1]}
    process = rig.plain()
    servers = [
        {"name": "a", "command": process.command, "args": list(process.args), "env": []},
        {"name": "b", "type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": [header]},
    ]
    wanted = {"cwd": str(tmp_path), "mcpServers": servers, "_meta": {"sidecar": {"model": "fake-1"}}}
    sid = (await panel.request("new", "session/new", wanted))["result"]["sessionId"]
    prompt = {"sessionId": sid, "prompt": [{"type": "text", "text": "add"}]}
    panel.ask("go", "session/prompt", prompt)
    asked = []
    for n in (1, 2):
        asked.append(await panel.call("session/request_permission", n))
        panel.reply(asked[-1]["id"], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
    assert (await panel.answer("go"))["result"]["stopReason"] == "end_turn"
    await daemon.service.aclose()
    updates = [call["params"]["update"] for call in panel.calls("session/update")]
    outputs = [each["content"][0]["content"]["text"] for each in updates if each.get("status") == "completed"]
    assert sorted(question["params"]["toolCall"]["title"] for question in asked) == ["a: echo", "b: add"]
    assert sorted(outputs) == ["     1\tours", "5", "theirs"]


@pytest.mark.parametrize(
    ("action", "end"),
    [("accept", "accept {'port': 7013}"), ("decline", "decline None"), ("expired", "cancel None")],
)
async def test_a_call_that_needs_input_is_made_again_with_it(
    rig: Rig, desk: Desk, action: FormAction, end: str
) -> None:
    rig.form_answer = FormAnswer(action, {"port": 7013} if action == "accept" else {})
    await rig.start(rig.plain("newest"))
    assert await desk.output(rig.offered["mcp__plain__ask_first"]) == end
    (form,) = rig.forms
    assert (form.message, form.asker, form.url) == ("Which port?", "plain", None)


@pytest.mark.parametrize("behaviour", ["sound", "newest"])
async def test_a_call_that_needs_an_address_visited_is_made_again_behind_it(
    rig: Rig, desk: Desk, behaviour: str
) -> None:
    await rig.start(rig.plain(behaviour))
    sign_in = rig.offered["mcp__plain__sign_in"]
    if behaviour == "sound":
        assert await desk.output(sign_in) == "signed in"
    else:
        rig.form_answer = FormAnswer("decline")
        assert "A sign-in is needed, and the user did not agree" in await desk.failure(sign_in)
    (form,) = rig.forms
    assert (form.message, form.asker, form.url) == ("Sign in", "plain", "https://example.org/s")
