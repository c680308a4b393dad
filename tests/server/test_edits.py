"""Edits land in the editor's buffer: as few lines as can be, for the version they were made for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.server.edits import line_edit
from sidecar.server.fake import FakeEditor
from sidecar.workspace.contract import PositionEncoding, TextChange, TextRange
from sidecar.workspace.line_index import LineText

NOTE = "file:///p/note.txt"
PATH = Path("/p/note.txt")
CAN = {"workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}}}


def check(old: str, new: str, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
    at = {name: {"line": line, "character": char} for name, (line, char) in (("start", start), ("end", end))}
    assert line_edit(old, new, "utf-16") == {"range": at, "newText": text}


@pytest.mark.parametrize(
    ("old", "new", "start", "end", "text"),
    [
        pytest.param("a\nb\nc\n", "a\nX\nc\n", (1, 0), (2, 0), "X\n", id="one line in the middle"),
        pytest.param("a\n", "a\nb\n", (1, 0), (1, 0), "b\n", id="a line more at the end"),
        pytest.param("a\nb\n", "b\n", (0, 0), (1, 0), "", id="the first line gone"),
        pytest.param("a\nb", "a\nc", (1, 0), (1, 1), "c", id="a last line without an end"),
        pytest.param("a😀", "b", (0, 0), (0, 3), "b", id="its end counts in units"),
        pytest.param("", "x", (0, 0), (0, 0), "x", id="from nothing"),
        pytest.param("x\n", "", (0, 0), (1, 0), "", id="to nothing"),
        pytest.param("a\n", "a\n", (1, 0), (1, 0), "", id="nothing to do"),
    ],
)
def test_line_edit(old: str, new: str, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
    check(old, new, start, end, text)


texts = st.text(alphabet="ab\n\r😀é\u2028", max_size=20)


@given(texts, texts, st.sampled_from(get_args(PositionEncoding)))
def test_an_edit_makes_the_new_text_of_the_old(old: str, new: str, encoding: PositionEncoding) -> None:
    made = line_edit(old, new, encoding)
    start, end = made["range"]["start"], made["range"]["end"]
    where = TextRange(start["line"], start["character"], end["line"], end["character"])
    text = LineText(old)
    text.apply(TextChange(made["newText"], where), encoding)
    assert text.text == new


async def editor_with(text: str, **said: Any) -> FakeEditor:
    editor = FakeEditor()
    await editor.initialize(**said)
    document = {"uri": NOTE, "languageId": "x", "version": 7, "text": text}
    editor.notify("textDocument/didOpen", {"textDocument": document})
    return editor


async def apply(editor: FakeEditor, version: int | None, text: str) -> asyncio.Future[bool]:
    assert editor.workspace.edit_applier is not None
    return asyncio.ensure_future(editor.workspace.edit_applier(NOTE, version, text))


async def test_an_edit_is_versioned_and_the_editor_s_word_counts() -> None:
    editor = await editor_with("a\nb\n", capabilities=CAN)
    for n, applied in enumerate((True, False), start=1):
        landing = await apply(editor, 7, "a\nB\n")
        call = await editor.call("workspace/applyEdit", n)
        editor.reply(call["id"], {"applied": applied})
        assert await landing is applied
    (change,) = call["params"]["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": NOTE, "version": 7}
    assert change["edits"] == [line_edit("a\nb\n", "a\nB\n", "utf-16")]


@pytest.mark.parametrize("reply", [None, {}, {"applied": 1}, "yes"])
async def test_anything_but_applied_is_a_refusal(reply: Any) -> None:
    editor = await editor_with("a", capabilities=CAN)
    landing = await apply(editor, 7, "b")
    editor.reply((await editor.call("workspace/applyEdit"))["id"], reply)
    assert await landing is False


async def test_an_edit_for_another_version_is_not_even_sent() -> None:
    editor = await editor_with("a", capabilities=CAN)
    assert await (await apply(editor, 6, "b")) is False
    assert editor.calls("workspace/applyEdit") == []


async def test_an_editor_that_errs_or_goes_has_refused() -> None:
    editor = await editor_with("a", capabilities=CAN)
    landing = await apply(editor, 7, "b")
    call = await editor.call("workspace/applyEdit")
    editor.send({"jsonrpc": "2.0", "id": call["id"], "error": {"code": 1, "message": "no"}})
    assert await landing is False
    landing = await apply(editor, 7, "c")
    await editor.call("workspace/applyEdit", 2)
    editor.stream.vanish()
    assert await landing is False


async def test_a_client_of_ours_without_apply_edit_gets_the_protocol_s_own() -> None:
    editor = await editor_with("a", sidecar={"edits": {}})
    landing = await apply(editor, 7, "b")
    editor.reply((await editor.call("sidecar/edit/apply"))["id"], {"applied": True})
    assert await landing is True


@pytest.mark.parametrize(
    "capabilities",
    [{}, {"workspace": {"applyEdit": True}}, {"workspace": {"workspaceEdit": {"documentChanges": True}}}],
)
async def test_without_versioned_edits_nothing_is_applied(capabilities: Any) -> None:
    editor = await editor_with("a", capabilities=capabilities)
    assert editor.workspace.edit_applier is None
