"""Patches of several files: what was read, with one question, all of it or nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.apply_patch import APPLY_PATCH, FilePatch, Hunk, apply_hunks, parse_patch
from sidecar.capabilities.contract import Diff, Location
from sidecar.capabilities.read import READ
from sidecar.permissions.access import EditAccess, PatchAccess

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


MANY = patch(
    *("*** Delete File: old", "*** Update File: a.py", " one", "-two", "+2"),
    *("*** Update File: b.py", "*** Move to: sub/c.py", "-x", "+y"),
    *("*** Add File: new/d", "+d"),
)


async def put_all(desk: Desk) -> None:
    for name, text in (("old", "gone\n"), ("a.py", "one\ntwo\nthree\n"), ("b.py", "x\n")):
        desk.put(name, text)
        await desk.output(READ, path=name)


async def test_a_patch_changes_all_of_its_files_with_one_question(desk: Desk) -> None:
    await put_all(desk)
    reply = await desk.run(APPLY_PATCH, input=MANY)
    assert reply.output == (
        "edited a.py:\n     1\tone\n     2\t2\n     3\tthree\n"
        "created sub/c.py\ncreated new/d\ndeleted old\ndeleted b.py"
    )
    assert (desk.text("a.py"), desk.text("sub/c.py"), desk.text("new/d")) == ("one\n2\nthree\n", "y\n", "d\n")
    assert sorted(os.listdir(desk.root)) == ["a.py", "new", "sub"]
    paths = [desk.root / name for name in ("a.py", "sub/c.py", "new/d", "old", "b.py")]
    (asked,) = desk.asked
    assert asked.access == PatchAccess(tuple(EditAccess(path, True) for path in paths))
    assert (asked.title, asked.subject) == ("Apply patch a.py, sub/c.py, new/d, old, b.py", "toolCall")
    assert reply.diffs == asked.diffs
    assert reply.diffs[3] == Diff(paths[3], "gone\n", "", is_whole=True)
    assert reply.locations[:2] == (Location(paths[0], 2), Location(paths[1], 1))
    await desk.output(APPLY_PATCH, input=patch("*** Update File: sub/c.py", "-y", "+z"))
    await desk.workspace.settle()
    assert desk.text("sub/c.py") == "z\n"


@pytest.mark.parametrize("trouble", ["taken", "swapped"])
async def test_a_file_that_cannot_be_written_takes_the_others_back(desk: Desk, trouble: str) -> None:
    await put_all(desk)
    if trouble == "taken":
        desk.before_answer = lambda: desk.put("new/d", "theirs\n")
    else:
        desk.before_answer = lambda: desk.put("old", "theirs\n")
    assert "read" in await desk.failure(APPLY_PATCH, input=MANY)
    assert (desk.text("a.py"), desk.text("b.py")) == ("one\ntwo\nthree\n", "x\n")
    assert not (desk.root / "sub/c.py").exists()
    assert (desk.root / "new/d").exists() == (trouble == "taken")
    assert desk.text("old") == ("gone\n" if trouble == "taken" else "theirs\n")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(patch("*** Update File: a", "-one", "+1"), "a was not read yet", id="not read"),
        pytest.param(patch("*** Delete File: a"), "a was not read yet", id="not read, to delete"),
        pytest.param(patch("*** Add File: a", "+1"), "a exists already; use '*** Update File'", id="there"),
        pytest.param(patch("*** Update File: z", "-one", "+1"), "z does not exist", id="missing"),
        pytest.param(patch("*** Update File: b", "-two", "+1"), "b: hunk 1 of 1: its lines", id="no place"),
        pytest.param(patch("*** Update File: b"), "the update has no lines", id="nothing"),
        pytest.param(patch("*** Update File: b", "*** Move to: a"), "a exists already; choose", id="taken"),
        pytest.param("*** Update File: b", "no line '*** Begin Patch'", id="no patch"),
    ],
)
async def test_a_patch_that_does_not_fit_changes_nothing(desk: Desk, given: str, expected: str) -> None:
    desk.put("a", "one\n")
    desk.put("b", "one\n")
    await desk.output(READ, path="b")
    assert expected in await desk.failure(APPLY_PATCH, input=given)
    assert (desk.text("a"), desk.text("b"), desk.asked) == ("one\n", "one\n", [])


async def test_a_move_alone_keeps_the_text(desk: Desk) -> None:
    desk.put("a", "one\r\n")
    await desk.output(READ, path="a")
    await desk.output(APPLY_PATCH, input=patch("*** Update File: a", "*** Move to: b"))
    assert (desk.text("b"), (desk.root / "a").exists()) == ("one\r\n", False)


def test_the_title_names_the_files() -> None:
    assert APPLY_PATCH.title({"input": MANY}) == "Patch old, a.py, b.py, sub/c.py, new/d"


def hunks_of(body: str) -> list[Hunk]:
    """Return the hunks of a patch of one file with the lines *body*."""
    (file,) = parse_patch(f"*** Begin Patch\n*** Update File: a\n{body}\n*** End Patch")
    return file.hunks


def test_all_kinds_of_changes_are_parsed() -> None:
    patch = """apply_patch <<'EOF'
*** Begin Patch
*** Update File: a.py
*** Move to: b.py
@@ class A
@@ def f
 x
-y
+z

*** End of File
*** Add File: c
+one
+
*** Delete File: d
*** End Patch
EOF"""
    assert parse_patch(patch) == (
        FilePatch(
            "update",
            "a.py",
            move_to="b.py",
            hunks=[Hunk(["class A", "def f"], ["x", "y", ""], ["x", "z", ""], is_at_end=True)],
        ),
        FilePatch("add", "c", lines=["one", ""]),
        FilePatch("delete", "d"),
    )


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param("", "no line '*** Begin Patch'", id="nothing"),
        pytest.param("*** Begin Patch\n*** Add File: a\n+x", "no line '*** End Patch'", id="cut off"),
        pytest.param("*** Begin Patch\n*** End Patch", "names no file", id="empty"),
        pytest.param("*** Begin Patch\nx\n*** End Patch", "line 2 of the patch is 'x'", id="no heading"),
        pytest.param("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "line 3", id="a bare line"),
        pytest.param(
            "*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch", "line 3", id="more than asked"
        ),
        pytest.param(
            "*** Begin Patch\n*** Delete File: a\n*** Add File: a\n+x\n*** End Patch", "a twice", id="twice"
        ),
    ],
)
def test_what_is_no_whole_patch_is_refused(patch: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_patch(patch)
    assert expected in caught.value.message


@pytest.mark.parametrize(
    ("text", "body", "becomes"),
    [
        pytest.param("a\nb\nc\n", " a\n-b\n+B\n c", "a\nB\nc\n", id="a line in its context"),
        pytest.param("a\r\nb\r\n", "-b\n+c\n+d", "a\r\nc\r\nd\r\n", id="line ends stay"),
        pytest.param("x\na\ny\na\n", "@@\n-x\n+1\n@@\n-y\n+2", "1\na\n2\na\n", id="two hunks"),
        pytest.param("f\n x\ng\n x\n", "@@ g\n- x\n+ y", "f\n x\ng\n y\n", id="below its line"),
        pytest.param("A\nf\nx\nB\nf\nx\n", "@@ B\n@@ f\n-x\n+y", "A\nf\nx\nB\nf\ny\n", id="two"),
        pytest.param("f\n x\ng\n x\n", "@@ -1,2 +1,2 @@ g\n- x\n+ y", "f\n x\ng\n y\n", id="unified heading"),
        pytest.param("a\nb\n", "@@ a\n+new", "a\nnew\nb\n", id="only comes, below a line"),
        pytest.param("a\nb\n", "+new", "a\nb\nnew\n", id="only comes, at the end"),
        pytest.param("a\nb", "+new", "a\nb\nnew", id="only comes, without a last line end"),
        pytest.param("a\nb", "-b\n+c", "a\nc", id="no last line end"),
        pytest.param("a\nx\na\n", "-a\n+b\n*** End of File", "a\nx\nb\n", id="the one at the end"),
        pytest.param("a\n\nb\n", " a\n\n-b\n+c", "a\n\nc\n", id="a bare empty line stays"),
        pytest.param("x:\n\tgo(“a”)\n\tend()\n", '     go("a")\n-    end()', "x:\n\tgo(“a”)\n", id="drift"),
        pytest.param("", "+a", "a\n", id="an empty file"),
    ],
)  # fmt: skip
def test_hunks_are_applied(text: str, body: str, becomes: str) -> None:
    assert apply_hunks(text, hunks_of(body)).text == becomes


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        pytest.param("a\n", "-b\n+c", "hunk 1 of 1: its lines, from 'b', are not in the file", id="missing"),
        pytest.param("a\nb\n", "-b\n+c\n@@\n-a\n+d", "hunk 2 of 2: its lines, from 'a'", id="out of order"),
        pytest.param("a\nx\na\n", "-a\n+b", "there 2 times, at lines 1, 3", id="ambiguous"),
        pytest.param("a\n", "@@ def f\n-a\n+b", "the line 'def f' of its @@ is not there", id="no such line"),
        pytest.param("xa\n", "-a\n+b", "not in the file", id="a part of a line"),
        pytest.param("a\n", " a", "changes nothing", id="nothing to change"),
    ],
)
def test_a_hunk_without_one_place_is_refused(text: str, body: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        apply_hunks(text, hunks_of(body))
    assert expected in caught.value.message
