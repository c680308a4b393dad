"""The handshake, the typed methods, documents and streams of one client."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

import pytest

from sidecar.protocol.messages import QueryKind, SeqResult
from sidecar.protocol.methods import METHODS, Method
from sidecar_client import (
    ConnectionLost,
    Notification,
    SidecarClient,
    UnexpectedAnswerError,
    sync,
)
from sidecar_client.calls import AsyncCalls
from sidecar_client.scripted import NO_ANSWER, ScriptedDaemon

STATUS = {
    "pid": 1,
    "version": "0",
    "uptimeMs": 2,
    "clients": [{"id": "c", "name": "n", "face": "lsp"}],
    "sessions": {"loaded": 1, "running": 0},
    "queues": {"in": 0, "outBytes": 0},
    "rssBytes": 3,
    "watch": {"backend": "none", "roots": 0, "dropped": 0},
    "children": [],
    "lastErrors": [],
}


async def test_the_handshake_describes_daemon_and_client() -> None:
    script = ScriptedDaemon()
    async with script.client(options={"models": []}, capabilities={"window": {"showDocument": {}}}) as client:
        assert client.server == {"protocol": 1}
    (introduction,) = script.params_of("initialize")
    assert introduction == {
        "processId": None,
        "clientInfo": {"name": "sidecar_client"},
        "rootUri": None,
        "workspaceFolders": None,
        "capabilities": {
            "window": {"workDoneProgress": True, "showDocument": {}},
            "general": {"positionEncodings": ["utf-8", "utf-16"]},
            "experimental": {"sidecar": {"protocol": [1], "events": {}, "permission": {}, "compaction": {}}},
        },
        "initializationOptions": {"sidecar": {"models": []}},
    }
    assert script.params_of("initialized") == [{}]


async def test_only_a_client_with_a_handler_for_edits_takes_them() -> None:
    script = ScriptedDaemon()
    async with script.client(handlers={"sidecar/edit/apply": lambda _: {"applied": True}}):
        assert (await script.request("sidecar/edit/apply", {})).result == {"applied": True}
    (introduction,) = script.params_of("initialize")
    assert introduction["capabilities"]["experimental"]["sidecar"]["edits"] == {}


async def test_only_a_client_with_a_handler_for_questions_about_code_gets_them() -> None:
    script = ScriptedDaemon()
    handlers = {"sidecar/editor/query": lambda query: {"answer": query["uri"]}}
    hovers = {"experimental": {"sidecar": {"editor": {"query": ["hover"]}}}}
    for capabilities in ({}, hovers):
        async with script.client(handlers=handlers, capabilities=capabilities):
            asked = await script.request("sidecar/editor/query", {"uri": "file:///a.py"})
            assert asked.result == {"answer": "file:///a.py"}
    every, some = script.params_of("initialize")
    declared = [each["capabilities"]["experimental"]["sidecar"]["editor"] for each in (every, some)]
    assert declared == [{"query": list(get_args(QueryKind))}, {"query": ["hover"]}]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="nothing"),
        pytest.param({"capabilities": {"hoverProvider": True}}, id="another server"),
        pytest.param({"capabilities": {"experimental": {"sidecar": {"protocol": 2}}}}, id="a newer protocol"),
    ],
)
async def test_a_stranger_is_left_at_once(answer: Any) -> None:
    client = ScriptedDaemon({"initialize": lambda _: answer}).client()
    with pytest.raises(UnexpectedAnswerError, match="not a daemon of protocol 1"):
        await client.start()
    with pytest.raises(ConnectionLost, match="closed"):
        await client.request("sidecar/status")


async def test_an_answer_to_initialize_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar_client.client._START_S", 0.01)
    script = ScriptedDaemon({"initialize": lambda _: NO_ANSWER})
    script.stderr_tail = "still thinking"
    with pytest.raises(ConnectionLost, match="still thinking"):
        await script.client().start()


async def test_a_closed_client_raises_and_may_be_closed_again() -> None:
    async with ScriptedDaemon().client() as client:
        events, notifications = client.events("s"), client.notifications()
    await client.close()
    with pytest.raises(ConnectionLost, match="this client has been closed"):
        await client.status()
    assert [event async for event in events] == []
    assert [event async for event in client.events("late")] == []
    assert [notification async for notification in notifications] == []


class Recorder(AsyncCalls):
    """Answers a call with what was to be called."""

    async def call(self, method: str, params: object, result: type[Any]) -> Any:
        return method, params, result


@pytest.mark.parametrize("row", METHODS.values(), ids=METHODS.keys())
async def test_every_row_of_the_table_is_a_method(row: Method) -> None:
    """``sidecar/turn/start`` is ``turn_start``, with the fields of its params as arguments; blocking too."""
    words = re.sub("([A-Z])", r"_\1", row.name.removeprefix("sidecar/")).replace("/", "_")
    name = words.lower()
    required = {field.name: f"a {field.name}" for field in fields(row.params) if field.default is MISSING}
    assert await getattr(Recorder(), name)(**required) == (row.name, row.params(**required), row.result)
    assert getattr(sync.SidecarClient, name).__doc__ == getattr(SidecarClient, name).__doc__


async def test_results_have_their_types() -> None:
    async with ScriptedDaemon({"sidecar/status": lambda _: {**STATUS, "new": 1}}).client() as client:
        status = await client.status()
    assert (status.uptime_ms, status.clients[0].face) == (2, "lsp")


async def test_an_answer_of_another_shape_is_an_error_with_each_path() -> None:
    async with ScriptedDaemon({"sidecar/status": lambda _: {**STATUS, "pid": "x"}}).client() as client:
        with pytest.raises(UnexpectedAnswerError, match=r"sidecar/status .* expected an integer"):
            await client.status()


async def test_documents_are_synchronised_with_counted_versions(tmp_path: Path) -> None:
    script, file = ScriptedDaemon(), tmp_path / "a é.py"
    uri = file.as_uri()
    edit = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}, "text": "y"}
    async with script.client() as client:
        await client.did_open(file, "x", "python")
        await client.did_change(file, "xx")
        await client.did_change(uri, [edit])
        await client.did_save(uri)
        await client.did_close(file)
        await client.did_change_watched_files([(file, "deleted"), ("file:///b", "created")])
    assert script.params_of("textDocument/didOpen") == [
        {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": "x"}}
    ]
    assert script.params_of("textDocument/didChange") == [
        {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": "xx"}]},
        {"textDocument": {"uri": uri, "version": 3}, "contentChanges": [edit]},
    ]
    assert script.params_of("textDocument/didSave") == [{"textDocument": {"uri": uri}}]
    assert script.params_of("textDocument/didClose") == [{"textDocument": {"uri": uri}}]
    assert script.params_of("workspace/didChangeWatchedFiles") == [
        {"changes": [{"uri": uri, "type": 3}, {"uri": "file:///b", "type": 1}]}
    ]


async def test_events_go_to_every_reader_of_their_session_alone() -> None:
    script = ScriptedDaemon()
    async with script.client() as client:
        first, second, other = client.events("a"), client.events("a"), client.events("b")
        script.event("a", 1, "phase", phase="idle")
        script.event("b", 7, "phase", phase="idle")
        assert [(await anext(stream)).seq for stream in (first, second, other)] == [1, 1, 7]
        assert (await anext(client.events("a", 0))).data == {"phase": "idle"}


async def test_an_event_of_an_unknown_kind_gets_through() -> None:
    script = ScriptedDaemon()
    async with script.client() as client:
        script.event("a", 1, "brandNew", "t", answer=42)
        event = await anext(client.events("a", 0))
    assert (event.kind, event.turn_id, event.at, dict(event.data)) == ("brandNew", "t", 1, {"answer": 42})


async def test_a_gap_of_the_daemon_is_in_the_stream_in_its_place() -> None:
    script = ScriptedDaemon()
    async with script.client() as client:
        script.event("a", 1, "textDelta", delta="x")
        script.notify("sidecar/gap", {"sid": "a", "from": 2, "to": 8, "reason": "slow"})
        script.event("a", 9, "message")
        events = client.events("a", 0)
        seen = [await anext(events) for _ in range(3)]
    assert [(event.seq, event.kind) for event in seen] == [(1, "textDelta"), (8, "gap"), (9, "message")]
    assert seen[1].data == {"from": 2, "to": 8, "reason": "slow"}


async def test_a_reader_that_sleeps_too_long_gets_its_gap() -> None:
    script = ScriptedDaemon()
    async with script.client() as client:
        for seq in range(1, 12):
            script.event("a", seq, "toolFinished", content="x" * 1_000_000)
        events = client.events("a", 0)
        script.event("b", 1, "phase")
        await anext(client.events("b", 0))
        gap, kept = await anext(events), await anext(events)
    assert (gap.kind, gap.data["from"], gap.data["reason"]) == ("gap", 1, "unread")
    assert kept.seq == gap.seq + 1 == gap.data["to"] + 1


async def test_closing_a_session_ends_its_streams() -> None:
    script = ScriptedDaemon({"sidecar/session/close": lambda _: {"seq": 7}})
    async with script.client() as client:
        events = client.events("a")
        assert await client.session_close("a") == SeqResult(7)
        assert [event async for event in events] == []


async def test_other_notifications_have_a_stream_too() -> None:
    script = ScriptedDaemon()
    async with script.client() as client:
        notifications = client.notifications()
        script.notify("sidecar/sessions/changed", None)
        script.notify("sidecar/closing", {"reason": "idle", "inMs": 5})
        assert [await anext(notifications), await anext(notifications)] == [
            Notification("sidecar/sessions/changed", {}),
            Notification("sidecar/closing", {"reason": "idle", "inMs": 5}),
        ]


async def test_progress_of_one_token_ends_with_it() -> None:
    script = ScriptedDaemon()
    async with script.client() as client:
        progress, everything = client.progress("mine"), client.progress()
        for token, kind in (("mine", "begin"), ("other", "end"), ("mine", "end"), ("mine", "begin")):
            script.notify("$/progress", {"token": token, "value": {"kind": kind}})
        assert [params["value"]["kind"] async for params in progress] == ["begin", "end"]
        assert (await anext(everything))["token"] == "mine"
        assert (await anext(everything))["token"] == "other"
