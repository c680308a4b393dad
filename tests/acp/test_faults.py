"""Clients that misbehave: whatever comes in, each request is answered once and the next one is served."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from fake_panel import FakePanel
from sidecar.conductor.record.log import EventLog
from sidecar.service.contract import Answer
from sidecar.transport.peer import Limits

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


async def settled(log: EventLog) -> None:
    """Return once the newest event of *log* ends a turn."""
    ended = asyncio.Event()

    def look(log: EventLog) -> None:
        if any(event.kind == "settled" for event in log.after(log.seq - 1)):
            ended.set()

    stop = log.follow(look)
    look(log)
    await ended.wait()
    stop()


async def alive(panel: FakePanel) -> None:
    """Fail unless the next request is answered."""
    request_id = f"alive-{len(panel.messages)}"
    assert "result" in await panel.request(request_id, "_sidecar/status", {})


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"{", -32700, id="no json"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700, id="no utf-8"),
        pytest.param(b'[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', -32600, id="a batch"),
        pytest.param(b'{"id":1,"method":"session/list"}', -32600, id="no version"),
        pytest.param(b'{"jsonrpc":"2.0","id":1}', -32600, id="neither question nor answer"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":7}', -32600, id="a method is a string"),
        pytest.param(b'{"jsonrpc":"2.0","id":1.5,"method":"session/list"}', -32600, id="an odd id"),
    ],
)
async def test_a_line_that_is_no_message_is_answered(panel: FakePanel, body: bytes, code: int) -> None:
    await panel.initialize()
    panel.send_body(body)
    await alive(panel)
    refused = [message for message in panel.messages if "error" in message]
    assert [message["error"]["code"] for message in refused] == [code]


async def test_line_separators_of_unicode_end_no_line(panel: FakePanel) -> None:
    await panel.initialize()
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\U0001f600"
    raw = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "_sidecar/fake/echo", "params": {"t": text}})
    panel.send_body(json.dumps(json.loads(raw), ensure_ascii=False).encode())
    assert (await panel.answer(7))["result"] == {"t": text}


async def test_a_line_over_the_limit_is_refused_under_its_id(panels: Callable[..., FakePanel]) -> None:
    panel = panels(limits=Limits(max_body_bytes=10_000))
    await panel.initialize()
    answer = await panel.request("big", "_sidecar/fake/echo", {"t": "x" * 20_000})
    assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32600, "messageTooLarge")
    await alive(panel)


async def test_an_id_that_is_open_is_not_open_twice(stage: Stage) -> None:
    sid = await stage.session([{"text": "x"}, {"hang": True}])
    stage.prompt(1, sid)
    await stage.panel.update("agent_message_chunk")
    stage.prompt(1, sid)
    refused = await stage.panel.answer(1)
    assert refused["error"]["data"]["kind"] == "invalidRequest"
    stage.panel.notify("session/cancel", {"sessionId": sid})
    await stage.panel.stream.wait_until(lambda: len(stage.panel.answers(1)) == 2)
    assert stage.panel.answers(1)[1]["result"]["stopReason"] == "cancelled"


async def test_too_many_requests_at_once_are_refused_as_retryable(panels: Callable[..., FakePanel]) -> None:
    panel = panels(limits=Limits(max_in_flight=2))
    await panel.initialize()
    for n in range(3):
        panel.ask(n, "_sidecar/fake/wait", {})
    error = (await panel.answer(2))["error"]
    assert (error["code"], error["data"]["kind"], error["data"]["retryable"]) == (-32001, "overloaded", True)


async def test_a_client_that_never_answers_a_question_may_still_cancel(stage: Stage) -> None:
    sid = await stage.session(BASH, [{"text": "done"}])
    stage.prompt(1, sid)
    await stage.panel.call("session/request_permission")
    await alive(stage.panel)
    stage.panel.notify("session/cancel", {"sessionId": sid})
    assert (await stage.panel.answer(1))["result"]["stopReason"] == "cancelled"


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


async def test_a_client_that_reads_nothing_costs_bounded_memory(stage: Stage) -> None:
    """The part of a message that it did not read comes at the end of the message."""
    text = "".join(f"word {n} " for n in range(3_000))
    sid = await stage.session([{"text": text, "deltas": 2_000}])
    stage.panel.stream.stall()
    stage.prompt(1, sid)
    stage.panel.ask("mark", "_sidecar/status", {})
    log = stage.log(sid)
    await settled(log)
    stage.panel.stream.read_on()
    assert (await stage.panel.answer(1))["result"]["stopReason"] == "end_turn"
    received = "".join(each["content"]["text"] for each in stage.panel.updates("agent_message_chunk"))
    assert received == text


async def test_ten_thousand_notifications_leave_no_task_behind(stage: Stage) -> None:
    sid = await stage.session([{"text": "x"}])
    await alive(stage.panel)
    before = asyncio.all_tasks()
    notifications: tuple[tuple[str, Any], ...] = (
        ("session/cancel", {"sessionId": sid}),
        ("session/cancel", {"sessionId": "unknown"}),
        ("$/cancel_request", {"requestId": 7}),
        ("_vendor/note", {"x": 1}),
        ("no/such", None),
    )
    for n in range(10_000):
        stage.panel.notify(*notifications[n % len(notifications)])
    await alive(stage.panel)
    assert asyncio.all_tasks() == before


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


@pytest.mark.parametrize("method", ["_sidecar/fake/crash", "_sidecar/fake/crashLater"])
async def test_an_unexpected_exception_shows_nothing_of_itself(
    panels: Callable[..., FakePanel], method: str
) -> None:
    panel = panels()
    await panel.initialize()
    answer = await panel.request(1, method, "the prompt")
    assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32603, "internal")
    assert "the prompt" not in json.dumps(answer)
    await alive(panel)
