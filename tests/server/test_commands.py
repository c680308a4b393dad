"""The commands of executeCommand are methods under another name."""

from __future__ import annotations

from typing import Any

import pytest

from fake_editor import FakeEditor
from sidecar._internal.errors import InvalidInput
from sidecar.protocol.methods import METHODS
from sidecar.server.handshake import COMMANDS, resolve_command


def test_every_command_has_a_method_of_the_table() -> None:
    assert set(COMMANDS.values()) <= set(METHODS)
    assert COMMANDS["sidecar.prompt"] == "sidecar/turn/run"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"command": "sidecar.status"}, ("sidecar/status", {})),
        ({"command": "sidecar.status", "arguments": None}, ("sidecar/status", {})),
        ({"command": "sidecar.status", "arguments": []}, ("sidecar/status", {})),
        ({"command": "sidecar.new", "arguments": [{"cwd": "/p"}]}, ("sidecar/session/new", {"cwd": "/p"})),
        (
            {"command": "sidecar.compact", "arguments": [{"sid": "s"}], "workDoneToken": 0},
            ("sidecar/compact/start", {"sid": "s", "workDoneToken": 0}),
        ),
        (
            {"command": "sidecar.prompt", "arguments": [{"sid": "s"}], "partialResultToken": "p"},
            ("sidecar/turn/run", {"sid": "s", "partialResultToken": "p"}),
        ),
        (
            {"command": "sidecar.compact", "arguments": [{"workDoneToken": "own"}], "workDoneToken": "w"},
            ("sidecar/compact/start", {"workDoneToken": "own"}),
        ),
    ],
)
def test_resolve_command(params: Any, expected: tuple[str, dict[str, Any]]) -> None:
    assert resolve_command(params) == expected


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        {},
        {"command": 5},
        {"command": ["sidecar.status"]},
        {"command": "sidecar.nope"},
        {"command": "sidecar.status", "arguments": [{}, {}]},
        {"command": "sidecar.status", "arguments": ["s"]},
        {"command": "sidecar.status", "arguments": {"sid": "s"}},
    ],
)
def test_an_invalid_command_is_refused(params: Any) -> None:
    with pytest.raises(InvalidInput):
        resolve_command(params)


async def test_a_command_is_answered_as_its_method() -> None:
    editor = await FakeEditor.ready()
    command = {"command": "sidecar.context", "arguments": [{"sid": "s", "class": 1}]}
    answer = await editor.request(1, "workspace/executeCommand", command)
    assert answer["result"] == {"sid": "s", "class": 1}
    assert editor.service.calls == [("sidecar/context/usage", {"sid": "s", "class": 1})]
