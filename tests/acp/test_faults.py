"""Clients that misbehave: whatever comes in, each request is answered once and the next one is served."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from fake_panel import FakePanel
from sidecar.service.contract import Answer

if TYPE_CHECKING:
    from tests.acp.conftest import Stage

BASH = [{"toolCall": {"name": "bash", "input": {"command": "env true"}, "id": "c1"}}]
SEEDS: tuple[dict[str, Any], ...] = (
    {"method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {"fs": {}}}},
    {"method": "session/new", "params": {"cwd": "/no/such", "mcpServers": []}},
    {"method": "session/load", "params": {"sessionId": "x", "cwd": "/", "mcpServers": []}},
    {"method": "session/prompt", "params": {"sessionId": "x", "prompt": [{"type": "text", "text": "hé"}]}},
    {"method": "session/cancel", "params": {"sessionId": "x"}},
    {"method": "session/list", "params": {"cursor": None}},
    {"method": "session/set_config_option", "params": {"sessionId": "x", "configId": "model", "value": True}},
    {"method": "_session/steering", "params": {"sessionId": "x", "prompt": []}},
    {"method": "_sidecar/status", "params": {}},
    {"method": "$/cancel_request", "params": {"requestId": 3}},
    {"result": {"outcome": {"outcome": "selected", "optionId": "allow_once"}}},
    {"error": {"code": -32601, "message": "no"}},
)


async def alive(panel: FakePanel) -> None:
    """Fail unless the next request is answered."""
    request_id = f"alive-{len(panel.messages)}"
    assert "result" in await panel.request(request_id, "_sidecar/status", {})


async def test_a_cancel_behind_a_change_of_the_session_is_carried_out_after_it(stage: Stage) -> None:
    sid = await stage.session([{"text": "x"}, {"hang": True}])
    stage.prompt(1, sid)
    await stage.panel.update("agent_message_chunk")
    changed: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    change = stage.daemon.service.order.run_exclusive(sid, lambda: changed)
    stage.panel.notify("session/cancel", {"sessionId": sid})
    await alive(stage.panel)
    assert stage.panel.answers(1) == []
    changed.set_result(Answer(None))
    assert (await stage.panel.answer(1))["result"]["stopReason"] == "cancelled"
    await change


async def test_a_client_that_dies_while_it_is_asked_leaves_the_session_to_the_others(stage: Stage) -> None:
    sid = await stage.session(BASH, [{"text": "done"}])
    dying = stage.panel
    stage.prompt(1, sid)
    await dying.call("session/request_permission")
    await stage.open()
    load = {"sessionId": sid, "cwd": str(stage.folder), "mcpServers": []}
    assert "result" in await stage.call("session/load", load)
    question = await stage.panel.call("session/request_permission")
    dying.stream.vanish()
    stage.panel.reply(question["id"], {"outcome": {"outcome": "cancelled"}})
    finished = await stage.panel.update("tool_call_update")
    assert finished["status"] == "failed"


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: str(seed.get("method") or sorted(seed)))
async def test_malformed_params_are_answered(stage: Stage, seed: dict[str, Any]) -> None:
    panel = stage.panel
    odd: list[Any] = [None, [], "x", 7, {}, {"sessionId": None}, {"sessionId": []}]
    for n, params in enumerate(odd):
        message = {"jsonrpc": "2.0", "id": n, **seed}
        if "method" in seed:
            message["params"] = params
        panel.send_body(json.dumps(message).encode())
        if "method" in seed:
            await panel.answer(n)
        await alive(panel)
        assert len(panel.answers(n)) == ("method" in seed)
