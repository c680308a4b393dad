"""Patches: parsed whole or refused with their line, and applied in one place or in none."""

from __future__ import annotations

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.patch_format import FilePatch, Hunk, apply_hunks, parse_patch


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
