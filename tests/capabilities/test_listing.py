"""ls, find and glob: names, in order, without what is ignored."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sidecar.capabilities import listing
from sidecar.capabilities.contract import Tool
from sidecar.capabilities.listing import FIND, GLOB, LS

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk


def plant(desk: Desk) -> None:
    for name in ("src/b.py", "src/sub/a.py", "src/sub/B.txt", "top.py", "build/out.py", "x.log", ".git/c.py"):
        desk.put(name, "12345")
    desk.put(".gitignore", "*.log\n")


class TestLs:
    """A tree with sizes."""

    async def test_one_level(self, desk: Desk) -> None:
        plant(desk)
        assert await desk.output(LS) == (
            "./\n  .gitignore (6 bytes)\n  src/\n  top.py (5 bytes)\n[3 ignored entries not shown]"
        )

    async def test_to_a_depth(self, desk: Desk) -> None:
        plant(desk)
        assert await desk.output(LS, path="src", depth=2) == (
            "src/\n  b.py (5 bytes)\n  sub/\n    B.txt (5 bytes)\n    a.py (5 bytes)"
        )

    async def test_an_ignored_folder_that_is_named(self, desk: Desk) -> None:
        plant(desk)
        assert await desk.output(LS, path="build") == "build/\n  out.py (5 bytes)"

    async def test_empty_file_and_missing(self, desk: Desk) -> None:
        desk.put("d/x")
        (desk.root / "d" / "x").unlink()
        assert await desk.output(LS, path="d") == "d/\n[empty]"
        desk.put("f")
        assert "there is no folder f" in await desk.failure(LS, path="f")
        assert "there is no folder none" in await desk.failure(LS, path="none")

    async def test_a_cut_is_in_sight(self, desk: Desk) -> None:
        desk.max_output_chars = 300 + 100
        for n in range(20):
            desk.put(f"file{n:02}")
        output = await desk.output(LS)
        assert output.endswith("\n[cut: 15 or more entries not shown; list a folder of it]")

    @pytest.mark.skipif(os.name == "nt", reason="symbolic links need privileges")
    async def test_links_are_shown_and_not_followed(self, desk: Desk) -> None:
        os.symlink("..", desk.root / "up")
        assert await desk.output(LS, depth=3) == "./\n  up -> .."


class TestFind:
    """Files and folders by name."""

    async def test_a_part_of_the_name_in_any_case(self, desk: Desk) -> None:
        plant(desk)
        assert await desk.output(FIND, name="B") == "src/b.py\nsrc/sub/\nsrc/sub/B.txt"

    async def test_a_glob(self, desk: Desk) -> None:
        plant(desk)
        assert await desk.output(FIND, name="*.py") == "src/b.py\nsrc/sub/a.py\ntop.py"
        assert await desk.output(FIND, name="src/*.py") == "src/b.py"

    async def test_newest_first(self, desk: Desk) -> None:
        plant(desk)
        for age, name in enumerate(("top.py", "src/sub/a.py", "src/b.py")):
            os.utime(desk.root / name, (1_000_000 - age, 1_000_000 - age))
        assert await desk.output(FIND, name=".py", newest_first=True) == "top.py\nsrc/sub/a.py\nsrc/b.py"

    async def test_nothing(self, desk: Desk) -> None:
        assert await desk.output(FIND, name="zzz") == "no name matches zzz"


class TestGlob:
    """Files by pattern."""

    @pytest.mark.parametrize(("tool", "name"), [(GLOB, "pattern"), (FIND, "name")], ids=["glob", "find"])
    async def test_relative_to_its_folder(self, desk: Desk, tool: Tool, name: str) -> None:
        plant(desk)
        assert await desk.output(tool, **{name: "**/*.py"}) == "src/b.py\nsrc/sub/a.py\ntop.py"
        below = await desk.output(tool, **{name: "*/*.{py,txt}"}, path="src")
        assert below == "src/sub/B.txt\nsrc/sub/a.py"

    async def test_a_folder_is_no_file(self, desk: Desk) -> None:
        plant(desk)
        assert await desk.output(GLOB, pattern="sub") == "no file matches sub"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        pytest.param(FIND, {"name": "file"}, id="find"),
        pytest.param(GLOB, {"pattern": "file*"}, id="glob"),
    ],
)
async def test_cuts_are_in_sight(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tool: Tool, arguments: dict[str, str]
) -> None:
    for n in range(9):
        desk.put(f"file{n}")
    note = "[cut: 2 of 9 paths; narrow the search or raise max_results]"
    assert await desk.output(tool, **arguments, max_results=2) == f"file0\nfile1\n{note}"
    desk.max_output_chars = 300 + 12
    assert await desk.output(tool, **arguments) == f"file0\nfile1\n{note}"
    desk.max_output_chars = 5000
    monkeypatch.setattr(listing, "WALK_CAP", 2)
    assert await desk.output(tool, **arguments) == (
        "file0\nfile1\n[cut: only the first 2 files and folders were looked at; narrow the path]"
    )
    assert "there is no folder" in await desk.failure(tool, **arguments, path="none")


@pytest.mark.parametrize(
    ("tool", "arguments", "verb"),
    [
        pytest.param(LS, {}, "List", id="ls"),
        pytest.param(FIND, {"name": "a"}, "Find files in", id="find"),
        pytest.param(GLOB, {"pattern": "*"}, "Find files in", id="glob"),
    ],
)
async def test_outside_is_asked_for(desk: Desk, tool: Tool, arguments: dict[str, str], verb: str) -> None:
    outside = desk.put("../out/a").resolve().parent
    assert "a" in await desk.output(tool, **arguments, path="../out")
    assert desk.asked[-1].title == f"{verb} {outside}, outside the workspace"
    desk.answer = False
    assert "not allowed" in await desk.failure(tool, **arguments, path="../out")


async def test_a_cancelled_walk_ends(desk: Desk) -> None:
    plant(desk)
    desk.cancel.cancel()
    assert await desk.output(GLOB, pattern="*") == "no file matches *"


@pytest.mark.parametrize("tool", [GLOB, FIND], ids=["glob", "find"])
async def test_too_many_brace_choices_are_refused_at_once(desk: Desk, tool: Tool) -> None:
    pattern = "{" + ",".join(map(str, range(100_000))) + "}"
    failure = await desk.failure(tool, **{"pattern" if tool is GLOB else "name": pattern})
    assert "100000 choices in its braces, the limit is 1000" in failure
