"""A permission question in the words of each kind of editor."""

from __future__ import annotations

from typing import Any

import pytest

from fake_editor import FakeEditor

OURS = "sidecar/permission/request"
BUTTONS = "window/showMessageRequest"


async def asked(**params: Any) -> FakeEditor:
    """An editor of whose user something has been asked."""
    editor = await FakeEditor.ready(**params)
    editor.ask(1, "sidecar/fake/ask")
    return editor


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


async def test_without_a_user_to_ask_it_is_cancelled_at_once() -> None:
    editor = await asked(sidecar={})
    assert (await editor.answer(1))["result"] == {"outcome": "cancelled"}
