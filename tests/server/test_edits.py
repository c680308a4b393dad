"""Edits land in the editor's buffer: as little as can be, for the version they were made for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_editor import FakeEditor
from fake_workspace import FakeWorkspace
from sidecar.server.documents import minimal_edit, minimal_edits
from sidecar.workspace.contract import FileAccessError, FileView, PositionEncoding, TextChange, TextRange
from sidecar.workspace.line_index import LineText

NOTE = "file:///p/note.txt"
PATH = Path("/p/note.txt")
CAN = {"workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}}}


def check(old: str, new: str, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
    at = {name: {"line": line, "character": char} for name, (line, char) in (("start", start), ("end", end))}
    assert minimal_edit(old, new, "utf-16") == {"range": at, "newText": text}


@pytest.mark.parametrize(
    ("old", "new", "start", "end", "text"),
    [
        pytest.param("a\nbc\nd\n", "a\nbX\nd\n", (1, 1), (1, 2), "X", id="one character in the middle"),
        pytest.param("a\n", "a\nb\n", (0, 1), (0, 1), "\nb", id="a line more stays inside the last line"),
        pytest.param("a\nb\n", "a\n", (0, 1), (1, 1), "", id="the last line goes with the end before it"),
        pytest.param("a\nb\n", "a\nc\n", (1, 0), (1, 1), "c", id="a last line that ends"),
        pytest.param("a\nb\n", "b\n", (0, 0), (1, 0), "", id="the first line gone"),
        pytest.param("a\nb", "a\nc", (1, 0), (1, 1), "c", id="a last line without an end"),
        pytest.param("a😀", "b", (0, 0), (0, 3), "b", id="its end counts in units"),
        pytest.param("", "x", (0, 0), (0, 0), "x", id="from nothing"),
        pytest.param("x\n", "", (0, 0), (1, 0), "", id="to nothing"),
        pytest.param("a\n", "a\n", (0, 0), (0, 0), "", id="nothing to do"),
        pytest.param("a\r\n", "a\n", (0, 1), (1, 0), "\n", id="a line end is replaced whole"),
        pytest.param("a\r\n", "a\rb\n", (0, 1), (1, 0), "\rb\n", id="nothing goes between CR and LF"),
    ],
)
def test_minimal_edit(old: str, new: str, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
    check(old, new, start, end, text)


texts = st.text(alphabet="ab\n\r😀é\u2028\ud83d", max_size=20)


@given(texts, texts, st.sampled_from(get_args(PositionEncoding)))
def test_an_edit_makes_the_new_text_of_the_old(old: str, new: str, encoding: PositionEncoding) -> None:
    made = minimal_edit(old, new, encoding)
    start, end = made["range"]["start"], made["range"]["end"]
    where = TextRange(start["line"], start["character"], end["line"], end["character"])
    text = LineText(old)
    text.apply(TextChange(made["newText"], where), encoding)
    assert text.text == new


@given(texts, texts, st.sampled_from(get_args(PositionEncoding)))
def test_edits_of_several_places_make_the_new_text_of_the_old(
    old: str, new: str, encoding: PositionEncoding
) -> None:
    text = LineText(old)
    for made in reversed(minimal_edits(old, new, encoding)):
        start, end = made["range"]["start"], made["range"]["end"]
        where = TextRange(start["line"], start["character"], end["line"], end["character"])
        text.apply(TextChange(made["newText"], where), encoding)
    assert text.text == new


def test_lines_between_two_changes_are_not_touched() -> None:
    lines = [f"{number}\n" for number in range(100)]
    changed = ["first\n", *lines[1:-1], "last\n", "more\n"]
    first, last = minimal_edits("".join(lines), "".join(changed), "utf-16")
    assert first["range"]["end"]["line"] == 0
    assert last["range"]["start"]["line"] == 99
    assert last["newText"] == "last\nmore"


async def editor_with(text: str, *, workspace: FakeWorkspace | None = None, **params: Any) -> FakeEditor:
    editor = await FakeEditor.ready(workspace=workspace, **params)
    document = {"uri": NOTE, "languageId": "x", "version": 7, "text": text}
    editor.notify("textDocument/didOpen", {"textDocument": document})
    return editor


def write(editor: FakeEditor, text: str) -> asyncio.Future[FileView]:
    """Begin to write the note as a tool does that has just read it."""
    read = editor.workspace.now(PATH)
    return asyncio.ensure_future(editor.workspace.write(PATH, text, expected_hash=read.hash))


async def check_refused(landing: asyncio.Future[FileView]) -> None:
    with pytest.raises(FileAccessError, match="did not accept"):
        await landing


async def test_an_edit_is_versioned_and_the_editor_s_word_counts() -> None:
    editor = await editor_with("a\nb\n", capabilities=CAN)
    landing = write(editor, "a\nB\n")
    call = await editor.call("workspace/applyEdit")
    (change,) = call["params"]["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": NOTE, "version": 7}
    assert change["edits"] == [minimal_edit("a\nb\n", "a\nB\n", "utf-16")]
    editor.reply(call["id"], {"applied": True})
    assert (await landing).uri == NOTE
    landing = write(editor, "a\nB\n")
    editor.reply((await editor.call("workspace/applyEdit", 2))["id"], {"applied": False})
    await check_refused(landing)


@pytest.mark.parametrize("reply", [None, {}, {"applied": 1}, "yes"])
async def test_anything_but_applied_is_a_refusal(reply: Any) -> None:
    editor = await editor_with("a", capabilities=CAN)
    landing = write(editor, "b")
    editor.reply((await editor.call("workspace/applyEdit"))["id"], reply)
    await check_refused(landing)


async def test_an_editor_that_errs_or_leaves_has_refused() -> None:
    editor = await editor_with("a", capabilities=CAN)
    landing = write(editor, "b")
    call = await editor.call("workspace/applyEdit")
    editor.send({"jsonrpc": "2.0", "id": call["id"], "error": {"code": 1, "message": "no"}})
    await check_refused(landing)
    landing = write(editor, "c")
    await editor.call("workspace/applyEdit", 2)
    editor.stream.vanish()
    await check_refused(landing)


async def test_of_two_clients_the_one_with_the_buffer_open_gets_the_edit() -> None:
    """The other one came later, and has another file open under another version."""
    workspace = FakeWorkspace()
    first = await editor_with("a", workspace=workspace, capabilities=CAN)
    second = await FakeEditor.ready(workspace=workspace, capabilities=CAN)
    other = {"uri": "file:///p/other.txt", "languageId": "x", "version": 1, "text": "a"}
    second.notify("textDocument/didOpen", {"textDocument": other})
    landing = write(first, "b")
    first.reply((await first.call("workspace/applyEdit"))["id"], {"applied": True})
    await landing
    assert second.calls("workspace/applyEdit") == []


async def test_a_client_of_ours_without_apply_edit_gets_the_protocol_s_own() -> None:
    editor = await editor_with("a", sidecar={"edits": {}})
    landing = write(editor, "b")
    editor.reply((await editor.call("sidecar/edit/apply"))["id"], {"applied": True})
    assert (await landing).uri == NOTE


@pytest.mark.parametrize(
    "capabilities",
    [{}, {"workspace": {"applyEdit": True}}, {"workspace": {"workspaceEdit": {"documentChanges": True}}}],
)
async def test_without_versioned_edits_an_unsaved_buffer_is_left_alone(capabilities: Any) -> None:
    editor = await editor_with("a", capabilities=capabilities)
    with pytest.raises(FileAccessError, match="unsaved changes"):
        await write(editor, "b")
