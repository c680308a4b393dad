"""Real traffic of editors, and the same with bytes changed: each request is answered once."""

from __future__ import annotations

import asyncio
import gc
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


async def session() -> list[dict[str, Any]]:
    """Return a short session that touches every part of the face."""
    note = {"uri": "file:///p/n", "languageId": "x", "version": 1, "text": "a\nb\n"}
    at = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
    change = {
        "textDocument": {"uri": "file:///p/n", "version": 2},
        "contentChanges": [{"range": at, "text": "x"}],
    }
    command = {"command": "sidecar.prompt", "arguments": [{"sid": "s"}], "workDoneToken": "w"}
    return [
        {"method": "textDocument/didOpen", "params": {"textDocument": note}},
        {"method": "textDocument/didChange", "params": change},
        {"id": 1, "method": "sidecar/status"},
        {"id": 2, "method": "workspace/executeCommand", "params": command},
        {"id": 3, "method": "sidecar/fake/wait", "params": {"a": [1, {"b": None}]}},
        {"method": "$/cancelRequest", "params": {"id": 3}},
        {"method": "window/workDoneProgress/cancel", "params": {"token": "w"}},
        {
            "method": "workspace/didChangeWatchedFiles",
            "params": {"changes": [{"uri": "file:///p/n", "type": 2}]},
        },
        {"method": "$/setTrace", "params": {"value": "messages"}},
        {"id": 4, "method": "sidecar/session/new", "params": {}},
    ]


async def test_ten_thousand_notifications_leave_no_task_and_no_future_behind() -> None:
    editor = FakeEditor()
    await editor.initialize(sidecar={}, workspaceFolders=[{"uri": "file:///a", "name": "a"}])
    await editor.request("before", "sidecar/fake/echo", 1)
    tasks, n_futures = asyncio.all_tasks(), len(pending_futures())
    notifications = [message for message in await session() if "id" not in message]
    folders: dict[str, Any] = {"event": {"added": [], "removed": []}}
    notifications.append({"method": "workspace/didChangeWorkspaceFolders", "params": folders})
    for n in range(10_000):
        editor.send({"jsonrpc": "2.0", **notifications[n % len(notifications)]})
    await editor.request("after", "sidecar/fake/echo", 1)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks
    assert len(pending_futures()) <= n_futures
    await editor.connection.aclose(1)


def pending_futures() -> list[asyncio.Future[Any]]:
    """Return the futures of this process that are not settled."""
    return [each for each in gc.get_objects() if isinstance(each, asyncio.Future) and not each.done()]


def answered(editor: FakeEditor) -> int:
    """Return how many requests of the fuzz have an answer."""
    return len([m for m in editor.messages if "method" not in m and str(m.get("id")).startswith("m")])
