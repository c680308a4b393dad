"""Editing: only what was read, only with permission, and known afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from sidecar.capabilities.apply_patch import APPLY_PATCH
from sidecar.capabilities.contract import Diff, Location, Tool
from sidecar.capabilities.edit import EDIT, WRITE
from sidecar.capabilities.read import READ
from sidecar.permissions.access import EditAccess
from sidecar.workspace.contract import FileView, TextChange
from sidecar.workspace.paths import path_to_uri

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk


async def test_an_edit_lands_is_shown_and_is_known(desk: Desk) -> None:
    path = desk.put("a.py", "".join(f"line {n}\n" for n in range(1, 10)))
    await desk.output(READ, path="a.py")
    reply = await desk.run(EDIT, path="a.py", old_text="line 5\n", new_text="five\nand a half\n")
    before, after = "line 4\nline 5\nline 6", "line 4\nfive\nand a half\nline 6"
    assert after in desk.text("a.py")
    assert reply.output == (
        "edited a.py:\n     2\tline 2\n     3\tline 3\n     4\tline 4\n     5\tfive\n     6\tand a half\n"
        "     7\tline 6\n     8\tline 7\n     9\tline 8\n    10\tline 9"
    )
    assert (reply.locations, reply.is_error) == ((Location(path, 5),), False)
    assert (
        reply.diffs
        == desk.asked[0].diffs
        == (Diff(path, desk.text("a.py").replace(after, before), desk.text("a.py")),)
    )
    assert (desk.asked[0].access, desk.asked[0].subject, desk.asked[0].title) == (
        EditAccess(path, is_inside=True),
        "toolCall",
        "Edit a.py",
    )
    await desk.output(EDIT, path="a.py", old_text="five", new_text="5")
    await desk.workspace.settle()
    assert desk.stale == []


async def test_line_ends_are_the_files_own(desk: Desk) -> None:
    desk.put("a", "a\r\nb\r\nc\r\n")
    await desk.output(READ, path="a")
    await desk.output(EDIT, path="a", old_text="a\nb\n", new_text="x\ny\nz\n")
    assert desk.text("a") == "x\r\ny\r\nz\r\nc\r\n"


async def test_replace_all_says_how_many(desk: Desk) -> None:
    desk.put("a", "x\nx\n")
    await desk.output(READ, path="a")
    output = await desk.output(EDIT, path="a", old_text="x", new_text="y", replace_all=True)
    assert output.startswith("edited a in 2 places, the first:\n     1\ty")


async def test_what_was_read_in_part_is_known_in_part(desk: Desk) -> None:
    desk.put("a", "".join(f"line {n}\n" for n in range(1, 41)))
    await desk.output(READ, path="a", offset=10, limit=5)
    await desk.output(READ, path="a", offset=30, limit=5)
    await desk.output(EDIT, path="a", old_text="line 12\n", new_text="a\nb\nc\n")
    assert desk.ranges("a") == ((10, 7), (32, 5))


async def test_not_read_yet(desk: Desk) -> None:
    desk.put("a", "x\n")
    desk.put("long", "x\n" * 4_001)
    assert await desk.failure(EDIT, path="a", old_text="x", new_text="y") == (
        "edit: a was not read yet; here it is; make the call again if it is still right\n\n     1\tx"
    )
    assert (desk.asked, desk.text("a")) == ([], "x\n")
    await desk.output(EDIT, path="a", old_text="x", new_text="y")
    for _ in range(2):
        assert await desk.failure(EDIT, path="long", old_text="x", new_text="y") == (
            "edit: long was not read yet; read it, then change it"
        )


async def test_a_file_outside_is_not_shown_by_a_refusal(desk: Desk) -> None:
    outside = desk.root.parent / "outside"
    outside.write_text("secret\n")
    for _ in range(2):
        assert "secret" not in await desk.failure(EDIT, path=str(outside), old_text="x", new_text="y")


PATCH = "*** Begin Patch\n*** {} File: {}\n*** End Patch"
every_change = pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda path: (EDIT, {"path": path, "old_text": "x", "new_text": "y"}), id="edit"),
        pytest.param(lambda path: (WRITE, {"path": path, "content": "y"}), id="write"),
        pytest.param(
            lambda path: (APPLY_PATCH, {"input": PATCH.format("Update", f"{path}\n-x\n+y")}), id="patch"
        ),
        pytest.param(lambda path: (APPLY_PATCH, {"input": PATCH.format("Delete", path)}), id="delete"),
    ],
)
Change = Callable[[str], tuple[Tool, dict[str, str]]]


@every_change
async def test_changed_on_disk_since_read(desk: Desk, change: Change) -> None:
    tool, arguments = change("a")
    desk.put("a", "x\n")
    await desk.output(READ, path="a")
    desk.put("a", "x\nand more\n")
    failure = await desk.failure(tool, **arguments)
    assert failure.endswith("a has changed on disk since it was read; read it again")
    assert (desk.text("a"), desk.asked) == ("x\nand more\n", [])
    await desk.output(READ, path="a")
    await desk.output(tool, **arguments)


@every_change
async def test_changed_in_the_editor_since_read(desk: Desk, change: Change) -> None:
    tool, arguments = change("a")
    desk.put("a", "x\n")
    await desk.output(READ, path="a")
    desk.open("a", "x\ntyped\n")
    failure = await desk.failure(tool, **arguments)
    assert failure.endswith("a has changed in the editor since it was read; read it again")
    assert desk.text("a") == "x\n"


@every_change
async def test_changed_while_the_user_was_thinking(desk: Desk, change: Change) -> None:
    tool, arguments = change("a")
    desk.put("a", "x\n")
    await desk.output(READ, path="a")
    desk.before_answer = lambda: desk.put("a", "theirs")
    assert "read it again" in await desk.failure(tool, **arguments)
    assert desk.text("a") == "theirs"


@every_change
async def test_an_unsaved_buffer_is_refused_with_the_way_out(desk: Desk, change: Change) -> None:
    tool, arguments = change("a")
    desk.put("a", "disk")
    desk.open("a", "x\n")
    await desk.output(READ, path="a")
    assert "unsaved changes in the editor; save or revert it" in await desk.failure(tool, **arguments)
    assert desk.text("a") == "disk"


@every_change
async def test_outside_the_ask_says_so(desk: Desk, change: Change) -> None:
    path = desk.put("../out/a", "x\n")
    tool, arguments = change(str(path))
    await desk.output(READ, path=str(path))
    await desk.output(tool, **arguments)
    ask = desk.asked[1]
    assert (ask.subject, ask.access) == ("path", EditAccess(path, is_inside=False))
    assert str(path) in ask.detail
    assert ask.title.endswith("outside the workspace")


def open_in_editor(desk: Desk, name: str, text: str, *, becomes: str | None = None) -> None:
    """Open a file in an editor that takes edits, and makes of each what it *becomes*."""

    async def apply(before: FileView, new_text: str) -> bool:
        changes, version = [TextChange(becomes or new_text)], (before.version or 0) + 1
        editor.change_buffer(before.uri, version=version, changes=changes, encoding="utf-16")
        return True

    editor = desk.workspace.editor(apply)
    editor.open_buffer(path_to_uri(desk.root / name), version=1, text=text)


async def test_an_open_file_is_edited_in_its_editor(desk: Desk) -> None:
    path = desk.put("a", "disk")
    open_in_editor(desk, "a", "typed")
    await desk.output(READ, path="a")
    await desk.output(EDIT, path="a", old_text="typed", new_text="y")
    assert ((await desk.workspace.view(path)).text, desk.text("a")) == ("y", "disk")
    await desk.output(EDIT, path="a", old_text="y", new_text="z")


async def test_an_editor_that_reformats_leaves_the_model_in_need_of_a_read(desk: Desk) -> None:
    desk.put("a", "disk")
    open_in_editor(desk, "a", "typed", becomes="formatted")
    await desk.output(READ, path="a")
    assert "[the editor changed the text on the way" in await desk.output(
        EDIT, path="a", old_text="typed", new_text="y"
    )
    assert "since it was read" in await desk.failure(EDIT, path="a", old_text="formatted", new_text="z")
    await desk.workspace.settle()
    assert len(desk.stale) == 1


async def test_missing(desk: Desk) -> None:
    failure = await desk.failure(EDIT, path="none", old_text="x", new_text="y")
    assert failure == "edit: none does not exist; use write for a new file"


async def test_a_passage_that_is_not_there(desk: Desk) -> None:
    desk.put("a", "x\n")
    await desk.output(READ, path="a")
    assert "old_text is not in the file" in await desk.failure(EDIT, path="a", old_text="z", new_text="y")
    assert desk.asked == []


async def test_a_new_buffer_without_a_file(desk: Desk) -> None:
    desk.open("draft", "typed")
    await desk.output(READ, path="draft")
    failure = await desk.failure(EDIT, path="draft", old_text="typed", new_text="y")
    assert "unsaved changes" in failure
    assert path_to_uri(desk.root / "draft") in {view.uri for view in await desk.workspace.open_views()}


async def test_a_new_file_is_known_afterwards(desk: Desk) -> None:
    path = desk.root / "new" / "a.py"
    reply = await desk.run(WRITE, path="new/a.py", content="one\ntwo\n")
    assert (reply.output, reply.is_error) == ("created new/a.py, 2 lines", False)
    assert (reply.diffs, reply.locations) == ((Diff(path, None, "one\ntwo\n"),), (Location(path),))
    access = EditAccess(desk.root / "new" / "a.py", is_inside=True)
    assert (desk.asked[0].title, desk.asked[0].access) == ("Write new/a.py", access)
    await desk.output(EDIT, path="new/a.py", old_text="two", new_text="2")
    assert desk.text("new/a.py") == "one\n2\n"


async def test_overwriting_needs_a_read(desk: Desk) -> None:
    desk.put("a", "x")
    assert "not read yet" in await desk.failure(WRITE, path="a", content="y")
    await desk.output(READ, path="a")
    assert await desk.output(WRITE, path="a", content="y") == "wrote a, 1 lines"
    assert desk.text("a") == "y"


async def test_the_same_content_asks_nobody(desk: Desk) -> None:
    desk.put("a", "x")
    await desk.output(READ, path="a")
    assert await desk.output(WRITE, path="a", content="x") == "a has this content already"
    assert desk.asked == []


async def test_a_write_replaces_no_lines_that_were_not_read(desk: Desk) -> None:
    desk.put("a", "".join(f"line {n}\n" for n in range(1, 41)))
    await desk.output(READ, path="a", offset=10, limit=3)
    refusal = await desk.failure(WRITE, path="a", content="y")
    assert "3 of its 40 lines were read" in refusal
    await desk.output(READ, path="a", offset=1, limit=12)
    assert "12 of its 40" in await desk.failure(WRITE, path="a", content="y")
    await desk.output(EDIT, path="a", old_text="line 12\n", new_text="twelve\n12\n")
    assert "13 of its 41" in await desk.failure(WRITE, path="a", content="y")
    await desk.output(READ, path="a", offset=13)
    assert await desk.output(WRITE, path="a", content="y") == "wrote a, 1 lines"


async def test_a_no(desk: Desk) -> None:
    desk.answer = False
    assert "not allowed" in await desk.failure(WRITE, path="a", content="x")
    assert list(desk.root.iterdir()) == []


async def test_a_file_that_appears_while_the_user_thinks(desk: Desk) -> None:
    desk.before_answer = lambda: desk.put("a", "theirs")
    assert "exists" in await desk.failure(WRITE, path="a", content="x")
    assert desk.text("a") == "theirs"


async def test_a_folder_and_outside(desk: Desk) -> None:
    desk.put("d/x")
    assert "it is a folder" in await desk.failure(WRITE, path="d", content="x")
    await desk.output(WRITE, path="../out", content="x")
    assert desk.asked[0].access == EditAccess(desk.root.parent / "out", is_inside=False)


async def test_half_a_character_cannot_be_written(desk: Desk) -> None:
    assert "lone surrogate" in await desk.failure(WRITE, path="a", content="\ud83d")


class TestSeveralEdits:
    """Several replacements in one call: all of them or none, and one question."""

    async def test_all_land_with_one_question(self, desk: Desk) -> None:
        desk.put("a", "".join(f"line {n}\n" for n in range(1, 41)))
        await desk.output(READ, path="a", offset=1, limit=30)
        edits = [
            {"old_text": "line 20\n", "new_text": "twenty\n"},
            {"old_text": "line 2\n", "new_text": "two\ntwo\n"},
            {"old_text": "twenty\n", "new_text": "20\n"},
        ]
        reply = await desk.run(EDIT, path="a", edits=edits)
        assert desk.text("a").split("\n")[:4] == ["line 1", "two", "two", "line 3"]
        assert "line 19\n20\nline 21" in desk.text("a")
        assert reply.output.startswith("edited a by 3 edits:\n     1\tline 1\n     2\ttwo\n")
        assert "\n   ...\n    18\tline 17\n" in reply.output
        assert (len(desk.asked), len(reply.diffs), reply.locations[0].line) == (1, 1, 2)
        assert desk.ranges("a") == ((1, 31),)

    async def test_none_lands_where_one_is_refused(self, desk: Desk) -> None:
        desk.put("a", "one\ntwo\n")
        await desk.output(READ, path="a")
        edits = [{"old_text": "one", "new_text": "1"}, {"old_text": "three", "new_text": "3"}]
        failure = await desk.failure(EDIT, path="a", edits=edits)
        assert failure.startswith("edit: edit 2 of 2: old_text is not in the file")
        assert "none of them was made" in failure
        assert (desk.text("a"), desk.asked) == ("one\ntwo\n", [])

    async def test_names_of_other_agents_are_understood(self, desk: Desk) -> None:
        desk.put("a", "one\ntwo\n")
        await desk.output(READ, path="a")
        await desk.output(EDIT, file_path="a", edits=[{"old_string": "one", "newText": "1"}])
        await desk.output(EDIT, file_path="a", old_str="two", new_string="2")
        assert desk.text("a") == "1\n2\n"

    async def test_half_a_replacement_is_refused(self, desk: Desk) -> None:
        desk.put("a", "one\n")
        await desk.output(READ, path="a")
        for given in ({}, {"old_text": "one"}, {"new_text": "one", "edits": []}):
            assert "give old_text and new_text, or edits" in await desk.failure(EDIT, path="a", **given)


async def test_forgiven_mistakes_are_named(desk: Desk) -> None:
    desk.put("a", "if x:\n\tgo()\n\tstop()\n")
    await desk.output(READ, path="a")
    output = await desk.output(
        EDIT, path="a", old_text="    go()\n    stop()\n", new_text="    go()\n    wait()\n"
    )
    assert output.startswith("edited a (old_text was found but for indentation, blanks or blank lines):\n")
    assert desk.text("a") == "if x:\n\tgo()\n\twait()\n"
