"""Events reach a client in its own terms, in order with its answers, and never more than it wants."""

from __future__ import annotations

from typing import Any

import pytest

from fake_editor import FakeEditor
from sidecar.conductor.events import Message, Notice, Payload, Phase, Retry, TextDelta
from sidecar.conductor.record.log import EventLog


async def following(**params: Any) -> tuple[FakeEditor, EventLog]:
    """An editor that follows a log of its own."""
    editor = await FakeEditor.ready(**params)
    log = editor.service.new_log()
    editor.port.sink.follow(log, 0)
    return editor, log


async def received(editor: FakeEditor) -> list[tuple[str, Any]]:
    """Return every notification that has come, once those so far are out."""
    await editor.request("mark", "sidecar/fake/echo")
    return [(m["method"], m["params"]) for m in editor.messages if "method" in m and "id" not in m]


async def test_an_event_is_projected_as_it_is() -> None:
    editor, log = await following(sidecar={})
    log.append(Notice("info", "title", "text"), "t1")
    data = {"severity": "info", "title": "title", "description": "text"}
    expected = {"sid": log.sid, "seq": 1, "at": 0, "kind": "notice", "turnId": "t1", "data": data}
    assert await received(editor) == [("sidecar/event", expected)]


async def test_the_answer_comes_before_the_events_it_introduces() -> None:
    editor = await FakeEditor.ready(sidecar={})
    await editor.request(1, "sidecar/session/new")
    await editor.call("sidecar/event")
    assert ["id" in message for message in editor.messages] == [True, True, False]


async def test_an_answer_comes_after_the_events_before_it() -> None:
    editor = await FakeEditor.ready(sidecar={})
    sid = (await editor.request(1, "sidecar/session/new"))["result"]["sid"]
    seq = (await editor.request(2, "sidecar/fake/events", {"sid": sid, "count": 5}))["result"]["seq"]
    events = [message["params"]["seq"] for message in editor.messages if message.get("method")]
    assert (events[-1], editor.messages[-1]["id"]) == (seq, 2)


@pytest.mark.parametrize(
    ("wishes", "kinds"),
    [
        pytest.param({}, ["textDelta", "message", "notice"], id="everything"),
        pytest.param({"events": {"kinds": ["message"]}}, ["message"], id="only some kinds"),
        pytest.param({"events": {"optOut": ["textDelta"]}}, ["message", "notice"], id="all but some"),
    ],
)
async def test_a_client_gets_the_kinds_it_wants(wishes: dict[str, Any], kinds: list[str]) -> None:
    editor, log = await following(sidecar=wishes)
    for payload in (TextDelta("m", "a"), Message("m", ()), Notice("info", "n")):
        log.append(payload)
    assert [params["kind"] for _, params in await received(editor)] == kinds


async def test_deltas_wait_for_the_interval_of_the_client_and_come_as_one() -> None:
    editor, log = await following(sidecar={"events": {"coalesceMs": 5}})
    await received(editor)
    for delta in "abcd":
        log.append(TextDelta("m", delta))
    await editor.call("sidecar/event", 2)
    events = [
        (event["params"]["seq"], event["params"]["data"]["delta"]) for event in editor.calls("sidecar/event")
    ]
    assert events == [(1, "a"), (4, "bcd")]


async def test_a_gap_is_sent() -> None:
    editor, log = await following(sidecar={})
    editor.stream.stall()
    editor.ask(1, "sidecar/fake/echo", "fills the pipe")
    await editor.stream.wait_until(lambda: not editor.stream.has_room)
    for _ in range(999):
        log.append(TextDelta("m", "x"))
    log.append(Message("m", ()))
    for _ in range(1000):
        log.append(Phase("idle"))
    editor.stream.read_on()
    assert (await editor.call("sidecar/gap"))["params"] == {
        "sid": log.sid,
        "from": 1,
        "to": 999,
        "reason": "slowClient",
    }
    assert (await editor.call("sidecar/event"))["params"]["seq"] == 1000


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param(TextDelta("m", "a"), [], id="no deltas"),
        pytest.param(
            Message("m", ({"type": "text", "text": "the answer"}, {"type": "image"})),
            [("window/logMessage", {"type": 3, "message": "the answer"})],
            id="an answer is logged",
        ),
        pytest.param(Message("m", ()), [], id="an empty answer is nothing"),
        pytest.param(
            Notice("info", "title", "text"),
            [("window/logMessage", {"type": 3, "message": "title: text"})],
            id="info",
        ),
        pytest.param(
            Notice("warning", "title"),
            [("window/showMessage", {"type": 2, "message": "title"})],
            id="a warning",
        ),
        pytest.param(
            Retry(1, 3, 1500, "busy"),
            [
                (
                    "window/logMessage",
                    {
                        "type": 2,
                        "message": "The model did not answer; trying again in 2 seconds: busy (1 of 3)",
                    },
                )
            ],
            id="another try",
        ),
        pytest.param(
            Notice("error", "title"), [("window/showMessage", {"type": 1, "message": "title"})], id="an error"
        ),
    ],
)
async def test_a_plain_client_gets_messages_and_no_events(payload: Payload, expected: list[Any]) -> None:
    editor, log = await following()
    log.append(payload)
    assert await received(editor) == expected


async def test_our_notifications_come_unless_they_are_not_wanted() -> None:
    wishes = {"events": {"optOut": ["sidecar/sessions/changed", "textDelta"]}}
    editor = await FakeEditor.ready(sidecar=wishes)
    sink = editor.port.sink
    sink.notify("sidecar/sessions/changed", {})
    sink.notify("sidecar/event", {"sid": "s", "seq": 0, "kind": "textDelta", "data": {}})
    sink.notify("sidecar/event", {"sid": "s", "seq": 0, "kind": "message", "data": {}})
    assert [(method, params["kind"]) for method, params in await received(editor)] == [
        ("sidecar/event", "message")
    ]


async def test_after_unfollow_no_event_comes() -> None:
    editor, log = await following(sidecar={})
    log.append(Notice("info", "before"))
    editor.port.sink.unfollow(log.sid)
    log.append(Notice("info", "after"))
    assert [params["data"]["title"] for _, params in await received(editor)] == ["before"]


async def test_the_sink_returns_its_load_and_its_client() -> None:
    editor = await FakeEditor.ready(clientInfo={"name": "Emacs"})
    editor.ask(1, "sidecar/fake/wait")
    await editor.service.begun.wait()
    sink = editor.port.sink
    assert (sink.face, sink.client_name, sink.load()) == ("lsp", "Emacs", (1, 0))
