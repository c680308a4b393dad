"""A form reaches the user of a panel by the protocol's own request, or as a question with options."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fake_panel import FakePanel
from fake_service import FORM, SIGN_IN
from sidecar.conductor.contract import Elicitation, ElicitationAnswer

CREATE = "elicitation/create"
OPTIONS = "session/request_permission"
BOTH: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
ACCEPT = ElicitationAnswer("accept", {"q1": "SQLite"})
META = {"sidecar": {"elicitationId": "e1", "from": "agent", "expiresAt": 0}}


async def check(panel: FakePanel, form: Elicitation, method: str, reply: Any, expected: Any) -> Any:
    """Return the params of the question that was answered by *reply*."""
    asking = asyncio.ensure_future(panel.port.sink.elicit(form))
    call = await panel.call(method)
    panel.reply(call["id"], reply)
    assert await asking == expected
    return call["params"]


async def test_a_form_is_created(panel: FakePanel) -> None:
    await panel.initialize(BOTH)
    reply = {"action": "accept", "content": {"q1": "SQLite"}}
    assert await check(panel, FORM, CREATE, reply, ACCEPT) == {
        "sessionId": "fake-1",
        "toolCallId": "c1",
        "mode": "form",
        "message": "Which database?",
        "requestedSchema": FORM.schema,
        "_meta": META,
    }


async def test_an_address_is_shown(panel: FakePanel) -> None:
    await panel.initialize(BOTH)
    reply = {"action": "decline"}
    assert await check(panel, SIGN_IN, CREATE, reply, ElicitationAnswer("decline")) == {
        "sessionId": "fake-1",
        "mode": "url",
        "elicitationId": "e1",
        "message": "Sign in",
        "url": "https://example.org/sign-in",
        "_meta": {"sidecar": META["sidecar"] | {"from": "db"}},
    }


def selected(option: Any) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(selected("1"), ACCEPT, id="a choice"),
        pytest.param(selected("decline"), ElicitationAnswer("decline"), id="no answer"),
        pytest.param({"outcome": {"outcome": "cancelled"}}, ElicitationAnswer("cancel"), id="closed"),
        pytest.param(selected("7"), None, id="an option nobody offered"),
        pytest.param({}, None, id="another reply"),
    ],
)
async def test_a_choice_is_a_question_with_options_elsewhere(
    panel: FakePanel, reply: Any, expected: Any
) -> None:
    await panel.initialize()
    params = await check(panel, FORM, OPTIONS, reply, expected)
    assert params["toolCall"]["title"] == "Which database?"
    assert [option["name"] for option in params["options"]] == ["Postgres", "SQLite", "No answer"]


async def test_what_a_panel_cannot_show_has_no_answer(panels: Callable[..., FakePanel]) -> None:
    panel = panels()
    await panel.initialize()
    assert await panel.port.sink.elicit(replace(FORM, schema={"properties": {"q1": {}}})) is None
