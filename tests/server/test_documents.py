"""The editor's files reach the workspace: buffers in the negotiated encoding, and changes on disk."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from fake_editor import FakeEditor

NOTE = "file:///p/note.txt"
PATH = Path("/p/note.txt")


async def editor_with(text: str, encoding: str = "utf-16") -> FakeEditor:
    """An editor that has opened a note of *text*."""
    editor = await FakeEditor.ready(capabilities={"general": {"positionEncodings": [encoding]}})
    document = {"uri": NOTE, "languageId": "plaintext", "version": 1, "text": text}
    editor.notify("textDocument/didOpen", {"textDocument": document})
    return editor


def edit(start: tuple[int, Any], end: tuple[int, int], text: str) -> dict[str, Any]:
    at = {name: {"line": line, "character": char} for name, (line, char) in (("start", start), ("end", end))}
    return {"range": at, "text": text}


def change(editor: FakeEditor, version: int, *changes: dict[str, Any]) -> None:
    document = {"uri": NOTE, "version": version}
    editor.notify("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_an_edit_counts_in_the_negotiated_units(encoding: str) -> None:
    """After an emoji the same place is at 4, 2 or 1, by the encoding."""
    editor = await editor_with("😀ab", encoding)
    at = {"utf-8": 4, "utf-16": 2, "utf-32": 1}[encoding]
    change(editor, 2, edit((0, at), (0, at + 1), "X"))
    view = editor.workspace.now(PATH)
    assert (view.text, view.version, view.source) == ("😀Xb", 2, "buffer")


async def test_a_character_that_comes_in_two_halves_is_in_the_buffer() -> None:
    """Editors that keep UTF-16 send what was typed, also where that is half a character."""
    editor = await editor_with("line0\nline1")
    change(editor, 2, edit((0, 0), (0, 0), "\ud83d"))
    assert editor.workspace.now(PATH).text == "\ud83dline0\nline1"
    change(editor, 3, edit((0, 1), (0, 1), "\ude00 EMOJI "))
    change(editor, 4, edit((0, 2), (0, 9), ""))
    assert editor.workspace.now(PATH).text == "😀line0\nline1"


async def test_several_changes_apply_in_order() -> None:
    editor = await editor_with("a\nb\n")
    change(
        editor,
        2,
        edit((0, 0), (0, 0), "0\n"),
        edit((1, 0), (1, 1), "A"),
        {"text": "whole"},
        edit((0, 5), (0, 5), "!"),
    )
    assert editor.workspace.now(PATH).text == "whole!"


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"contentChanges": "x"}, id="no list"),
        pytest.param({"contentChanges": [{"text": "ok"}, {"text": 5}]}, id="a text that is a number"),
        pytest.param({"contentChanges": [{"range": {"start": 1}, "text": "x"}]}, id="half a range"),
        pytest.param({"contentChanges": [edit((0, "1"), (0, 2), "x")]}, id="a place that is a text"),
        pytest.param({"contentChanges": [{"text": None}]}, id="no text"),
        pytest.param({}, id="no changes"),
    ],
)
async def test_after_an_edit_that_cannot_be_read_the_file_counts_and_the_user_is_asked(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Later edits would be made in a text that is not the editor's."""
    editor = await editor_with("buffer\n")
    editor.workspace.put(PATH, "disk\n")
    editor.notify("textDocument/didChange", {"textDocument": {"uri": NOTE, "version": 2}, **wrong})
    change(editor, 3, edit((0, 0), (0, 0), "late "))
    await editor.request(1, "sidecar/fake/echo")
    assert editor.workspace.now(PATH).text == "disk\n"
    (asked,) = editor.calls("window/logMessage")
    assert asked["params"]["message"].startswith(f"{NOTE} was edited in a way that cannot be read")
    assert "'textDocument/didChange' are not valid at params" in caplog.text
    document = {"uri": NOTE, "languageId": "x", "version": 4, "text": "mended"}
    editor.notify("textDocument/didOpen", {"textDocument": document})
    assert editor.workspace.now(PATH).text == "mended"


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"])
async def test_only_editors_line_ends_are_line_ends(odd: str) -> None:
    editor = await editor_with(f"a{odd}b\nc\n")
    change(editor, 2, edit((1, 0), (1, 1), "C"))
    assert editor.workspace.now(PATH).text == f"a{odd}b\nC\n"


async def test_close_gives_the_file_back_to_the_disk() -> None:
    editor = await editor_with("buffer")
    editor.workspace.put(PATH, "disk")
    editor.notify("textDocument/didClose", {"textDocument": {"uri": NOTE}})
    assert editor.workspace.now(PATH).text == "disk"


async def test_the_workspace_is_notified_of_a_save() -> None:
    editor = await editor_with("buffer")
    changed: list[Path] = []
    editor.workspace.on_change(changed.append)
    editor.notify("textDocument/didSave", {"textDocument": {"uri": NOTE}})
    assert changed == [PATH]


async def test_a_buffer_that_is_no_file_is_no_trouble() -> None:
    editor = await editor_with("x")
    document = {"uri": "untitled:Untitled-1", "languageId": "x", "version": 1, "text": "new"}
    editor.notify("textDocument/didOpen", {"textDocument": document})
    assert (await editor.request(1, "sidecar/fake/echo", 1))["result"] == 1


async def test_after_a_lost_change_opening_again_mends_it() -> None:
    editor = await FakeEditor.ready()
    for version in (1, 2):
        change(editor, version, {"text": "x"})
    document = {"uri": NOTE, "languageId": "x", "version": 3, "text": "mended"}
    editor.notify("textDocument/didOpen", {"textDocument": document})
    change(editor, 4, edit((0, 0), (0, 0), "is "))
    assert editor.workspace.now(PATH).text == "is mended"
    await editor.request(1, "sidecar/fake/echo")
    (warning,) = editor.calls("window/logMessage")
    assert warning["params"]["type"] == 2
    assert NOTE in warning["params"]["message"]


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        pytest.param(
            "workspace/didChangeWatchedFiles",
            {"changes": [{"uri": "file:///p/a", "type": 2}, {"uri": "file:///p/b", "type": 3}]},
            ["/p/a", "/p/b"],
            id="watched",
        ),
        pytest.param("workspace/didCreateFiles", {"files": [{"uri": "file:///p/a"}]}, ["/p/a"], id="created"),
        pytest.param(
            "workspace/didRenameFiles",
            {"files": [{"oldUri": "file:///p/a", "newUri": "file:///p/b"}]},
            ["/p/a", "/p/b"],
            id="renamed",
        ),
        pytest.param("workspace/didDeleteFiles", {"files": [{"uri": "file:///p/a"}]}, ["/p/a"], id="deleted"),
        pytest.param("workspace/didDeleteFiles", {"files": [{"uri": "git:/p/a"}]}, [], id="no file"),
    ],
)
async def test_the_workspace_is_notified_of_changes_on_disk(
    method: str, params: Any, expected: list[str]
) -> None:
    editor = await FakeEditor.ready()
    moved: list[str] = []
    editor.workspace.on_change(lambda path: moved.append(str(path)))
    editor.notify(method, params)
    await until(lambda: len(moved) >= len(expected))
    assert moved == expected


WATCHES = {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}
WATCHES_RELATIVE = {
    "workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": True}}
}
FOLDERS = [{"uri": "file:///a", "name": "a"}, {"uri": "file:///b", "name": "b"}]


@pytest.mark.parametrize(
    ("capabilities", "patterns"),
    [
        pytest.param(WATCHES, ["**/*"], id="by glob"),
        pytest.param(
            WATCHES_RELATIVE,
            [{"baseUri": "file:///a", "pattern": "**/*"}, {"baseUri": "file:///b", "pattern": "**/*"}],
            id="relative to each folder",
        ),
    ],
)
async def test_a_client_with_the_capability_watches_for_us(capabilities: Any, patterns: list[Any]) -> None:
    editor = await FakeEditor.ready(capabilities=capabilities, workspaceFolders=FOLDERS)
    call = await editor.call("client/registerCapability")
    (registration,) = call["params"]["registrations"]
    assert registration["method"] == "workspace/didChangeWatchedFiles"
    assert registration["registerOptions"] == {"watchers": [{"globPattern": pattern} for pattern in patterns]}
    assert editor.workspace.client_folders == []
    editor.reply(call["id"], None)
    await until(lambda: editor.workspace.client_folders == [Path("/a"), Path("/b")])
    await editor.connection.aclose(1)
    assert editor.workspace.client_folders == []


async def until(condition: Any) -> None:
    """Let the event loop turn until *condition* holds; TimeoutError when it never does."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the state is no event; each turn of the loop may reach it
            await asyncio.sleep(0)


async def test_a_client_that_refuses_leaves_the_watching_to_us() -> None:
    editor = await FakeEditor.ready(capabilities=WATCHES, workspaceFolders=FOLDERS)
    call = await editor.call("client/registerCapability")
    editor.send({"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32601, "message": "no"}})
    assert (await editor.request(1, "sidecar/fake/echo", 1))["result"] == 1
    assert editor.workspace.client_folders == []


@pytest.mark.parametrize(
    ("capabilities", "folders"),
    [pytest.param({}, FOLDERS, id="cannot"), pytest.param(WATCHES, None, id="no folder")],
)
async def test_a_client_without_folders_registers_no_watcher(capabilities: Any, folders: Any) -> None:
    editor = await FakeEditor.ready(capabilities=capabilities, workspaceFolders=folders)
    await editor.request(1, "sidecar/fake/echo", 1)
    await asyncio.sleep(0)
    assert editor.calls("client/registerCapability") == []


async def test_other_folders_are_registered_anew_and_the_old_let_go() -> None:
    editor = await FakeEditor.ready(capabilities=WATCHES_RELATIVE, workspaceFolders=FOLDERS)
    first = await editor.call("client/registerCapability")
    editor.reply(first["id"], None)
    event = {"added": [{"uri": "file:///c", "name": "c"}], "removed": FOLDERS}
    editor.notify("workspace/didChangeWorkspaceFolders", {"event": event})
    second = await editor.call("client/registerCapability", 2)
    editor.reply(second["id"], None)
    gone = await editor.call("client/unregisterCapability")
    editor.send({"jsonrpc": "2.0", "id": gone["id"]})
    (new,) = second["params"]["registrations"]
    (old,) = first["params"]["registrations"]
    assert new["registerOptions"]["watchers"][0]["globPattern"]["baseUri"] == "file:///c"
    assert gone["params"]["unregisterations"] == [{"id": old["id"], "method": old["method"]}]
    assert editor.workspace.client_folders == [Path("/c")]


async def test_a_message_of_countless_wrong_items_costs_no_more_than_the_first_of_them() -> None:
    """A rename of a million zeros once took gigabytes."""
    editor = await editor_with("a")
    tracemalloc.start()
    try:
        editor.notify("workspace/didRenameFiles", {"files": [0] * 20_000})
        change(editor, 2, {"text": "b"})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert editor.workspace.now(PATH).text == "b"
    assert peak < 4_000_000
