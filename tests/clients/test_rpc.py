"""Requests, notifications and requests of the daemon, over a link in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from sidecar.protocol import jsonrpc
from sidecar.protocol.framing import HeaderDecoder, frame_with_header
from sidecar_client import ConnectionLost, ProtocolError, SidecarRequestError
from sidecar_client.scripted import NO_ANSWER, ScriptedDaemon


def refuse(_params: Any) -> Any:
    raise SidecarRequestError(
        -32803, "no such session", {"kind": "sessionNotFound", "retryable": False, "hint": "list them"}
    )


def daemon() -> ScriptedDaemon:
    return ScriptedDaemon({"echo": lambda p: p, "never": lambda _: NO_ANSWER, "refuse": refuse})


async def test_answers_find_their_requests_in_any_order() -> None:
    async with daemon().client() as client:
        answers = await asyncio.gather(*(client.request("echo", {"n": n}) for n in range(20)))
    assert answers == [{"n": n} for n in range(20)]


async def test_a_refusal_is_an_error_with_all_its_parts() -> None:
    async with daemon().client() as client:
        with pytest.raises(SidecarRequestError) as caught:
            await client.request("refuse")
    error = caught.value
    assert (error.code, error.kind, error.retryable, error.message, error.hint) == (
        -32803,
        "sessionNotFound",
        False,
        "no such session",
        "list them",
    )
    assert str(error) == "no such session [sessionNotFound, -32803]; list them"


async def test_a_refusal_may_say_anything_in_its_data() -> None:
    script = daemon()
    async with script.client() as client:
        task = asyncio.create_task(client.request("never"))
        await script.wait_for("never")
        request = script.received[-1]
        assert isinstance(request, jsonrpc.Request)
        script.send(frame_with_header(jsonrpc.encode_error(request.id, -1, "no", ["odd"])))
        with pytest.raises(SidecarRequestError) as caught:
            await task
    assert (caught.value.kind, caught.value.data) == ("internal", {"details": ["odd"]})


async def test_cancelling_a_request_cancels_it_at_the_daemon_and_a_late_answer_is_nothing() -> None:
    script = daemon()
    async with script.client() as client:
        task = asyncio.create_task(client.request("never"))
        await script.wait_for("never")
        request = script.received[-1]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert isinstance(request, jsonrpc.Request)
        assert script.received[-1] == jsonrpc.Notification("$/cancelRequest", {"id": request.id})
        script.send(frame_with_header(jsonrpc.encode_result(request.id, "late")))
        assert await client.request("echo", [1]) == [1]


async def test_death_fails_present_and_later_requests() -> None:
    script = daemon()
    async with script.client() as client:
        task = asyncio.create_task(client.request("never"))
        await script.wait_for("never")
        events = client.events("s")
        script.die(3, "out of memory")
        for waiting in (task, anext(events), client.request("echo"), client.notify("x")):
            with pytest.raises(ConnectionLost, match="out of memory") as caught:
                await waiting
            assert caught.value.exit_code == 3


async def test_a_writer_that_waits_for_room_learns_of_the_death() -> None:
    script = daemon()
    async with script.client() as client:
        script.stop_reading()
        task = asyncio.create_task(client.notify("x"))
        await asyncio.sleep(0)
        script.die(1)
        with pytest.raises(ConnectionLost):
            await task


async def test_writers_wait_for_room() -> None:
    script = daemon()
    async with script.client() as client:
        script.stop_reading()
        task = asyncio.create_task(client.notify("x", {"text": "y"}))
        await asyncio.sleep(0)
        assert script.params_of("x") == []
        script.resume_writing()
        await task
        assert script.params_of("x") == [{"text": "y"}]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"Welcome!\n\nlog line\n\n", id="no header"),
        pytest.param(frame_with_header(b"{not json"), id="no JSON"),
        pytest.param(frame_with_header(b"[]"), id="a batch"),
        pytest.param(
            frame_with_header(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}'), id="to nobody"
        ),
        pytest.param(b"Content-Length: 99999999999\r\n\r\n", id="an absurd length"),
        pytest.param(
            frame_with_header(jsonrpc.encode_notification("sidecar/event", {"sid": "s"})), id="half an event"
        ),
        pytest.param(frame_with_header(jsonrpc.encode_notification("sidecar/gap", [1])), id="odd params"),
    ],
)
async def test_invalid_output_ends_the_connection(data: bytes) -> None:
    script = daemon()
    async with script.client() as client:
        script.stderr_tail = "last words"
        task = asyncio.create_task(client.request("never"))
        await script.wait_for("never")
        script.send(data)
        with pytest.raises(ProtocolError, match="last words"):
            await task
        with pytest.raises(ProtocolError):
            await client.request("echo")


async def test_an_answer_over_the_limit_fails_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar_client.rpc.HeaderDecoder", partial(HeaderDecoder, 1000))
    script = daemon()
    async with script.client() as client:
        task = asyncio.create_task(client.request("never"))
        await script.wait_for("never")
        request = script.received[-1]
        assert isinstance(request, jsonrpc.Request)
        script.send(frame_with_header(jsonrpc.encode_result(request.id, "x" * 1000)))
        with pytest.raises(SidecarRequestError) as caught:
            await task
        assert caught.value.kind == "messageTooLarge"
        assert await client.request("echo", 1) == 1


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("window/workDoneProgress/create", None),
        ("client/registerCapability", None),
        ("window/showMessageRequest", None),
        ("window/showDocument", {"success": False}),
        ("workspace/applyEdit", {"applied": False, "failureReason": "this client does not apply edits"}),
    ],
)
async def test_requests_of_the_daemon_have_a_plain_answer(method: str, result: Any) -> None:
    script = daemon()
    async with script.client():
        assert await script.request(method, {}) == jsonrpc.Response(1, result, None)


async def test_an_unknown_request_of_the_daemon_is_refused() -> None:
    script = daemon()
    async with script.client():
        answer = await script.request("window/unheardOf", None)
    assert answer.error == {
        "code": -32601,
        "message": "this client does not handle 'window/unheardOf'",
        "data": {"kind": "methodNotFound"},
    }


async def test_handlers_answer_blocking_or_not() -> None:
    async def slow(params: Mapping[str, Any]) -> Any:
        await asyncio.sleep(0)
        return {"applied": params["ok"]}

    script = daemon()
    handlers = {"workspace/applyEdit": slow, "window/showMessageRequest": lambda p: p["actions"][0]}
    async with script.client(handlers=handlers):
        edit = await script.request("workspace/applyEdit", {"ok": True})
        choice = await script.request("window/showMessageRequest", {"actions": ["Yes", "No"]})
    assert (edit.result, choice.result) == ({"applied": True}, "Yes")


async def test_a_failing_handler_is_answered_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    script = daemon()
    async with script.client(handlers={"workspace/applyEdit": lambda _: 1 / 0}):
        answer = await script.request("workspace/applyEdit", {})
    assert answer.error == {
        "code": -32603,
        "message": "the client's handler failed",
        "data": {"kind": "internal"},
    }
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_the_daemon_may_cancel_its_request_even_before_it_began() -> None:
    asked = asyncio.Event()

    async def wait(_params: Mapping[str, Any]) -> Any:
        asked.set()
        await asyncio.Event().wait()

    script = daemon()
    async with script.client(handlers={"workspace/applyEdit": wait}):
        answer = asyncio.create_task(script.request("workspace/applyEdit", {}))
        await asyncio.sleep(0)
        script.notify("$/cancelRequest", {"id": 1})
        assert (await answer).error == {"code": -32800, "message": "cancelled", "data": {"kind": "cancelled"}}
        script.notify("$/cancelRequest", {"id": 1})
        assert asked.is_set()


async def test_closing_ends_the_handlers_that_still_run() -> None:
    asked = asyncio.Event()
    ended = asyncio.Event()

    async def wait(_params: Mapping[str, Any]) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    script = daemon()
    async with script.client(handlers={"workspace/applyEdit": wait}):
        asking = asyncio.create_task(script.request("workspace/applyEdit", {}))
        await asked.wait()
    assert ended.is_set()
    assert (await asking).error is not None
