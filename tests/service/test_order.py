"""Requests take effect in the order they came, also when no client waits for the answers."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from sidecar._internal.errors import SidecarError
from sidecar.llmgateway.scripted import Hang, Say
from sidecar.service.contract import Answer
from sidecar.service.service import SessionOrder


def text(prompt: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": prompt}]


async def test_an_interrupt_right_behind_a_prompt_stops_it(start_talk: Any) -> None:
    desk, client, sid = await start_talk([[Hang()]])
    started = client.begin("turn/start", sid=sid, input=text("1"))
    stopped = client.begin("turn/interrupt", sid=sid)
    assert (await stopped)["accepted"]
    assert (await started)["disposition"] == "started"
    assert (await client.until("settled")).stop_reason == "cancelled"
    idle = await client.call("turn/interrupt", sid=sid)
    assert idle == {"accepted": False, "seq": desk.daemon.service.hub.session(sid).record.log.seq}
    assert desk.model.calls == []


async def test_prompts_begin_in_the_order_they_came(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Say("one")], [Say("two")], [Say("three")]])
    ran = [client.begin("turn/run", sid=sid, input=text(str(n))) for n in range(3)]
    assert [(await each)["text"] for each in ran] == ["one", "two", "three"]


async def test_a_prompt_behind_a_rewind_goes_on_from_there(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Say("one")], [Say("two")], [Say("three")]], "1", "2")
    nodes = (await client.call("session/read", sid=sid))["nodes"]
    left = nodes[2:]
    rewound = client.begin("session/rewind", sid=sid, toNode=nodes[1]["id"], expectHead=nodes[3]["id"])
    ran = client.begin("turn/run", sid=sid, input=text("3"))
    assert (await rewound)["head"] == nodes[1]["id"]
    assert (await ran)["text"] == "three"
    nodes = (await client.call("session/tree", sid=sid))["nodes"]
    on_path = [node["kind"] for node in nodes if node["id"] not in {node["id"] for node in left}]
    assert on_path == ["user", "assistant", "branch", "user", "assistant"]


async def test_requests_behind_a_load_wait_for_it(start_talk: Any) -> None:
    _, client, sid = await start_talk([[Say("one")], [Say("two")]], "1")
    await client.call("session/close", sid=sid)
    asked = [
        client.begin("session/load", sid=sid),
        client.begin("session/rename", sid=sid, title="Two"),
        client.begin("turn/run", sid=sid, input=text("2")),
        client.begin("session/close", sid=sid),
        client.begin("session/load", sid=sid),
    ]
    _, _, ran, _, loaded = await asyncio.gather(*asked)
    assert ran["stopReason"] == "cancelled", "it was closed before its turn began"
    assert (loaded["snapshot"]["title"], loaded["snapshot"]["messages"]) == ("Two", 2)


async def test_sessions_do_not_wait_for_each_other(make_desk: Any) -> None:
    desk = make_desk([[Say("one")], [Say("two")]])
    client = desk.client()
    one, two = await desk.talk(client, "1"), await desk.talk(client)
    closing = client.begin("session/close", sid=one)
    assert (await desk.ask(client, two, "2"))["text"] == "two"
    await closing


async def done(value: str) -> Answer:
    return Answer(value)


async def test_a_failed_or_cancelled_exclusive_request_lets_the_next_one_run() -> None:
    order = SessionOrder()

    def fail() -> Answer:
        raise ValueError("boom")

    failing, waiting = order.run_exclusive("s", fail), order.run("s", lambda: done("next"))
    assert not isinstance(waiting, Answer)
    with pytest.raises(ValueError, match="boom"):
        await failing
    assert (await waiting).value == "next"

    hanging = asyncio.ensure_future(order.run_exclusive("s", asyncio.get_running_loop().create_future))
    waiting = order.run("s", lambda: Answer("next"))
    assert not isinstance(waiting, Answer)
    hanging.cancel()
    assert (await waiting).value == "next"
    assert order.run("s", lambda: Answer("at once")) == Answer("at once")


async def test_an_exclusive_request_cancelled_before_it_began_delays_no_other() -> None:
    order = SessionOrder()
    asyncio.ensure_future(order.run_exclusive("s", lambda: done("never"))).cancel()
    waiting = order.run("s", lambda: Answer("next"))
    assert not isinstance(waiting, Answer)
    assert (await waiting).value == "next"


async def test_a_request_that_was_refused_at_once_is_refused_by_its_call(make_desk: Any) -> None:
    client = make_desk().client()
    with pytest.raises(SidecarError) as raised:
        client.connection.call("sidecar/turn/start", {"sid": "nobody", "input": text("1")})
    assert raised.value.kind == "sessionNotFound"


async def test_an_error_that_is_no_longer_awaited_is_no_fault() -> None:
    """A client may cancel a request before its answer is awaited; the task of it ends unnoticed."""
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))

    def refuse() -> Answer:
        raise SidecarError("no session 's'")

    dropped = asyncio.ensure_future(SessionOrder().run_exclusive("s", refuse))
    await asyncio.wait([dropped])
    del dropped
    gc.collect()
    assert faults == []
