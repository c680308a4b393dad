"""Commands in the terminals of a client: the requests to it, the output for the model, and the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from fake_panel import FakePanel
from sidecar.acp.lending import terminal_end
from sidecar.capabilities.contract import TerminalEnd
from sidecar.conductor.events import ToolFinished
from sidecar.conductor.record.log import EventLog

if TYPE_CHECKING:
    from tests.acp.conftest import Stage

ALLOWED = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
WHERE = {"terminalId": "t1"}


async def asked(stage: Stage, monkeypatch: pytest.MonkeyPatch, **call: Any) -> FakePanel:
    """Return a panel with terminals, whose user has allowed ``make``; its turn is request 1."""
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    panel = await stage.open({"terminal": True})
    step = {"toolCall": {"name": "bash", "input": {"command": "make", **call}, "id": "c1"}}
    sid = await stage.session([step], [{"text": "done"}])
    stage.prompt(1, sid)
    panel.reply((await panel.call("session/request_permission"))["id"], ALLOWED)
    return panel


async def answer(panel: FakePanel, verb: str, result: Any) -> Any:
    """Answer a request about the terminal and return its params."""
    question = await panel.call(f"terminal/{verb}")
    panel.reply(question["id"], result)
    return question["params"]


def last_call(panel: FakePanel) -> tuple[Any, ...]:
    """Return the end of the call, as the client received it."""
    ended = panel.updates("tool_call_update")[-1]
    return ended["status"], ended["rawOutput"]["output"], ended["content"]


async def test_a_command_runs_before_the_eyes_of_the_user(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = await asked(stage, monkeypatch)
    wanted = await answer(panel, "create", WHERE)
    assert (wanted["args"], wanted["cwd"]) == (["-c", "make"], str(stage.folder))
    environment = {each["name"]: each["value"] for each in wanted["env"]}
    assert environment["SECRET_TOKEN"] == "", "variables that look like secrets are hidden from it"
    assert environment["PYTHONIOENCODING"] == "utf-8"
    shown = [{"type": "terminal", "terminalId": "t1"}]
    assert (await panel.update("tool_call_update", 2))["content"] == shown
    await answer(panel, "wait_for_exit", {"exitCode": 2})
    reply = {"output": "no rule\n", "truncated": False, "exitStatus": {"exitCode": 2}}
    await answer(panel, "output", reply)
    await answer(panel, "release", {})
    assert (await panel.answer(1))["result"]["stopReason"] == "end_turn"
    assert last_call(panel) == ("failed", "no rule\n[exit 2]", shown)
    assert not panel.calls("terminal/kill")


async def test_a_command_that_takes_too_long_is_killed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = await asked(stage, monkeypatch, timeout_s=0.01)
    await answer(panel, "create", WHERE)
    await answer(panel, "kill", {})
    await answer(panel, "output", {"output": "half", "truncated": False})
    await answer(panel, "release", {})
    assert (await panel.answer(1))["result"]["stopReason"] == "end_turn"
    status, output, _ = last_call(panel)
    assert (status, output) == ("failed", "half\n[timed out after 0.01 s and was ended]")
    waiting = await panel.call("terminal/wait_for_exit")
    assert (await panel.call("$/cancel_request"))["params"] == {"requestId": waiting["id"]}


async def test_a_command_ends_with_its_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = await asked(stage, monkeypatch)
    sid = (await answer(panel, "create", WHERE))["sessionId"]
    await panel.call("terminal/wait_for_exit")
    panel.notify("session/cancel", {"sessionId": sid})
    await answer(panel, "kill", {})
    await answer(panel, "output", {"output": "", "truncated": False})
    await answer(panel, "release", {})
    assert (await panel.answer(1))["result"]["stopReason"] == "cancelled"


@pytest.mark.processes
@pytest.mark.parametrize("made", [None, {}, {"terminalId": 3}], ids=["an error", "nothing", "no name"])
async def test_without_a_terminal_the_daemon_runs_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    panel = await asked(stage, monkeypatch, command="env echo by itself")
    question = await panel.call("terminal/create")
    if made is None:
        panel.send(
            {"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32603, "message": "no terminals"}}
        )
    else:
        panel.reply(question["id"], made)
    assert (await panel.answer(1))["result"]["stopReason"] == "end_turn"
    assert last_call(panel)[:2] == ("completed", "by itself\n[exit 0]")


async def test_a_client_that_leaves_ends_its_terminals_and_no_command_runs_twice(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = await asked(stage, monkeypatch, command="touch ran")
    session = stage.daemon.service.hub.session((await answer(panel, "create", WHERE))["sessionId"])
    terminals = stage.daemon.service.hub.terminals
    assert terminals.find(session.sid) is not None
    panel.stream.vanish()
    await panel.connection.aclose(1.0)
    assert terminals.find(session.sid) is None
    while session.is_running:
        await next_news(session.record.log)
    outputs = [
        event.data.content for event in session.record.log.after(0) if isinstance(event.data, ToolFinished)
    ]
    assert outputs == ["[the client's terminal was lost]\n[exit None]"]
    assert list(stage.folder.iterdir()) == []


@pytest.mark.parametrize(
    "reply", [None, {}, {"output": 5, "exitStatus": {"exitCode": "1"}}, {"exitStatus": 1}]
)
def test_an_end_of_another_shape_is_one_without_output_and_code(reply: Any) -> None:
    assert terminal_end(reply, "exited") == TerminalEnd("", None, "exited")


async def next_news(log: EventLog) -> None:
    """Return when another event is in the log."""
    arrived = asyncio.Event()
    stop = log.follow(lambda _: arrived.set())
    async with asyncio.timeout(20):
        await arrived.wait()
    stop()


async def test_only_a_client_with_terminals_lends_them_and_until_it_leaves(stage: Stage) -> None:
    terminals = stage.daemon.service.hub.terminals
    assert terminals.find(await stage.session()) is None
    await stage.open({"terminal": True})
    sid = await stage.session()
    assert terminals.find(sid) is not None
    await stage.call("session/close", {"sessionId": sid})
    assert terminals.find(sid) is None
