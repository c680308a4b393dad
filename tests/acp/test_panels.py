"""Agent panels as they shake hands, each in a session of its own against the real process.

The messages in ``panels`` have the shape of those that each panel sends: its capabilities, its
requests in their order, its content blocks. ``$CWD``, ``$SID`` and ``$OPTIONS`` are filled in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PANELS: Final = sorted((Path(__file__).parent / "panels").glob("*.json"))
CHANGE: Final = {"path": "a.py", "old_text": "answer = 42", "new_text": "answer = 43"}
TODO: Final = [{"content": "change it", "status": "in_progress", "priority": "high"}]
STEPS: Final = [
    [{"toolCall": {"name": "todo", "input": {"entries": TODO}}}],
    [{"toolCall": {"name": "read", "input": {"path": "a.py"}}}],
    [{"toolCall": {"name": "edit", "input": CHANGE}}],
    [{"text": "It is 43 now."}],
]
OPTIONS: Final = {"sidecar": {"models": {"fake-1": {"scripted": STEPS}}}}
NEEDED: Final = (
    "available_commands_update",
    "usage_update",
    "plan",
    "tool_call",
    "tool_call_update",
    "agent_message_chunk",
)


class Panel:
    """A panel that plays its messages; it reads and writes files for the agent, and allows what is asked."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.sid = ""
        self.seen: list[dict[str, Any]] = []
        environment = {**os.environ, "INDUSAGI_HOME": str(home)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sidecar", "acp"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def play(self, step: Mapping[str, Any]) -> dict[str, Any] | None:
        """Send the message of a step and return its result, None for a notification."""
        message = self._filled(step["send"])
        self._send(message)
        while "id" in message:
            received = self._receive()
            if "method" not in received and received.get("id") == message["id"]:
                assert "result" in received, received
                self.sid = received["result"].get("sessionId", self.sid)
                result: dict[str, Any] = received["result"]
                return result
        return None

    def expected(self, step: Mapping[str, Any]) -> Any:
        """Return the fields that the result of a step has to have."""
        return self._filled(step["expect"])

    def updates(self, kind: str) -> list[dict[str, Any]]:
        """Return the updates of a kind."""
        found = [each["params"]["update"] for each in self.seen if each.get("method") == "session/update"]
        return [update for update in found if update["sessionUpdate"] == kind]

    def close(self) -> int:
        """Hang up, and return the exit code of the agent."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def _filled(self, value: Any) -> Any:
        text = json.dumps(value).replace('"$OPTIONS"', json.dumps(OPTIONS))
        return json.loads(text.replace("$CWD", str(self.folder)).replace("$SID", self.sid))

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        received: dict[str, Any] = json.loads(self._process.stdout.readline())
        self.seen.append(received)
        if "method" in received and "id" in received:
            self._send({"jsonrpc": "2.0", "id": received["id"], **self._answer(received)})
        return received

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        params = request["params"]
        match request["method"]:
            case "session/request_permission":
                allow = next(option for option in params["options"] if option["kind"] == "allow_once")
                return {"result": {"outcome": {"outcome": "selected", "optionId": allow["optionId"]}}}
            case "fs/read_text_file":
                return {"result": {"content": Path(params["path"]).read_text()}}
            case "fs/write_text_file":
                Path(params["path"]).write_text(params["content"])
                return {"result": {}}
            case method:
                return {"error": {"code": -32601, "message": f"no {method}"}}


@pytest.fixture
def panel(tmp_path: Path) -> Iterator[Panel]:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    (folder / "a.py").write_text("answer = 42\n")
    opened = Panel(folder, tmp_path / "home")
    yield opened
    opened.close()


def has(found: Any, expected: Any) -> bool:
    """Whether *found* has everything that *expected* has."""
    if isinstance(expected, dict):
        return all(name in found and has(found[name], value) for name, value in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(has, found, expected))
    return bool(found == expected)


@pytest.mark.parametrize("path", PANELS, ids=lambda path: path.stem)
def test_a_panel_has_its_session(panel: Panel, path: Path) -> None:
    for step in json.loads(path.read_text())["steps"]:
        n_before = len(panel.seen)
        result = panel.play(step)
        if step["send"]["method"] == "session/new":
            early = panel.seen[n_before:-1]
            assert early == [], "some panels hang on an update of a session that they do not know yet"
        if "expect" in step:
            assert has(result, panel.expected(step)), result
    assert (panel.folder / "a.py").read_text() == "answer = 43\n"
    assert [kind for kind in NEEDED if not panel.updates(kind)] == []
    (asked,) = [each for each in panel.seen if each.get("method") == "session/request_permission"]
    (diff,) = asked["params"]["toolCall"]["content"]
    assert (diff["type"], diff["newText"]) == ("diff", "answer = 43\n")
    assert diff["_meta"]["sidecar"]["uri"] == (panel.folder / "a.py").as_uri()
    hints = {
        each["name"]: each.get("input")
        for each in panel.updates("available_commands_update")[0]["availableCommands"]
    }
    assert hints["compact"] == {"hint": "[engine] [instructions]"}
    assert (
        "".join(each["content"]["text"] for each in panel.updates("agent_message_chunk")).count("43 now") == 1
    )
