"""A connection answers every message in its phase, also those that pygls leaves unanswered."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from typing import Any
from unittest.mock import Mock

import pytest
from lsprotocol import types

from fake_editor import FakeEditor
from sidecar.protocol.handshake import ServerInfo
from sidecar.server import connection
from sidecar.server.connection import LspConnection
from sidecar.server.documents import BUFFER_MESSAGES
from sidecar.server.handshake import profile_of, read_initialize
from sidecar.server.lsp import LspServer

NOTE = "file:///p/note.txt"


def code_and_kind(answer: dict[str, Any]) -> tuple[int, str]:
    return answer["error"]["code"], answer["error"]["data"]["kind"]


async def test_a_request_after_shutdown_is_refused_at_once() -> None:
    editor = await FakeEditor.ready()
    assert (await editor.request(1, "shutdown"))["result"] is None
    for n, method in enumerate(("sidecar/status", "shutdown", "initialize")):
        assert code_and_kind(await editor.request(10 + n, method)) == (-32600, "invalidRequest")


@pytest.mark.parametrize(
    ("method", "params", "place"),
    [
        ("workspace/executeCommand", {"command": 5}, "command"),
        ("textDocument/didOpen", {"textDocument": {"uri": NOTE}}, "params.textDocument.languageId"),
        ("textDocument/didChange", "text", "params"),
        ("textDocument/didChange", None, "params"),
    ],
)
async def test_invalid_params_of_a_typed_request_are_answered(method: str, params: Any, place: str) -> None:
    editor = await FakeEditor.ready()
    answer = await editor.request("bad", method, params)
    assert code_and_kind(answer) == (-32602, "invalidParams")
    assert place in answer["error"]["message"]
    assert editor.calls("window/showMessage") == []


async def test_a_nested_jsonrpc_key_is_data() -> None:
    editor = await FakeEditor.ready()
    nested = {"message": {"jsonrpc": "2.0", "id": 1, "method": "x"}, "class": 1, "x-y": 2, "_id": 3}
    assert (await editor.request(1, "sidecar/fake/echo", nested))["result"] == nested
    command = {"command": "sidecar.context", "arguments": [nested]}
    assert (await editor.request(2, "workspace/executeCommand", command))["result"] == nested


async def test_a_request_sent_as_a_notification_is_ignored() -> None:
    """If it began, its answer would have no receiver."""
    editor = await FakeEditor.ready(capabilities={"textDocument": {"codeLens": {}}})
    editor.notify("textDocument/codeLens", {"textDocument": {"uri": NOTE}})
    editor.notify("workspace/executeCommand", {"command": "sidecar.status"})
    editor.notify("initialize", {"capabilities": {}})
    assert (await editor.request(1, "sidecar/fake/echo", 1))["result"] == 1
    assert [call[0] for call in editor.service.calls] == ["sidecar/fake/echo"]


async def test_exit_before_initialize_ends_with_1() -> None:
    editor = FakeEditor()
    editor.notify("exit")
    assert (await editor.connection.wait_ended()).code == 1


async def test_no_body_is_in_any_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        editor = await FakeEditor.ready(
            initializationOptions={"sidecar": {"models": "secret"}}, clientInfo={"name": "secret"}
        )
        text = {"uri": NOTE, "languageId": "x", "version": 1, "text": "secret"}
        editor.notify("textDocument/didOpen", {"textDocument": text})
        editor.notify("textDocument/didOpen", {"textDocument": "secret"})
        for n, method in enumerate(("echo", "crash", "crashLater")):
            await editor.request(n, f"sidecar/fake/{method}", "secret")
    assert "secret" not in caplog.text


async def test_notifications_before_initialize_are_dropped() -> None:
    editor = FakeEditor()
    document = {"uri": NOTE, "languageId": "x", "version": 1, "text": "x"}
    editor.notify("textDocument/didOpen", {"textDocument": document})
    editor.notify("initialized", {})
    await editor.initialize()
    assert await editor.workspace.open_views() == ()


@pytest.mark.parametrize(
    ("sidecar", "capabilities", "is_loaded"),
    [
        pytest.param(None, {}, True, id="an editor"),
        pytest.param(
            {}, {"textDocument": {"publishDiagnostics": {}}}, True, id="an editor with our extension"
        ),
        pytest.param({}, {"window": {"workDoneProgress": True}}, False, id="a program with our client"),
    ],
)
async def test_the_language_server_is_loaded_ahead_for_editors_alone(
    sidecar: Any, capabilities: dict[str, Any], is_loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr("sidecar.server.connection._LOAD_SERVER_AFTER_S", 0)
    monkeypatch.setattr(LspConnection, "_load_server", lambda _self: loaded.append("server"))
    editor = await FakeEditor.ready(capabilities=capabilities, sidecar=sidecar)
    assert (await editor.request(1, "sidecar/status"))["result"]
    await asyncio.sleep(0)
    assert loaded == (["server"] if is_loaded else [])


async def test_the_language_server_is_loaded_beside_the_loop_and_takes_messages_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    editor, may_load, load = await FakeEditor.ready(), threading.Event(), connection.load_server
    monkeypatch.setattr(connection, "load_server", lambda: (may_load.wait(30), load()))
    monkeypatch.delitem(sys.modules, "sidecar.server.lsp", raising=False)
    for value in ("messages", "off", "messages"):
        editor.notify("$/setTrace", {"value": value})
    editor.ask(1, "textDocument/codeLens", {"textDocument": {"uri": "file:///a"}})
    assert (await editor.request(2, "sidecar/status"))["result"], "the loop goes on"
    assert not editor.answers(1)
    may_load.set()
    await editor.stream.wait_until(lambda: bool(editor.answers(1)))
    assert editor.answers(1)[0]["error"]["code"] == -32601
    editor.notify("sidecar/nope", {})
    await editor.stream.wait_until(
        lambda: any(message.get("method") == "$/logTrace" for message in editor.messages)
    )


async def test_every_message_of_the_language_server_reaches_it() -> None:
    info = ServerInfo("sidecar", "1", "build", (), (), event_buffer=1)
    server = LspServer(info, Mock(), Mock())
    capabilities: dict[str, Any] = {
        "textDocument": {"codeLens": {}},
        "workspace": {"textDocumentContent": {}},
    }
    asked = read_initialize({"processId": None, "rootUri": None, "capabilities": capabilities})
    server.offer(profile_of(asked))
    server.begin(asked)
    notifications = {method for method in server.known if types.METHOD_TO_TYPES[method][1] is None}
    assert notifications == {*connection.SERVER_NOTIFICATIONS, *BUFFER_MESSAGES, "initialized"}
    assert server.known - notifications == connection.SERVER_REQUESTS
