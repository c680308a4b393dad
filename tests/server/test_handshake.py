"""The handshake: encoding, capabilities, options, folders, and the phases around it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import converters, types
from pytest_lsp import client_capabilities

from fake_editor import FAKE_INFO, FakeEditor
from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar.protocol.methods import METHODS
from sidecar.server.handshake import (
    ClientProfile,
    answer_initialize,
    profile_of,
    read_initialize,
)
from sidecar.server.lsp import LspServer, run_steps
from sidecar.transport.peer import Limits

WATCHES: dict[str, Any] = {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        pytest.param(None, "utf-16", id="nothing offered"),
        pytest.param(["utf-16"], "utf-16", id="only utf-16"),
        pytest.param(["utf-16", "utf-8"], "utf-8", id="utf-8 when it is offered at all"),
        pytest.param(["utf-32", "utf-16"], "utf-32", id="else as the client prefers"),
        pytest.param(["utf-7"], "utf-16", id="nothing known"),
    ],
)
async def test_position_encoding(offered: list[str] | None, chosen: str) -> None:
    general = {} if offered is None else {"general": {"positionEncodings": offered}}
    answer = await FakeEditor().initialize(capabilities=general)
    assert answer["result"]["capabilities"]["positionEncoding"] == chosen


async def test_the_server_declares_itself_in_experimental() -> None:
    answer = await FakeEditor(limits=Limits(max_body_bytes=1000, max_in_flight=5)).initialize()
    declared = answer["result"]["capabilities"]["experimental"]["sidecar"]
    assert declared == {
        "protocol": 1,
        "server": {"name": "sidecar", "version": "0", "build": "test"},
        "engines": ["windowBudget"],
        "methods": list(METHODS),
        "limits": {"maxMessageBytes": 1000, "maxInFlight": 5, "eventBuffer": 20_000},
        "faces": ["lsp"],
    }
    assert answer["result"]["serverInfo"] == {"name": "sidecar", "version": "0"}


async def test_the_server_syncs_text_by_increments() -> None:
    capabilities = (await FakeEditor().initialize())["result"]["capabilities"]
    expected = {"openClose": True, "change": 2, "save": {"includeText": False}}
    assert capabilities["textDocumentSync"] == expected
    assert "notebookDocumentSync" not in capabilities


@pytest.mark.parametrize("given", [None, {}, {"sidecar": None}, [1], "x", {"other": 1}])
async def test_without_options_of_ours_there_are_none(given: Any) -> None:
    editor = await FakeEditor.ready(initializationOptions=given)
    await editor.request(1, "sidecar/status")
    assert editor.opened == [{}]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sidecar/status", None),
        ("workspace/executeCommand", {"command": "sidecar.status"}),
        ("textDocument/codeLens", {"textDocument": {"uri": "file:///a.py"}}),
    ],
)
async def test_without_a_backend_every_request_gets_that_error(method: str, params: Any) -> None:
    """The next request tries again: the backend may be there by then."""
    editor = FakeEditor()

    def fail(_: Mapping[str, Any]) -> None:
        raise SidecarError("the daemon cannot be loaded")

    editor.on_open = fail
    await editor.initialize(capabilities={"textDocument": {"codeLens": {}}})
    editor.notify("textDocument/didSave", {"textDocument": {"uri": "file:///a.py"}})
    for n in range(2):
        error = (await editor.request(n, method, params))["error"]
        assert (error["code"], error["message"]) == (-32603, "the daemon cannot be loaded")
    editor.on_open = editor.opened.append
    assert "result" in await editor.request(2, method, params)
    assert editor.opened == [{}]
    assert "result" in await editor.request(3, "shutdown")


async def test_a_client_that_leaves_at_once_loads_nothing() -> None:
    editor = FakeEditor()
    editor.ask(1, "initialize", {"capabilities": {}})
    editor.ask(2, "shutdown")
    editor.notify("exit")
    assert "result" in await editor.answer(2)
    await editor.connection.wait_ended()
    await editor.connection.settle()
    await editor.connection.aclose(1)
    assert (editor.opened, editor.service.n_closed) == ([], 0)


@pytest.mark.parametrize(
    "odd",
    [
        {"workspace": {"workspaceEdit": {"failureHandling": "brand new"}}},
        {"textDocument": {"completion": {"completionItem": {"tagSupport": "odd"}}}},
        {"textDocument": 5},
        {"notebookDocument": []},
    ],
)
async def test_a_capability_of_a_later_day_does_not_hinder(odd: dict[str, Any]) -> None:
    general = {"general": {"positionEncodings": ["utf-8"]}, "experimental": {"sidecar": {}}}
    editor = FakeEditor()
    answer = await editor.initialize(capabilities={**general, **odd})
    assert answer["result"]["capabilities"]["positionEncoding"] == "utf-8"


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        *(
            pytest.param(params, f"the params of 'initialize' are not valid at {place}", id=place)
            for params, place in (
                (None, "params"),
                ([], "params"),
                ({}, "params.capabilities"),
                ({"capabilities": 5}, "params.capabilities"),
                ({"capabilities": {}, "processId": "abc"}, "params.processId"),
                ({"capabilities": {}, "clientInfo": {}}, "params.clientInfo.name"),
                (
                    {"capabilities": {}, "workspaceFolders": [{"uri": "file:///a"}]},
                    "params.workspaceFolders.name",
                ),
                (
                    {"capabilities": {"general": {"positionEncodings": 5}}},
                    "params.capabilities.general.positionEncodings",
                ),
            )
        ),
        pytest.param(
            {"capabilities": {}, "initializationOptions": {"sidecar": 5}},
            "initializationOptions.sidecar must be an object",
            id="options",
        ),
    ],
)
async def test_a_refused_handshake_says_what_is_wrong(params: Any, problem: str) -> None:
    error = (await FakeEditor().request(1, "initialize", params))["error"]
    assert (error["code"], error["data"]["kind"], error["message"]) == (-32602, "invalidParams", problem)


@pytest.mark.parametrize("capabilities", [[], {"window": []}, {"general": None}])
async def test_an_empty_object_may_come_as_an_array_or_null(capabilities: Any) -> None:
    assert "result" in await FakeEditor().request(1, "initialize", {"capabilities": capabilities})


@pytest.mark.parametrize(
    ("named", "folders"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({"rootUri": "file:///a", "rootPath": "/b"}, ("file:///a",), id="the root's URI"),
        pytest.param(
            {"rootPath": str(Path("/b c").absolute())}, (Path("/b c").absolute().as_uri(),), id="its path"
        ),
        pytest.param(
            {"rootUri": "file:///a", "workspaceFolders": [{"uri": "file:///x", "name": "x"}]},
            ("file:///x",),
            id="folders before a root",
        ),
        pytest.param({"rootUri": "file:///a", "workspaceFolders": []}, ("file:///a",), id="no folders"),
    ],
)
def test_the_folders_that_a_client_opens(named: dict[str, Any], folders: tuple[str, ...]) -> None:
    assert read_initialize({"capabilities": {}, **named}).folder_uris == folders


EVERY_OPERATION = {"didCreate": True, "didRename": True, "didDelete": True, "willCreate": True}


@pytest.mark.parametrize(
    "capabilities",
    [
        *(
            pytest.param(client_capabilities(name), id=name)
            for name in ("emacs", "neovim", "visual-studio-code")
        ),
        pytest.param({}, id="nothing"),
        pytest.param({"general": {"positionEncodings": ["utf-32", "utf-16"]}}, id="another encoding"),
        pytest.param({"textDocument": {"codeLens": {}, "synchronization": {"willSave": True}}}, id="lenses"),
        pytest.param(
            {"workspace": {"fileOperations": {"didRename": True, "didCreate": False}}}, id="renames"
        ),
        pytest.param({"workspace": {"fileOperations": EVERY_OPERATION}}, id="every operation"),
    ],
)
def test_the_answer_is_that_of_pygls(capabilities: Any) -> None:
    """What is told without pygls is what pygls, which handles the messages afterwards, would tell."""
    converter = converters.get_converter()
    if not isinstance(capabilities, dict):
        capabilities = converter.unstructure(capabilities)
    params = {"capabilities": capabilities}
    asked = read_initialize(params)
    profile = profile_of(asked)
    told = answer_initialize(asked, profile, FAKE_INFO, {})
    server = LspServer(FAKE_INFO, lambda: pytest.fail("not yet"), lambda _folders: None)
    server.offer(profile)
    typed = converter.structure(params, types.InitializeParams)
    if (general := typed.capabilities.general) and asked.encoding == "utf-8":
        general.position_encodings = [types.PositionEncodingKind.Utf8]  # which pygls would not prefer
    theirs = converter.unstructure(run_steps(server.protocol.lsp_initialize(typed)))
    assert told["capabilities"].pop("experimental") == {"sidecar": {}}
    assert json.dumps(told) == json.dumps(theirs)


@pytest.mark.parametrize("pid", [None, 0, 4711])
async def test_the_client_s_process_is_handed_on(pid: int | None) -> None:
    editor = await FakeEditor.ready(processId=pid)
    assert editor.processes == [pid]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param({}, (), id="no folder"),
        pytest.param({"rootUri": "file:///r"}, (Path("/r"),), id="the root"),
        pytest.param({"rootPath": "/r"}, (Path("/r"),), id="the root as a path"),
        pytest.param(
            {
                "rootUri": "file:///r",
                "workspaceFolders": [
                    {"uri": "file:///a%20b", "name": "a"},
                    {"uri": "vscode-vfs://x/y", "name": "v"},
                ],
            },
            (Path("/a b"),),
            id="folders win, and only files are folders",
        ),
    ],
)
async def test_folders_at_the_start(params: dict[str, Any], expected: tuple[Path, ...]) -> None:
    editor = await FakeEditor.ready(capabilities=WATCHES, **params)
    if expected:
        editor.reply((await editor.call("client/registerCapability"))["id"], None)
    await editor.request(1, "sidecar/status")
    assert editor.workspace.client_folders == list(expected)


async def test_folders_that_come_and_go() -> None:
    editor = await FakeEditor.ready(
        capabilities=WATCHES, workspaceFolders=[{"uri": "file:///a", "name": "a"}]
    )
    editor.reply((await editor.call("client/registerCapability"))["id"], None)
    change = {"added": [{"uri": "file:///b", "name": "b"}], "removed": [{"uri": "file:///a", "name": "a"}]}
    editor.notify("workspace/didChangeWorkspaceFolders", {"event": change})
    editor.reply((await editor.call("client/registerCapability", 2))["id"], None)
    await editor.call("client/unregisterCapability")
    assert editor.workspace.client_folders == [Path("/b")]


async def test_only_commands_of_methods_that_exist_are_advertised() -> None:
    answer = await FakeEditor().initialize()
    commands = answer["result"]["capabilities"]["executeCommandProvider"]["commands"]
    assert "sidecar.prompt" in commands
    assert "sidecar.status" in commands
    assert ("sidecar.fork" in commands) == ("sidecar/session/fork" in METHODS)


async def test_trace_of_initialize_is_respected() -> None:
    editor = await FakeEditor.ready(trace="messages")
    await editor.request(1, "sidecar/fake/refuse", {"prompt": "secret"})
    seen = [message["params"]["message"] for message in editor.calls("$/logTrace")]
    assert "Received request 'sidecar/fake/refuse' - (1)" in seen
    assert "Sending response 'sidecar/fake/refuse - (1)'. Request failed: invalidParams." in seen
    assert "secret" not in str(seen)


async def test_trace_is_off_until_it_is_set() -> None:
    editor = await FakeEditor.ready()
    await editor.request(1, "sidecar/status")
    assert editor.calls("$/logTrace") == []
    editor.notify("$/setTrace", {"value": "verbose"})
    await editor.request(2, "sidecar/status")
    assert len(editor.calls("$/logTrace")) == 2
    editor.notify("$/setTrace", {"value": "off"})
    await editor.request(3, "sidecar/status")
    assert len(editor.calls("$/logTrace")) == 2


@pytest.mark.parametrize("how", ["well", "hangs", "fails"])
async def test_shutdown_waits_for_the_service_to_settle_but_not_for_long(how: str) -> None:
    settled: list[str] = []

    async def settle() -> None:
        if how == "fails":
            raise OSError("disk full")
        if how == "hangs":
            await asyncio.Event().wait()
        settled.append(how)

    editor = FakeEditor(on_shutdown=settle, shutdown_s=0.01)
    await editor.initialize()
    assert (await editor.request(1, "shutdown"))["result"] is None
    assert settled == ([how] if how == "well" else [])
    await editor.connection.aclose(0.1)


async def test_a_client_that_is_gone_leaves_no_buffer_and_no_connection() -> None:
    editor = await FakeEditor.ready(
        capabilities={"workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}}}
    )
    document = {"uri": "file:///p/a", "languageId": "x", "version": 1, "text": "x"}
    editor.notify("textDocument/didOpen", {"textDocument": document})
    opened = await editor.workspace.open_views()
    await editor.connection.aclose(1)
    assert (len(opened), await editor.workspace.open_views(), editor.port.is_closed) == (1, (), True)


def test_the_profile_of_a_client_with_every_capability() -> None:
    params = read_initialize(
        {
            "processId": None,
            "clientInfo": {"name": "Everything"},
            "capabilities": {
                "window": {"workDoneProgress": True, "showMessage": {}},
                "workspace": {
                    "applyEdit": True,
                    "workspaceEdit": {"documentChanges": True},
                    "didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": True},
                },
                "experimental": {"sidecar": {"protocol": [2]}},
            },
        }
    )
    profile = ClientProfile(
        name="Everything",
        encoding="utf-16",
        options={},
        features=None,
        shows_progress=True,
        shows_messages=True,
        applies_edits=True,
        registers_watchers=True,
        watches_relative=True,
    )
    assert profile_of(params) == profile


def test_a_name_with_half_a_character_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'initialize' are not valid at params: a name has half"):
        read_initialize({"processId": None, "rootUri": None, "capabilities": {}, "\ud800": 1})
