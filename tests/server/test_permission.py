"""A permission question finds the user; whatever is no clear yes counts as no answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fake_editor import FakeEditor
from fake_service import QUESTION
from sidecar.conductor.contract import PermissionAnswer

OURS = "sidecar/permission/request"
BUTTONS = "window/showMessageRequest"
YES = {"outcome": "selected", "optionId": "yes"}
CANCELLED = {"outcome": "cancelled"}


async def asked(**params: Any) -> FakeEditor:
    """An editor of whose user something has been asked."""
    editor = FakeEditor()
    await editor.initialize(**params)
    editor.ask(1, "sidecar/fake/ask")
    return editor


async def check(editor: FakeEditor, method: str, reply: Any, expected: dict[str, Any]) -> None:
    call = await editor.call(method)
    editor.reply(call["id"], reply)
    assert (await editor.answer(1))["result"] == expected


async def test_a_client_of_ours_is_asked_in_full() -> None:
    editor = await asked(sidecar={"permission": {}})
    call = await editor.call(OURS)
    assert call["params"] == {
        "sid": "fake-1",
        "turnId": "t1",
        "permissionId": "p1",
        "title": "Run a command?",
        "subject": {
            "type": "command",
            "toolCallId": "c1",
            "tool": "bash",
            "detail": "rm -r build",
            "diffs": [],
        },
        "options": [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ],
        "expiresAt": 0,
    }
    editor.reply(call["id"], YES)
    assert (await editor.answer(1))["result"] == YES


@pytest.mark.parametrize(
    "reply",
    [
        CANCELLED,
        {"outcome": "selected"},
        {"outcome": "selected", "optionId": "other"},
        {"outcome": "odd"},
        {**YES, "hunks": [{"diff": 0, "hunk": "1", "accepted": False}]},
        {**YES, "hunks": [{"diff": 0, "hunk": 1, "accepted": "no"}]},
        {**YES, "hunks": {"0": False}},
        None,
        "yes",
        [],
    ],
)
async def test_no_clear_yes_is_cancelled(reply: Any) -> None:
    await check(await asked(sidecar={"permission": {}}), OURS, reply, CANCELLED)


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="a plain client that declares nothing"),
        pytest.param(
            {"capabilities": {"window": {"showMessage": {}}}, "sidecar": {}}, id="one of ours with buttons"
        ),
    ],
)
async def test_others_are_asked_with_buttons(params: dict[str, Any]) -> None:
    editor = await asked(**params)
    call = await editor.call(BUTTONS)
    assert call["params"] == {
        "type": 2,
        "message": "Run a command?\nrm -r build",
        "actions": [{"title": "Allow"}, {"title": "Reject"}],
    }
    editor.reply(call["id"], {"title": "Allow"})
    assert (await editor.answer(1))["result"] == YES


@pytest.mark.parametrize("reply", [None, {}, {"title": "Other"}, {"title": [1]}, "Allow"])
async def test_a_dismissed_message_is_cancelled(reply: Any) -> None:
    await check(await asked(), BUTTONS, reply, CANCELLED)


async def test_without_a_user_to_ask_it_is_cancelled_at_once() -> None:
    editor = await asked(sidecar={})
    assert (await editor.answer(1))["result"] == CANCELLED


async def test_a_client_that_errs_has_not_answered() -> None:
    editor = await asked()
    call = await editor.call(BUTTONS)
    editor.send({"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32601, "message": "no"}})
    assert (await editor.answer(1))["result"] == CANCELLED


async def test_a_client_that_leaves_has_not_answered() -> None:
    editor = FakeEditor()
    await editor.initialize()
    asking = asyncio.ensure_future(editor.port.sink.request_permission(QUESTION))
    await editor.call(BUTTONS)
    editor.stream.vanish()
    assert await asking == PermissionAnswer("cancelled")


async def test_an_expired_question_is_withdrawn() -> None:
    editor = FakeEditor()
    await editor.initialize(sidecar={"permission": {}})
    asking = asyncio.ensure_future(editor.port.sink.request_permission(QUESTION))
    call = await editor.call(OURS)
    asking.cancel()
    assert (await editor.call("$/cancelRequest"))["params"] == {"id": call["id"]}
