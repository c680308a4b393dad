"""Questions in the words of the protocol, and what their answers decide."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fake_panel import FakePanel
from fake_service import FORM, QUESTION, SIGN_IN
from sidecar.acp.shapes import diff_content
from sidecar.conductor.contract import Elicitation, ElicitationAnswer, PermissionAnswer, PermissionSubject

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


@pytest.mark.parametrize(
    ("form", "params"),
    [
        pytest.param(
            FORM,
            {
                "sessionId": "fake-1",
                "toolCallId": "c1",
                "mode": "form",
                "message": "Which database?",
                "requestedSchema": FORM.schema,
                "_meta": {"sidecar": {"elicitationId": "e1", "from": "agent", "expiresAt": 0}},
            },
            id="a form",
        ),
        pytest.param(
            SIGN_IN,
            {
                "sessionId": "fake-1",
                "mode": "url",
                "elicitationId": "e1",
                "message": "Sign in",
                "url": "https://example.org/sign-in",
                "_meta": {"sidecar": {"elicitationId": "e1", "from": "db", "expiresAt": 0}},
            },
            id="an address",
        ),
    ],
)
async def test_the_params_of_a_form(panel: FakePanel, form: Elicitation, params: dict[str, Any]) -> None:
    await panel.initialize({"elicitation": {"form": {}, "url": {}}})
    asking = asyncio.ensure_future(panel.port.sink.elicit(form))
    call = await panel.call("elicitation/create")
    assert call["params"] == params
    panel.reply(call["id"], {"action": "accept", "content": {"q1": "SQLite"}})
    assert await asking == ElicitationAnswer("accept", {"q1": "SQLite"})


async def test_the_call_is_shown_before_the_question_about_it(stage: Stage) -> None:
    sid = await stage.session(BASH, DONE)
    stage.prompt(1, sid)
    call = await stage.panel.call(METHOD)
    before = stage.panel.messages[: stage.panel.messages.index(call)]
    updates = [each["params"]["update"] for each in before if each.get("method") == "session/update"]
    assert [each["toolCallId"] for each in updates if each["sessionUpdate"] == "tool_call"] == ["c1"]
    stage.panel.reply(call["id"], {"outcome": {"outcome": "cancelled"}})
    assert (await stage.panel.answer(1))["result"]["stopReason"] == "end_turn"
