"""A form reaches the user of an editor by our own request, or with buttons where it is one choice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from fake_editor import FakeEditor
from fake_service import FORM, SIGN_IN
from sidecar.conductor.contract import Elicitation, ElicitationAnswer
from sidecar.protocol.codec import to_wire

OURS = "sidecar/elicit"
BUTTONS = "window/showMessageRequest"
BOTH: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
NAME = replace(FORM, schema={"properties": {"q1": {"type": "string"}}})


async def editor_of(**params: Any) -> FakeEditor:
    editor = FakeEditor()
    await editor.initialize(**params)
    return editor


async def check(
    editor: FakeEditor, form: Elicitation, method: str, reply: Any, expected: ElicitationAnswer | None
) -> Any:
    """Return the params of the question that was answered by *reply*."""
    asking = asyncio.ensure_future(editor.port.sink.elicit(form))
    call = await editor.call(method)
    editor.reply(call["id"], reply)
    assert await asking == expected
    return call["params"]


@pytest.mark.parametrize("form", [FORM, SIGN_IN])
async def test_a_client_of_ours_gets_the_form(form: Elicitation) -> None:
    accept = {"action": "accept", "content": {"q1": "SQLite"}}
    answer = ElicitationAnswer("accept", {"q1": "SQLite"})
    params = await check(await editor_of(sidecar=BOTH), form, OURS, accept, answer)
    assert params == to_wire(form)
    assert params.get("url") == form.url


@pytest.mark.parametrize("reply", [None, "yes", {}, {"action": 1}])
async def test_another_reply_is_no_answer(reply: Any) -> None:
    await check(await editor_of(sidecar=BOTH), FORM, OURS, reply, None)


@pytest.mark.parametrize(
    ("form", "reply", "expected"),
    [
        pytest.param(FORM, {"title": "SQLite"}, ElicitationAnswer("accept", {"q1": "SQLite"}), id="a choice"),
        pytest.param(FORM, None, ElicitationAnswer("cancel"), id="closed"),
        pytest.param(FORM, {"title": "Oracle"}, None, id="no choice"),
        pytest.param(SIGN_IN, {"title": "Done"}, ElicitationAnswer("accept", {}), id="an address"),
    ],
)
async def test_another_editor_has_buttons(form: Elicitation, reply: Any, expected: Any) -> None:
    params = await check(await editor_of(), form, BUTTONS, reply, expected)
    assert (form.url or form.message) in params["message"]


async def test_what_a_client_cannot_show_has_no_answer() -> None:
    assert await (await editor_of()).port.sink.elicit(NAME) is None
    assert await (await editor_of(sidecar={})).port.sink.elicit(FORM) is None
    only_forms = await editor_of(sidecar={"elicitation": {"form": {}}})
    assert await only_forms.port.sink.elicit(SIGN_IN) is None


async def test_a_client_that_leaves_leaves_the_form_open() -> None:
    editor = await editor_of(sidecar=BOTH)
    asking = asyncio.ensure_future(editor.port.sink.elicit(FORM))
    await editor.call(OURS)
    editor.stream.vanish()
    done, _ = await asyncio.wait({asking}, timeout=0.05)
    assert not done
    asking.cancel()
