"""What an editor shows of the sessions it follows: hints on stale files, lenses, conversations to open."""

from __future__ import annotations

from typing import Any

import pytest

from fake_editor import FakeEditor
from sidecar.conductor.contract import Compaction, CompactionStatus
from sidecar.conductor.events import Event, FileFresh, FileStale, Notice, Payload, Rehydrated
from sidecar.conductor.record.log import EventLog
from sidecar.server.handshake import COMMANDS
from sidecar.server.views import is_change, lens_title, transcript_uri

A, B = "file:///p/a.py", "file:///p/b.py"
CHANGED = FileStale(A, "sha256:1", "sha256:2", "disk")
GONE = FileStale(A, "sha256:1", None, "disk")
RESTORED = Rehydrated(())
DIAGNOSTICS = "textDocument/publishDiagnostics"
LENS = "textDocument/codeLens"
LENS_REFRESH = "workspace/codeLens/refresh"
CONTENT = "workspace/textDocumentContent"
CONTENT_REFRESH = "workspace/textDocumentContent/refresh"
CAN: dict[str, Any] = {
    "textDocument": {"publishDiagnostics": {}, "codeLens": {}},
    "workspace": {"codeLens": {"refreshSupport": True}, "textDocumentContent": {}},
}


async def editor_with(capabilities: dict[str, Any] | None = None) -> FakeEditor:
    return await FakeEditor.ready(capabilities=CAN if capabilities is None else capabilities)


def session_of(editor: FakeEditor, *past: Payload) -> EventLog:
    """Return the log of a session that *editor* follows, with the *past* events."""
    log = editor.service.new_log()
    for data in past:
        log.append(data)
    editor.port.sink.follow(log, log.seq)
    return log


# Hints on stale files.


def hints(editor: FakeEditor) -> list[tuple[str, list[str]]]:
    """Return the published URIs, each with the messages on it."""
    published = [call["params"] for call in editor.calls(DIAGNOSTICS)]
    return [(each["uri"], [hint["message"] for hint in each["diagnostics"]]) for each in published]


async def test_a_stale_file_is_marked_until_it_is_fresh() -> None:
    editor = await editor_with()
    log = session_of(editor)
    log.append(CHANGED)
    log.append(FileFresh(A))
    first = await editor.call(DIAGNOSTICS)
    await editor.call(DIAGNOSTICS, 2)
    (hint,) = first["params"]["diagnostics"]
    assert hint == {
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}},
        "severity": 4,
        "code": "fileStale",
        "source": "sidecar",
        "message": "changed since the model read it",
    }
    assert hints(editor) == [(A, ["changed since the model read it"]), (A, [])]


async def test_a_late_client_sees_the_files_that_are_stale_then() -> None:
    editor = await editor_with()
    session_of(editor, CHANGED, FileStale(B, "sha256:1", None, "disk"), FileFresh(A))
    await editor.call(DIAGNOSTICS, 3)
    assert hints(editor)[1:] == [(B, ["gone since the model read it"]), (A, [])]


async def test_a_session_that_is_left_takes_its_marks_along_and_no_other_s() -> None:
    editor = await editor_with()
    first, second = session_of(editor), session_of(editor)
    first.append(CHANGED)
    second.append(CHANGED)
    second.append(GONE)
    editor.port.sink.unfollow(second.sid)
    editor.port.sink.unfollow(second.sid)
    second.append(CHANGED)
    editor.port.sink.unfollow(first.sid)
    await editor.call(DIAGNOSTICS, 5)
    changed, gone = "changed since the model read it", "gone since the model read it"
    assert [messages for _, messages in hints(editor)] == [
        [changed],
        [changed],
        [changed, gone],
        [changed],
        [],
    ]


async def test_a_file_without_a_hint_may_become_fresh() -> None:
    editor = await editor_with()
    session_of(editor).append(FileFresh(A))
    await editor.call(DIAGNOSTICS)
    assert hints(editor) == [(A, [])]


# Lenses.


def context_file(uri: str, **more: Any) -> dict[str, Any]:
    """Return one file of the result of ``sidecar/context/files``."""
    file = {"uri": uri, "tokens": 1234, "stale": False, "inWindow": True, "readAtNode": "n", "turnsAgo": 3}
    return {**file, **more}


async def lenses(editor: FakeEditor, uri: str, request_id: int = 1) -> Any:
    answer = await editor.request(request_id, LENS, {"textDocument": {"uri": uri}})
    return [(lens["command"]["title"], lens["command"]["arguments"][0]) for lens in answer["result"]]


@pytest.mark.parametrize(
    ("file", "title"),
    [
        pytest.param({}, "in context, 1.2k tokens, read 3 turns ago", id="as it is"),
        pytest.param({"tokens": 999}, "in context, 999 tokens, read 3 turns ago", id="few tokens"),
        pytest.param({"tokens": 1_000}, "in context, 1.0k tokens, read 3 turns ago", id="a thousand tokens"),
        pytest.param({"tokens": 12_345}, "in context, 12k tokens, read 3 turns ago", id="many tokens"),
        pytest.param({"turnsAgo": 1}, "in context, 1.2k tokens, read 1 turn ago", id="one turn"),
        pytest.param({"turnsAgo": 0}, "in context, 1.2k tokens, read this turn", id="this turn"),
        pytest.param({"tokens": 0, "turnsAgo": None}, "in context", id="put back after a compaction"),
        pytest.param({"turnsAgo": None, "stale": True}, "in context, 1.2k tokens, changed since", id="stale"),
    ],
)
def test_the_title_of_a_lens(file: dict[str, Any], title: str) -> None:
    assert lens_title(context_file(A, **file)) == title


async def test_a_file_in_the_context_has_lenses_and_others_have_none() -> None:
    editor = await editor_with()
    log = session_of(editor, RESTORED)
    files = [context_file(A), context_file(B, inWindow=False), context_file("untitled:1")]
    editor.service.answers["sidecar/context/files"] = {"files": files}
    info, *drop = await lenses(editor, A)
    assert info == ("in context, 1.2k tokens, read 3 turns ago", {"sid": log.sid})
    expected = ("drop from context", {"sid": log.sid, "nodeIds": ["n"], "expectHead": None})
    assert drop == ([expected] if "sidecar.drop" in COMMANDS else [])
    for n, uri in enumerate((B, "file:///p/other.py", "untitled:1"), start=2):
        assert await lenses(editor, uri, n) == []


async def test_the_files_are_looked_up_once_for_many_documents_and_again_when_something_happened() -> None:
    editor = await editor_with()
    log = session_of(editor, RESTORED)
    editor.service.answers["sidecar/context/files"] = {"files": [context_file(A, readAtNode=None)]}
    for n, uri in enumerate((A, B, A), start=1):
        await lenses(editor, uri, n)
    assert editor.service.calls == [("sidecar/context/files", {"sid": log.sid})]
    log.append(Notice("info", "n"))
    assert len(await lenses(editor, A, 4)) == 1
    assert len(editor.service.calls) == 2


async def test_each_session_has_its_lens_and_one_that_closed_has_none() -> None:
    editor = await editor_with()
    for _ in range(2):
        session_of(editor, RESTORED)
    editor.service.answers["sidecar/context/files"] = {"files": [context_file(A, readAtNode=None)]}
    assert len(await lenses(editor, A)) == 2
    del editor.service.answers["sidecar/context/files"]
    session_of(editor, RESTORED)
    assert len(await lenses(editor, A, 2)) == 2, "the third is not answered for"


async def test_a_client_that_looked_is_asked_once_to_look_again() -> None:
    editor = await editor_with()
    log = session_of(editor, RESTORED)
    editor.service.answers["sidecar/context/files"] = {"files": []}
    log.append(RESTORED)
    await lenses(editor, A)
    log.append(Notice("info", "of no interest"))
    log.append(RESTORED)
    log.append(RESTORED)
    call = await editor.call(LENS_REFRESH)
    assert "params" not in call
    editor.send({"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32601, "message": "no"}})
    await lenses(editor, A, 2)
    editor.port.sink.unfollow(log.sid)
    await editor.call(LENS_REFRESH, 2)
    assert len(editor.calls(LENS_REFRESH)) == 2


async def test_a_client_without_refresh_is_not_asked() -> None:
    editor = await editor_with({"textDocument": {"codeLens": {}}})
    log = session_of(editor, RESTORED)
    editor.service.answers["sidecar/context/files"] = {"files": [context_file(A)]}
    assert len(await lenses(editor, A)) > 0
    log.append(RESTORED)
    editor.port.sink.unfollow(log.sid)
    await editor.request(2, "sidecar/fake/echo")
    assert editor.calls(LENS_REFRESH) == []


# Conversations as documents.


@pytest.mark.parametrize(
    ("uri", "view"),
    [
        ("sidecar-session:/s/transcript.md", "active"),
        ("sidecar-session:///s/transcript.md", "active"),
        ("sidecar-session:/s/compaction/c/before.md", {"compactionId": "c", "at": "before"}),
        ("sidecar-session:/s/compaction/c%2F1/after.md", {"compactionId": "c/1", "at": "after"}),
    ],
)
async def test_a_document_is_an_export(uri: str, view: Any) -> None:
    editor = await editor_with()
    editor.service.answers["sidecar/session/export"] = {"text": "# Talk"}
    assert (await editor.request(1, CONTENT, {"uri": uri}))["result"] == {"text": "# Talk"}
    assert editor.service.calls == [("sidecar/session/export", {"sid": "s", "view": view})]


async def test_the_facts_of_a_compaction_are_a_document() -> None:
    editor = await editor_with()
    content = "Facts of the folded part: 1 kept word for word, 0 shortened, 0 let go.\n- 0a let go, name: x"
    editor.service.answers["sidecar/compact/read"] = {"content": content, "nextCursor": "500"}
    read = await editor.request(1, CONTENT, {"uri": "sidecar-session:/s/compaction/c/facts.md"})
    text = read["result"]["text"]
    assert text.startswith("# The facts behind a compaction\n\nFacts of the folded part: 1 kept")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Let go",
        "## In one line of several",
        "## Shortened",
        "## Kept word for word",
    ]
    assert "\n- 0a let go, name: x\n\nThere are more than these 500." in text
    states = [params["states"] for _, params in editor.service.calls]
    assert states == [["gone"], ["line"], ["shortened"], ["kept"]]


@pytest.mark.parametrize(
    "uri",
    [
        "sidecar-session:/s",
        "sidecar-session:/s/other.md",
        "sidecar-session:/s/compaction/c/during.md",
        "file:///a",
    ],
)
async def test_any_other_uri_is_not_a_document(uri: str) -> None:
    editor = await editor_with()
    error = (await editor.request(1, CONTENT, {"uri": uri}))["error"]
    assert (error["code"], error["data"]["kind"]) == (-32602, "invalidParams")


async def test_an_open_transcript_is_read_again_when_its_session_went_on() -> None:
    editor = await editor_with()
    first, second = session_of(editor), session_of(editor)
    editor.service.answers["sidecar/session/export"] = {"text": ""}
    await editor.request(1, CONTENT, {"uri": transcript_uri(first.sid)})
    await editor.request(2, CONTENT, {"uri": f"sidecar-session:/{second.sid}/compaction/c/before.md"})
    for log in (second, first, first):
        log.append(RESTORED)
        log.append(Notice("info", "of no interest"))
    call = await editor.call(CONTENT_REFRESH)
    assert call["params"] == {"uri": transcript_uri(first.sid)}
    editor.reply(call["id"], None)
    await editor.request(3, "sidecar/fake/echo")
    assert len(editor.calls(CONTENT_REFRESH)) == 1


@pytest.mark.parametrize(
    ("status", "expected"), [("in_progress", False), ("completed", True), ("undone", True)]
)
def test_a_compaction_changes_the_conversation_once_it_is_over(
    status: CompactionStatus, expected: bool
) -> None:
    done = Compaction("c", "none", "manual", status, 0, 0, 0, 0, 0, None, False)
    assert is_change(Event("s", 1, 0, done)) is expected


# Only for clients that can.


async def test_the_offered_features_follow_the_capabilities() -> None:
    editor = FakeEditor()
    declared = (await editor.initialize(capabilities=CAN))["result"]["capabilities"]
    assert declared["codeLensProvider"] == {"resolveProvider": False}
    assert declared["workspace"]["textDocumentContent"] == {"schemes": ["sidecar-session"]}


async def test_a_client_without_capabilities_is_offered_and_sent_no_view() -> None:
    editor = FakeEditor()
    declared = (await editor.initialize(capabilities={}))["result"]["capabilities"]
    assert "codeLensProvider" not in declared
    assert "textDocumentContent" not in declared["workspace"]
    log = session_of(editor, CHANGED)
    log.append(FileFresh(A))
    for n, method in enumerate((LENS, CONTENT), start=1):
        params = {"textDocument": {"uri": A}, "uri": transcript_uri(log.sid)}
        assert (await editor.request(n, method, params))["error"]["code"] == -32601
    assert [editor.calls(method) for method in (DIAGNOSTICS, LENS_REFRESH, CONTENT_REFRESH)] == [[], [], []]


async def test_a_malformed_capability_hides_no_other() -> None:
    editor = FakeEditor()
    odd = {"completion": {"completionItem": {"tagSupport": "odd"}}}
    can = {**CAN, "textDocument": {**CAN["textDocument"], **odd}}
    declared = (await editor.initialize(capabilities=can))["result"]["capabilities"]
    assert "codeLensProvider" in declared
    session_of(editor, CHANGED)
    await editor.call(DIAGNOSTICS)


async def test_a_client_that_is_gone_is_sent_no_view() -> None:
    editor = await editor_with()
    log = session_of(editor)
    await editor.connection.aclose(1)
    log.append(CHANGED)
    assert editor.calls(DIAGNOSTICS) == []
