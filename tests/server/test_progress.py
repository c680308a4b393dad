"""Work-done progress, with tokens of the client's and of our own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fake_editor import FakeEditor

CAN = {"window": {"workDoneProgress": True}}
BEGIN = {"kind": "begin", "title": "Working", "cancellable": True}
REPORT = {"kind": "report", "message": "half", "percentage": 50}
END = {"kind": "end", "message": "end_turn"}


def steps(editor: FakeEditor, token: str | int) -> list[dict[str, Any]]:
    sent = [call["params"] for call in editor.calls("$/progress")]
    return [params["value"] for params in sent if params["token"] == token]


@pytest.mark.parametrize("token", ["t", 0, ""])
async def test_a_client_s_token_is_used_as_given_and_reports_are_throttled(token: str | int) -> None:
    """Two reports come at once: the second is too fast."""
    editor = await FakeEditor.ready()
    await editor.request(1, "sidecar/turn/run", {"workDoneToken": token})
    assert steps(editor, token) == [BEGIN, REPORT, END]


async def test_a_command_keeps_its_token() -> None:
    editor = await FakeEditor.ready()
    command = {"command": "sidecar.prompt", "arguments": [{"sid": "s"}], "workDoneToken": "w"}
    await editor.request(1, "workspace/executeCommand", command)
    assert steps(editor, "w") == [BEGIN, REPORT, END]
    assert editor.service.calls == [("sidecar/turn/run", {"sid": "s", "workDoneToken": "w"})]


async def test_a_token_of_ours_is_created_first() -> None:
    editor = await FakeEditor.ready(capabilities=CAN)
    editor.ask(1, "sidecar/turn/run", {"keep": True})
    call = await editor.call("window/workDoneProgress/create")
    token = call["params"]["token"]
    await editor.answer(1)
    assert steps(editor, token) == [], "nothing before the client has taken the token"
    editor.reply(call["id"], None)
    await editor.call("$/progress")
    editor.notify("window/workDoneProgress/cancel", {"token": token})
    await editor.call("$/progress", 2)
    assert steps(editor, token) == [BEGIN, {"kind": "end", "message": "cancelled"}]


async def test_work_that_ended_meanwhile_is_shown_to_begin_and_end() -> None:
    editor = await FakeEditor.ready(capabilities=CAN)
    editor.ask(1, "sidecar/turn/run", {})
    call = await editor.call("window/workDoneProgress/create")
    editor.reply(call["id"], None)
    await editor.call("$/progress", 2)
    assert steps(editor, call["params"]["token"]) == [BEGIN, END]


async def test_a_refused_token_is_never_used() -> None:
    editor = await FakeEditor.ready(capabilities=CAN)
    editor.ask(1, "sidecar/turn/run", {})
    call = await editor.call("window/workDoneProgress/create")
    editor.send({"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32601, "message": "no"}})
    await editor.request(2, "sidecar/fake/echo")
    assert editor.calls("$/progress") == []


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="a client without the capability"),
        pytest.param({"capabilities": CAN, "sidecar": {}}, id="a client that has the events"),
    ],
)
async def test_no_token_is_created_for_this_client(params: dict[str, Any]) -> None:
    editor = await FakeEditor.ready(**params)
    await editor.request(1, "sidecar/turn/run", {})
    await asyncio.sleep(0)
    assert editor.calls("window/workDoneProgress/create") + editor.calls("$/progress") == []


async def test_cancel_reaches_the_work_once_begun_and_not_after_its_end() -> None:
    editor = await FakeEditor.ready()
    await editor.request(1, "sidecar/turn/run", {"workDoneToken": "w", "keep": True})
    for _ in range(2):
        editor.notify("window/workDoneProgress/cancel", {"token": "w"})
    await editor.request(2, "sidecar/fake/echo")
    assert steps(editor, "w") == [BEGIN, REPORT, {"kind": "end", "message": "cancelled"}]


@pytest.mark.parametrize("params", [None, {}, {"token": "unknown"}, {"token": [1]}, [1]])
async def test_a_cancel_without_a_progress_is_ignored(params: Any) -> None:
    editor = await FakeEditor.ready()
    editor.notify("window/workDoneProgress/cancel", params)
    assert (await editor.request(1, "sidecar/fake/echo", 1))["result"] == 1


async def test_a_cancel_that_fails_does_not_hurt_the_connection() -> None:
    editor = await FakeEditor.ready()
    sink = editor.port.sink.progress("w")
    assert sink is not None
    sink.begin("Working", cancellable=True)

    def fail() -> None:
        raise ValueError

    sink.on_cancel(fail)
    editor.notify("window/workDoneProgress/cancel", {"token": "w"})
    assert (await editor.request(1, "sidecar/fake/echo", 1))["result"] == 1


async def test_a_progress_sends_nothing_before_its_begin_and_after_its_end() -> None:
    editor = await FakeEditor.ready()
    sink = editor.port.sink.progress("w")
    assert sink is not None
    sink.report("too early")
    sink.end("too early")
    sink.begin("Working", cancellable=False)
    sink.begin("again", cancellable=False)
    sink.end("done")
    sink.end("again")
    sink.report("too late")
    await editor.request(1, "sidecar/fake/echo")
    assert steps(editor, "w") == [
        {"kind": "begin", "title": "Working", "cancellable": False},
        {"kind": "end", "message": "done"},
    ]
