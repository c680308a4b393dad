"""A permission question finds the user; whatever is no clear answer counts as none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fake_panel import FakePanel
from fake_service import QUESTION
from sidecar.acp.shapes import diff_content
from sidecar.conductor.contract import PermissionAnswer, PermissionSubject

if TYPE_CHECKING:
    from tests.acp.conftest import Stage

METHOD = "session/request_permission"
YES = {"outcome": {"outcome": "selected", "optionId": "yes"}}
BASH = [{"toolCall": {"name": "bash", "input": {"command": "env true"}, "id": "c1"}}]
DONE = [{"text": "done"}]


async def asked(panel: FakePanel) -> dict[str, Any]:
    """Return the question that a user is asked, as it came."""
    await panel.initialize()
    panel.ask(1, "_sidecar/fake/ask")
    return await panel.call(METHOD)


async def test_the_params_of_a_question(panel: FakePanel) -> None:
    call = await asked(panel)
    assert call["params"] == {
        "sessionId": "fake-1",
        "toolCall": {
            "toolCallId": "c1",
            "title": "Run a command?",
            "status": "pending",
            "content": [{"type": "content", "content": {"type": "text", "text": "rm -r build"}}],
        },
        "options": [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ],
        "_meta": {"sidecar": {"permissionId": "p1", "expiresAt": 0}},
    }


async def test_a_change_is_shown(panels: Callable[..., FakePanel]) -> None:
    panel = panels()
    await asked(panel)
    diff = {"path": "/p/a.py", "oldText": None, "newText": "x"}
    change = replace(QUESTION, subject=PermissionSubject("toolCall", "c1", "write", "/p/a.py", (diff,)))
    asking = asyncio.ensure_future(panel.port.sink.request_permission(change))
    call = await panel.call(METHOD, 2)
    assert call["params"]["toolCall"]["content"] == [diff_content(diff)]
    panel.reply(call["id"], YES)
    assert await asking == PermissionAnswer("selected", "yes")


async def test_a_yes_lets_the_call_go_on(panel: FakePanel) -> None:
    call = await asked(panel)
    panel.reply(call["id"], YES)
    assert (await panel.answer(1))["result"] == {"outcome": "selected", "optionId": "yes"}
    assert panel.updates() == [
        {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"}
    ]


async def test_a_no_does_not(panel: FakePanel) -> None:
    call = await asked(panel)
    panel.reply(call["id"], {"outcome": {"outcome": "selected", "optionId": "no"}})
    assert (await panel.answer(1))["result"] == {"outcome": "selected", "optionId": "no"}
    assert panel.updates() == []


@pytest.mark.parametrize(
    "reply",
    [
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": {"outcome": "selected", "optionId": "other"}},
        {"outcome": {"outcome": "selected", "optionId": ["yes"]}},
        {"outcome": {"outcome": "odd"}},
        {"outcome": "selected", "optionId": "yes"},
        {},
        None,
        "yes",
    ],
)
async def test_no_clear_answer_is_cancelled(panel: FakePanel, reply: Any) -> None:
    call = await asked(panel)
    panel.reply(call["id"], reply)
    assert (await panel.answer(1))["result"] == {"outcome": "cancelled"}
    assert panel.updates() == []


async def test_a_client_that_errs_has_not_answered(panel: FakePanel) -> None:
    call = await asked(panel)
    panel.send({"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32601, "message": "no"}})
    assert (await panel.answer(1))["result"] == {"outcome": "cancelled"}


async def test_a_client_that_leaves_has_not_answered(panel: FakePanel) -> None:
    await asked(panel)
    asking = asyncio.ensure_future(panel.port.sink.request_permission(QUESTION))
    await panel.call(METHOD, 2)
    panel.stream.vanish()
    assert await asking == PermissionAnswer("cancelled")


async def test_an_expired_question_is_withdrawn(panel: FakePanel) -> None:
    await asked(panel)
    asking = asyncio.ensure_future(panel.port.sink.request_permission(QUESTION))
    call = await panel.call(METHOD, 2)
    asking.cancel()
    assert (await panel.call("$/cancel_request"))["params"] == {"requestId": call["id"]}


@pytest.mark.processes
async def test_the_answer_decides_what_is_done(stage: Stage) -> None:
    for option, status in (("allow_once", "completed"), ("reject_once", "failed")):
        sid = await stage.session(BASH, DONE)
        stage.prompt(option, sid)
        n_asked = len(stage.panel.calls(METHOD))
        call = await stage.panel.call(METHOD, n_asked + 1)
        stage.panel.reply(call["id"], {"outcome": {"outcome": "selected", "optionId": option}})
        assert (await stage.panel.answer(option))["result"]["stopReason"] == "end_turn"
        ended = [each for each in stage.panel.updates("tool_call_update") if "rawOutput" in each]
        assert ended[-1]["status"] == status


async def test_the_call_is_shown_before_the_question_about_it(stage: Stage) -> None:
    sid = await stage.session(BASH, DONE)
    stage.prompt(1, sid)
    call = await stage.panel.call(METHOD)
    before = stage.panel.messages[: stage.panel.messages.index(call)]
    updates = [each["params"]["update"] for each in before if each.get("method") == "session/update"]
    assert [each["toolCallId"] for each in updates if each["sessionUpdate"] == "tool_call"] == ["c1"]
    stage.panel.reply(call["id"], {"outcome": {"outcome": "cancelled"}})
    assert (await stage.panel.answer(1))["result"]["stopReason"] == "end_turn"


@pytest.mark.processes
async def test_two_panels_are_asked_and_the_first_answer_counts(stage: Stage) -> None:
    sid = await stage.session(BASH, DONE)
    first = stage.panel
    second = await stage.open()
    load = {"sessionId": sid, "cwd": str(stage.folder), "mcpServers": []}
    await stage.call("session/resume", load)
    stage.panel = first
    stage.prompt(1, sid)
    question = await second.call(METHOD)
    other = await first.call(METHOD)
    second.reply(question["id"], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
    assert (await first.answer(1))["result"]["stopReason"] == "end_turn"
    assert first.calls("$/cancel_request")[0]["params"] == {"requestId": other["id"]}
