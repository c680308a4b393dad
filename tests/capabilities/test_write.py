"""Writing: new files, and whole ones that were read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.capabilities.contract import Diff, Location
from sidecar.capabilities.edit import EDIT
from sidecar.capabilities.read import READ
from sidecar.capabilities.write import WRITE

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk


async def test_a_new_file_is_known_afterwards(desk: Desk) -> None:
    path = desk.root / "new" / "a.py"
    reply = await desk.run(WRITE, path="new/a.py", content="one\ntwo\n")
    assert (reply.output, reply.is_error) == ("created new/a.py, 2 lines", False)
    assert (reply.diffs, reply.locations) == ((Diff(path, None, "one\ntwo\n"),), (Location(path),))
    assert (desk.asked[0].title, desk.asked[0].scope) == ("Write new/a.py", "edit")
    await desk.output(EDIT, path="new/a.py", old_text="two", new_text="2")
    assert desk.text("new/a.py") == "one\n2\n"


async def test_overwriting_needs_a_read(desk: Desk) -> None:
    desk.put("a", "x")
    assert "not read yet" in await desk.failure(WRITE, path="a", content="y")
    await desk.output(READ, path="a")
    desk.put("a", "theirs")
    assert "since it was read" in await desk.failure(WRITE, path="a", content="y")
    await desk.output(READ, path="a")
    assert await desk.output(WRITE, path="a", content="y") == "wrote a, 1 lines"
    assert desk.text("a") == "y"


async def test_the_same_content_asks_nobody(desk: Desk) -> None:
    desk.put("a", "x")
    await desk.output(READ, path="a")
    assert await desk.output(WRITE, path="a", content="x") == "a has this content already"
    assert desk.asked == []


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
    assert desk.asked[0].scope == f"edit:{desk.root.parent}"


async def test_half_a_character_cannot_be_written(desk: Desk) -> None:
    assert "lone surrogate" in await desk.failure(WRITE, path="a", content="\ud83d")
