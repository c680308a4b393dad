"""Real traffic of editors, and the same with bytes changed: each request is answered once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fake_editor import FakeEditor

RECORDED = Path(__file__).parents[2].parent / "shared" / "data" / "dev" / "lsp"
HERE = pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded sessions are not beside the checkout")


def inspector_log() -> list[dict[str, Any]]:
    """Return the messages of VS Code to a CSS server, in order."""
    messages: list[dict[str, Any]] = []
    for entry in json.loads((RECORDED / "css.log.json").read_text()):
        message = {"jsonrpc": "2.0", "method": entry["msgType"], "params": entry.get("arg")}
        if entry["msgKind"] == "send-request":
            messages.append({**message, "id": int(entry["msgId"])})
        elif entry["msgKind"] == "send-notification":
            messages.append(message)
    return messages


def haskell_log() -> list[dict[str, Any]]:
    """Return the messages of an editor to a Haskell server, in order."""
    lines = (RECORDED / "haskell-renamePass-session.log").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    sent = [event["contents"][1] for event in events if event["tag"] == "FromClient"]
    return [event["contents"] for event in sent if isinstance(event.get("contents"), dict)]


@HERE
@pytest.mark.parametrize("log", [inspector_log, haskell_log])
async def test_a_recorded_session_is_answered_in_full(log: Any, caplog: pytest.LogCaptureFixture) -> None:
    messages = [m for m in log() if m.get("method") != "exit"]
    assert len(messages) > 3
    editor = FakeEditor()
    for message in messages:
        editor.send(message)
    ids = [m["id"] for m in messages if "method" in m and "id" in m]
    for request_id in ids:
        answer = await editor.answer(request_id)
        assert answer.get("error", {}).get("code") in (None, -32601), answer
    assert [len(editor.answers(request_id)) for request_id in ids] == [1] * len(ids)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
