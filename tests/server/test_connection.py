"""A connection answers every message in its phase, also those that pygls leaves unanswered."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from lsprotocol import types

from fake_editor import FakeEditor
from fake_service import FakeService
from sidecar.protocol.framing import frame_with_header
from sidecar.protocol.handshake import ServerInfo
from sidecar.server import connection
from sidecar.server.connection import LspConnection
from sidecar.server.documents import BUFFER_MESSAGES
from sidecar.server.handshake import profile_of, read_initialize
from sidecar.server.lsp import LspServer

NOTE = "file:///p/note.txt"


def code_and_kind(answer: dict[str, Any]) -> tuple[int, str]:
    return answer["error"]["code"], answer["error"]["data"]["kind"]


async def ready(**params: Any) -> FakeEditor:
    editor = FakeEditor()
    await editor.initialize(**params)
    return editor


@pytest.mark.parametrize(
    "method", ["sidecar/status", "shutdown", "textDocument/hover", "workspace/executeCommand"]
)
async def test_a_request_before_initialize_is_refused(method: str) -> None:
    editor = FakeEditor()
    assert code_and_kind(await editor.request(1, method)) == (-32002, "notInitialized")
    assert editor.service.calls == []


async def test_a_second_initialize_is_refused_and_the_first_stands() -> None:
    watches = {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}
    folders = [{"uri": "file:///one", "name": "one"}]
    editor = await ready(capabilities=watches, workspaceFolders=folders)
    editor.reply((await editor.call("client/registerCapability"))["id"], None)
    again: dict[str, Any] = {"processId": None, "rootUri": "file:///two", "capabilities": {}}
    assert code_and_kind(await editor.request(1, "initialize", again)) == (-32600, "alreadyInitialized")
    assert editor.workspace.client_folders == [Path("/one")]
    assert len(editor.service.connections) == 1


async def test_a_request_after_shutdown_is_refused_at_once() -> None:
    editor = await ready()
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
    editor = await ready()
    answer = await editor.request("bad", method, params)
    assert code_and_kind(answer) == (-32602, "invalidParams")
    assert place in answer["error"]["message"]
    assert editor.calls("window/showMessage") == []


async def test_a_nested_jsonrpc_key_is_data() -> None:
    editor = await ready()
    nested = {"message": {"jsonrpc": "2.0", "id": 1, "method": "x"}, "class": 1, "x-y": 2, "_id": 3}
    assert (await editor.request(1, "sidecar/fake/echo", nested))["result"] == nested
    command = {"command": "sidecar.context", "arguments": [nested]}
    assert (await editor.request(2, "workspace/executeCommand", command))["result"] == nested


async def test_a_nested_jsonrpc_key_in_initialize_is_data() -> None:
    editor = await ready(initializationOptions={"sidecar": {"models": {"jsonrpc": "2.0", "id": 4}}})
    assert editor.opened == [{"models": {"jsonrpc": "2.0", "id": 4}}]


async def test_a_request_sent_as_a_notification_is_ignored() -> None:
    """If it began, its answer would have no receiver."""
    editor = await ready(capabilities={"textDocument": {"codeLens": {}}})
    editor.notify("textDocument/codeLens", {"textDocument": {"uri": NOTE}})
    editor.notify("workspace/executeCommand", {"command": "sidecar.status"})
    editor.notify("initialize", {"capabilities": {}})
    assert (await editor.request(1, "sidecar/fake/echo", 1))["result"] == 1
    assert [call[0] for call in editor.service.calls] == ["sidecar/fake/echo"]


async def test_a_malformed_body_is_a_parse_error_under_null() -> None:
    editor = await ready()
    editor.send_body(b'{"jsonrpc":')
    assert code_and_kind(await editor.answer(None)) == (-32700, "parse")
    assert editor.calls("window/showMessage") == []


async def test_a_batch_is_an_invalid_request() -> None:
    editor = await ready()
    editor.send([{"jsonrpc": "2.0", "id": 1, "method": "sidecar/status"}])
    assert code_and_kind(await editor.answer(None)) == (-32600, "invalidRequest")


@pytest.mark.parametrize("header", [b"content-length: %d\r\n\r\n", b"Content-Length: %d\n\n"])
async def test_lenient_headers_are_read_and_the_next_messages_are_answered(header: bytes) -> None:
    editor = await ready()
    for n in range(3):
        body = b'{"jsonrpc":"2.0","id":%d,"method":"sidecar/status"}' % n
        editor.stream.send(header % len(body) + body if n == 0 else frame_with_header(body))
        assert (await editor.answer(n))["result"]["clients"] == 1


async def test_three_requests_of_one_id_give_one_result_and_two_errors() -> None:
    editor = await ready()
    for _ in range(3):
        editor.ask(7, "sidecar/fake/wait")
    await editor.stream.wait_until(lambda: len(editor.answers(7)) == 2)
    editor.service.released.set()
    await editor.stream.wait_until(lambda: len(editor.answers(7)) == 3)
    assert [code_and_kind(a) for a in editor.answers(7)[:2]] == [(-32600, "invalidRequest")] * 2
    assert "result" in editor.answers(7)[2]


async def test_a_cancel_of_a_doubled_id_reaches_the_request_that_runs() -> None:
    editor = await ready()
    editor.ask(7, "sidecar/fake/wait")
    editor.ask(7, "sidecar/fake/wait")
    await editor.service.begun.wait()
    editor.notify("$/cancelRequest", {"id": 7})
    await editor.stream.wait_until(lambda: len(editor.answers(7)) == 2)
    assert code_and_kind(editor.answers(7)[1]) == (-32800, "cancelled")
    assert editor.service.cancelled == ["fake/wait"]


async def test_cancel_of_a_running_request_is_honoured() -> None:
    editor = await ready()
    editor.ask(1, "sidecar/fake/wait")
    await editor.service.begun.wait()
    editor.notify("$/cancelRequest", {"id": 1})
    assert code_and_kind(await editor.answer(1)) == (-32800, "cancelled")


async def test_a_request_cancelled_in_its_own_tick_is_answered_and_its_work_ends() -> None:
    editor = await ready()
    editor.ask(1, "sidecar/fake/wait")
    editor.notify("$/cancelRequest", {"id": 1})
    assert code_and_kind(await editor.answer(1)) == (-32800, "cancelled")
    assert editor.service.cancelled == ["fake/wait"]


@pytest.mark.parametrize("params", [None, {}, {"id": None}, {"id": [1]}, {"id": "unknown"}, [1], "x"])
async def test_a_cancel_of_an_unknown_request_is_ignored(params: Any) -> None:
    editor = await ready()
    editor.notify("$/cancelRequest", params)
    assert (await editor.request(1, "sidecar/fake/echo", 1))["result"] == 1
    assert len(editor.messages) == 2


@pytest.mark.parametrize(
    ("shuts_down", "code"), [pytest.param(True, 0, id="after shutdown"), pytest.param(False, 1, id="without")]
)
async def test_exit_without_shutdown_ends_with_1(shuts_down: bool, code: int) -> None:
    editor = await ready()
    if shuts_down:
        await editor.request(1, "shutdown")
    editor.notify("exit")
    assert (await editor.connection.wait_ended()).code == code


async def test_exit_before_initialize_ends_with_1() -> None:
    editor = FakeEditor()
    editor.notify("exit")
    assert (await editor.connection.wait_ended()).code == 1


async def test_no_body_is_in_any_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        editor = await ready(
            initializationOptions={"sidecar": {"models": "secret"}}, clientInfo={"name": "secret"}
        )
        text = {"uri": NOTE, "languageId": "x", "version": 1, "text": "secret"}
        editor.notify("textDocument/didOpen", {"textDocument": text})
        editor.notify("textDocument/didOpen", {"textDocument": "secret"})
        for n, method in enumerate(("echo", "crash", "crashLater")):
            await editor.request(n, f"sidecar/fake/{method}", "secret")
    assert "secret" not in caplog.text


async def test_every_client_has_a_connection_of_its_own_over_one_service() -> None:
    service = FakeService()
    editors = [FakeEditor(service=service) for _ in range(2)]
    for editor in editors:
        await editor.initialize()
    for n, editor in enumerate(editors):
        assert (await editor.request(1, "sidecar/fake/echo", n))["result"] == n
    await editors[0].request(2, "shutdown")
    editors[0].notify("exit")
    await editors[0].connection.wait_ended()
    await editors[0].connection.aclose(1)
    assert (await editors[1].request(3, "sidecar/status"))["result"]["clients"] == 2
    assert [connection.is_closed for connection in service.connections] == [True, False]
    assert service.n_closed == 0


async def test_the_length_counts_bytes() -> None:
    editor = await ready()
    assert (await editor.request(1, "sidecar/fake/echo", "ä😀\u2028"))["result"] == "ä😀\u2028"
    raw = bytes(editor.stream.received_bytes).split(b"Content-Length: ")[-1]
    length, body = raw.split(b"\r\n\r\n")
    assert (int(length), json.loads(body)["result"]) == (len(body), "ä😀\u2028")
    assert "😀".encode() in body


async def test_a_change_of_an_unopened_buffer_is_tolerated_with_one_warning() -> None:
    editor = await ready()
    change = {"textDocument": {"uri": NOTE, "version": 2}, "contentChanges": [{"text": "x"}]}
    for _ in range(3):
        editor.notify("textDocument/didChange", change)
    assert (await editor.request(1, "sidecar/fake/echo", 1))["result"] == 1
    logged = editor.calls("window/logMessage")
    assert [message["params"]["type"] for message in logged] == [2]
    assert NOTE in logged[0]["params"]["message"]
    assert editor.calls("window/showMessage") == []


async def test_an_unexpected_exception_shows_neither_its_text_nor_a_traceback() -> None:
    editor = await ready()
    for n, method in enumerate(("sidecar/fake/crash", "sidecar/fake/crashLater")):
        answer = await editor.request(n, method, "the prompt")
        assert code_and_kind(answer) == (-32603, "internal")
        assert "the prompt" not in json.dumps(answer)
        assert "Traceback" not in json.dumps(answer)
        assert ".py" not in json.dumps(answer)
    assert editor.calls("window/showMessage") == []


async def test_an_unknown_method_is_refused_with_its_kind() -> None:
    editor = await ready()
    for n, method in enumerate(("sidecar/nope", "textDocument/hover", "$/nope", "nope", "")):
        assert code_and_kind(await editor.request(n, method)) == (-32601, "methodNotFound")


async def test_unknown_notifications_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    editor = await ready()
    failing = Mock(side_effect=AssertionError("an exception costs more than the message"))
    monkeypatch.setattr("sidecar.server.lsp.MethodNotFound", failing)
    for method in ("$/nope", "nope", "initialize", "sidecar/status", "notebookDocument/didOpen"):
        editor.notify(method, {})
    assert not failing.called
    assert (await editor.request(1, "sidecar/fake/echo", 1))["result"] == 1
    assert editor.service.calls == [("sidecar/fake/echo", 1)]
    assert len(editor.messages) == 2


async def test_notifications_before_initialize_are_dropped() -> None:
    editor = FakeEditor()
    document = {"uri": NOTE, "languageId": "x", "version": 1, "text": "x"}
    editor.notify("textDocument/didOpen", {"textDocument": document})
    editor.notify("initialized", {})
    await editor.initialize()
    assert await editor.workspace.open_views() == ()


async def test_many_requests_of_many_kinds_are_each_answered_once() -> None:
    editor = await ready()
    methods = ("status", "fake/echo", "fake/crash", "fake/crashLater", "fake/refuse", "fake/wait", "nope")
    for n in range(200):
        editor.ask(n, f"sidecar/{methods[n % len(methods)]}", n)
    for n in range(0, 200, 3):
        editor.notify("$/cancelRequest", {"id": n})
    editor.service.released.set()
    await editor.stream.wait_until(lambda: len(editor.messages) == 201)
    await asyncio.sleep(0)
    assert [len(editor.answers(n)) for n in range(200)] == [1] * 200


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
    editor = await ready(capabilities=capabilities, sidecar=sidecar)
    assert (await editor.request(1, "sidecar/status"))["result"]
    await asyncio.sleep(0)
    assert loaded == (["server"] if is_loaded else [])


async def test_the_language_server_is_loaded_beside_the_loop_and_takes_messages_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    editor, may_load, load = await ready(), threading.Event(), connection.load_server
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
