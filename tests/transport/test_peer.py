"""One JSON-RPC connection over a stream in memory, with a face that does as it is told."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memory_stream import MemoryClient
from sidecar._internal.errors import InvalidInput
from sidecar.protocol.errors import MethodNotFound, lsp_code
from sidecar.protocol.framing import HeaderDecoder, frame_with_header
from sidecar.protocol.jsonrpc import Id
from sidecar.service.contract import Answer
from sidecar.transport.outbox import HIGH_WATER_BYTES
from sidecar.transport.peer import Dialect, Limits, Peer, PeerGoneError, PeerRefused

DIALECT = Dialect(HeaderDecoder, frame_with_header, lsp_code, lambda i: ("$/cancelRequest", {"id": i}))


class ObedientFace:
    """Answers by the method's name: ``wait`` until released, ``big`` with as many bytes as asked.

    ``burn`` takes as many seconds.
    """

    def __init__(self) -> None:
        self.notifications: list[tuple[str, Any]] = []
        self.asked: list[str] = []
        self.told: list[tuple[Id, str | None]] = []
        self.begun: list[Any] = []
        self.ended: list[Any] = []
        self.has_begun = asyncio.Event()
        self.release = asyncio.Event()
        self.after: Callable[[], None] | None = None

    def handle_request(self, method: str, params: Any, request_id: Id) -> Answer | Awaitable[Answer]:
        self.asked.append(method)
        match method:
            case "echo":
                return Answer(params, self.after)
            case "wait":
                return self._wait(params)
            case "big":
                return Answer("x" * params)
            case "burn":
                until = time.perf_counter() + params
                while time.perf_counter() < until:
                    pass
                return Answer(None)
            case "invalid":
                raise InvalidInput("no such thing", hint="try another", sid="s1")
            case "later-invalid":
                return self._raise(InvalidInput("no such thing", hint="try another", sid="s1"))
            case "unspeakable":
                return Answer(object())
            case "odd details":
                raise InvalidInput("no", place=object())
        raise MethodNotFound(method)

    def handle_notification(self, method: str, params: Any) -> None:
        self.notifications.append((method, params))
        if method == "crash":
            raise ValueError(params)

    def on_answered(self, method: str, request_id: Id, error_kind: str | None) -> None:
        self.told.append((request_id, error_kind))

    async def _wait(self, params: Any) -> Answer:
        self.begun.append(params)
        self.has_begun.set()
        try:
            await self.release.wait()
        finally:
            self.ended.append(params)
        return Answer(params)

    async def _raise(self, error: Exception) -> Answer:
        raise error


class Wire:
    """A peer, its face and its client."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.client = MemoryClient()
        self.face = ObedientFace()
        self.peer = Peer(self.client.stream, DIALECT, self.face, limits or Limits())
        self.peer.start()


def code_and_kind(answer: dict[str, Any]) -> tuple[int, str]:
    return answer["error"]["code"], answer["error"]["data"]["kind"]


@pytest.mark.parametrize("request_id", [0, "", -1, 2**70])
async def test_a_request_is_answered_under_its_id(request_id: Id) -> None:
    wire = Wire()
    answer = await wire.client.request(request_id, "echo", {"a": [1]})
    assert answer == {"jsonrpc": "2.0", "id": request_id, "result": {"a": [1]}}
    assert wire.face.told == [(request_id, None)]


async def test_cancel_of_a_running_request_answers_cancelled() -> None:
    wire = Wire()
    wire.client.ask(1, "wait", "x")
    await wire.face.has_begun.wait()
    wire.peer.cancel(1)
    assert code_and_kind(await wire.client.answer(1)) == (-32800, "cancelled")
    assert (wire.peer.requests_open, wire.face.told) == (0, [(1, "cancelled")])


@pytest.mark.parametrize("method", ["invalid", "later-invalid"])
async def test_the_data_of_an_expected_error_has_its_kind_and_the_next_step(method: str) -> None:
    answer = await Wire().client.request(1, method)
    assert answer["error"] == {
        "code": -32602,
        "message": "no such thing",
        "data": {"kind": "invalidParams", "retryable": False, "hint": "try another", "sid": "s1"},
    }


async def test_a_result_that_is_not_json_is_an_internal_error() -> None:
    wire = Wire()
    assert code_and_kind(await wire.client.request(1, "unspeakable")) == (-32603, "internal")
    assert wire.face.told == [(1, "internal")]


async def test_an_error_with_details_that_are_not_json_is_sent_without_them() -> None:
    answer = await Wire().client.request(1, "odd details")
    assert answer["error"]["data"] == {"kind": "invalidParams", "retryable": False}


async def test_the_work_after_an_answer_is_queued_behind_it_and_may_fail() -> None:
    wire = Wire()

    def then() -> None:
        wire.peer.notify("event", None)
        raise ValueError

    wire.face.after = then
    wire.client.ask(1, "echo", "x")
    await wire.client.call("event")
    assert [message.get("id") for message in wire.client.messages] == [1, None]


async def test_a_failing_notification_is_logged_and_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()
    wire.client.notify("crash", "the prompt")
    assert (await wire.client.request(1, "echo", 1))["result"] == 1
    assert len(wire.client.messages) == 1
    assert "the prompt" not in caplog.text


async def test_requests_begin_in_the_order_they_came() -> None:
    wire = Wire()
    for n in range(20):
        wire.client.ask(n, "wait", n)
    wire.face.release.set()
    await wire.client.answer(19)
    assert wire.face.begun == list(range(20))


# Requests of ours.


async def test_our_requests_have_ids_of_their_own() -> None:
    wire = Wire()
    wire.client.ask(1, "wait", "theirs")
    asked = asyncio.ensure_future(wire.peer.request("ask/user", {"q": 1}))
    call = await wire.client.call("ask/user")
    assert call["params"] == {"q": 1}
    assert isinstance(call["id"], str)
    wire.client.reply(call["id"], {"a": 2})
    assert await asked == {"a": 2}
    assert wire.client.answers(1) == []


async def test_a_result_of_undefined_is_null() -> None:
    wire = Wire()
    asked = asyncio.ensure_future(wire.peer.request("ask/user", None))
    call = await wire.client.call("ask/user")
    wire.client.send({"jsonrpc": "2.0", "id": call["id"]})
    assert await asked is None


async def test_a_message_without_outcome_for_an_unknown_id_is_invalid() -> None:
    wire = Wire()
    wire.client.send({"jsonrpc": "2.0", "id": 5})
    assert code_and_kind(await wire.client.answer(5)) == (-32600, "invalidRequest")


@pytest.mark.parametrize("error", [{"code": -32601, "message": "x"}, {"code": "odd"}, "no object", None])
async def test_an_error_answer_is_raised(error: Any) -> None:
    wire = Wire()
    asked = asyncio.ensure_future(wire.peer.request("ask/user", None))
    call = await wire.client.call("ask/user")
    wire.client.send({"jsonrpc": "2.0", "id": call["id"], "error": error})
    with pytest.raises(PeerRefused, match="ask/user"):
        await asked


async def test_answers_to_nothing_are_ignored() -> None:
    wire = Wire()
    for answer in ({"id": "s99", "result": 1}, {"id": 0, "result": 1}, {"id": None, "error": {"code": 1}}):
        wire.client.send({"jsonrpc": "2.0", **answer})
    assert (await wire.client.request(1, "echo", 1))["result"] == 1
    assert len(wire.client.messages) == 1


async def test_cancelling_a_request_of_ours_notifies_the_client() -> None:
    wire = Wire()
    asked = asyncio.ensure_future(wire.peer.request("ask/user", None))
    call = await wire.client.call("ask/user")
    asked.cancel()
    assert (await wire.client.call("$/cancelRequest"))["params"] == {"id": call["id"]}
    wire.client.reply(call["id"], "too late")
    assert (await wire.client.request(1, "echo", 1))["result"] == 1


async def test_a_client_that_goes_fails_every_waiting_request() -> None:
    wire = Wire()
    asked = asyncio.ensure_future(wire.peer.request("ask/user", None))
    await wire.client.call("ask/user")
    wire.client.stream.vanish()
    with pytest.raises(PeerGoneError):
        await asked
    with pytest.raises(PeerGoneError):
        await wire.peer.request("ask/user", None)


# Limits and ends.


async def test_an_answer_over_the_limit_fails_our_request() -> None:
    wire = Wire(Limits(max_body_bytes=100))
    asked = asyncio.ensure_future(wire.peer.request("ask/user", None))
    call = await wire.client.call("ask/user")
    wire.client.reply(call["id"], "x" * 200)
    with pytest.raises(PeerRefused):
        await asked
    assert wire.client.answers(call["id"]) == [], "the id is ours and not to be answered"


async def test_an_absurd_length_ends_the_connection_with_an_error() -> None:
    wire = Wire()
    wire.client.stream.send(b"Content-Length: 99999999999999999999\r\n\r\n")
    assert code_and_kind(await wire.client.answer(None)) == (-32600, "messageTooLarge")
    await asyncio.wait_for(wire.peer.wait_ended(), 1)


async def test_a_full_queue_pauses_the_input_and_no_answer_is_lost() -> None:
    wire = Wire()
    wire.client.stream.stall()
    for n in range(20):
        wire.client.ask(n, "big", HIGH_WATER_BYTES // 4)
    for _ in range(20):
        await asyncio.sleep(0)  # each message may take a slice of its own
    assert wire.client.stream.is_reading_paused
    assert 4 <= len(wire.face.asked) < 8, "what was asked further has not been looked at"
    for n in range(20):
        wire.client.stream.read_on()
        assert len((await wire.client.answer(n))["result"]) == HIGH_WATER_BYTES // 4
    assert not wire.client.stream.is_reading_paused


async def test_frames_of_one_chunk_wait_too_while_the_queue_is_full() -> None:
    wire = Wire()
    wire.client.stream.stall()
    one = b'{"jsonrpc":"2.0","id":%d,"method":"big","params":5000000}'
    wire.client.stream.send(b"".join(frame_with_header(one % n) for n in range(10)))
    assert len(wire.face.asked) < 5
    wire.client.stream.read_on()
    await wire.client.answer(9)


async def test_a_client_that_floods_lets_others_in_between() -> None:
    busy, other = Wire(), Wire()
    burn = b'{"jsonrpc":"2.0","id":%d,"method":"burn","params":0.002}'
    busy.client.stream.send(b"".join(frame_with_header(burn % n) for n in range(20)))
    busy.client.stream.hang_up()
    assert (await other.client.request(1, "echo", "x"))["result"] == "x"
    assert 1 <= len(busy.face.asked) < 10
    await busy.peer.wait_ended()
    assert len(busy.face.asked) == 20, "the end of the input comes after all of it"


@pytest.mark.parametrize("is_enabled", [True, False])
async def test_a_large_message_is_read_without_the_collector_which_stays_as_it_was(is_enabled: bool) -> None:
    wire, rows = Wire(), [{"n": n} for n in range(50_000)]
    (gc.enable if is_enabled else gc.disable)()
    try:
        assert (await wire.client.request(1, "echo", rows))["result"] == rows
        assert gc.isenabled() is is_enabled
    finally:
        gc.enable()


async def test_end_of_input_ends_and_open_requests_may_finish() -> None:
    wire = Wire()
    wire.client.ask(1, "wait", "x")
    wire.client.stream.hang_up()
    await wire.peer.wait_ended()
    wire.face.release.set()
    await wire.peer.wait_answered(5)
    assert (await wire.client.answer(1))["result"] == "x"


async def test_close_answers_open_requests_and_flushes() -> None:
    wire = Wire()
    wire.client.ask(1, "wait", "x")
    wire.client.ask(2, "big", 100_000)
    await wire.peer.aclose(5)
    assert code_and_kind(wire.client.answers(1)[0]) == (-32800, "cancelled")
    assert len(wire.client.answers(2)[0]["result"]) == 100_000
    assert wire.client.stream.is_lost


async def test_close_does_not_wait_for_a_client_that_does_not_read() -> None:
    wire = Wire()
    wire.client.stream.stall()
    wire.client.ask(1, "big", 100_000)
    await asyncio.wait_for(wire.peer.aclose(0.01), 5)
    assert wire.client.stream.is_lost


async def test_close_does_not_wait_for_a_request_that_will_not_end() -> None:
    wire = Wire()

    async def stubborn(params: Any) -> Answer:
        while not wire.face.release.is_set():
            try:
                await wire.face.release.wait()
            except asyncio.CancelledError:
                wire.face.begun.append("cancelled")
        return Answer(None)

    wire.face._wait = stubborn  # type: ignore[method-assign]  # this one does not let itself be cancelled
    wire.client.ask(1, "wait", "x")
    await asyncio.sleep(0)
    await asyncio.wait_for(wire.peer.aclose(0.01), 5)
    assert wire.face.begun == ["cancelled"]
    wire.face.release.set()
    await asyncio.sleep(0)


async def test_after_stop_accepting_nothing_more_is_taken() -> None:
    wire = Wire()
    wire.peer.stop_accepting()
    wire.client.ask(1, "echo", 1)
    await wire.peer.aclose(1)
    assert (wire.client.messages, wire.face.asked) == ([], [])


# Hostile input.


def mutated(rng: random.Random, body: bytes) -> bytes:
    """Return *body* with a few bytes changed, dropped or doubled."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) or 1)
        match rng.randrange(3):
            case 0:
                data[at : at + 1] = bytes((rng.randrange(256),))
            case 1:
                del data[at : at + rng.randint(1, 8)]
            case _:
                data[at:at] = data[at : at + rng.randint(1, 8)]
    return bytes(data)


async def test_mutated_frames_neither_crash_nor_hang() -> None:
    """Hundreds of connections with broken framing: each either goes on or ends with an error."""
    rng = random.Random(1)
    good = frame_with_header(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":1}')
    for _ in range(300):
        wire = Wire()
        wire.client.stream.send(mutated(rng, good * 3))
        wire.client.stream.hang_up()
        await wire.peer.wait_ended()
        await wire.peer.aclose(1)
        assert len(wire.client.answers(1)) <= 3
        assert all(isinstance(m, dict) for m in wire.client.messages)
