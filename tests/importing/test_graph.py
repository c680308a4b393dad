"""The reads of an imported conversation: every file whose whole text it shows."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from sidecar.importing.builder import ImportBuilder, ShownFile
from sidecar.importing.graph import build_session, edit_text
from sidecar.llmgateway.contract import ToolCallBlock


def digest(text: str) -> str:
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def reads(
    *calls: tuple[str, dict[str, Any], str | None], cwd: str = "/w", is_error: bool = False
) -> list[Any]:
    """Return path, hash and ranges of the reads of *calls*: tool, arguments, and the text that is shown."""
    builder = ImportBuilder()
    builder.cwd = cwd
    for number, (name, arguments, text) in enumerate(calls):
        builder.answer([ToolCallBlock(str(number), name, arguments)])
        file = None if text is None else ShownFile(arguments["path"], text)
        builder.result(str(number), "ok", is_error=is_error, shown=file)
    entries = build_session(builder, "test").entries
    return [(read.path, read.hash, read.ranges) for entry in entries for read in entry.reads]


WRITE = ("write", {"path": "/w/a.py", "content": "a\nb\n"}, None)
WRITTEN = ("/w/a.py", digest("a\nb\n"), ())
ODD_EDIT = ("edit", {"path": "a.py", "patch": "..."}, None)
EDIT = ("edit", {"path": "a.py", "old_string": "b", "new_string": "c"}, None)
HALF = ("write", {"path": "\ud800", "content": "a"}, None)


@pytest.mark.parametrize(
    ("calls", "place", "found"),
    [
        pytest.param(
            [("read", {"path": "a.py"}, "x\n")], {}, [("/w/a.py", digest("x\n"), ())], id="a whole file"
        ),
        pytest.param(
            [WRITE, EDIT], {}, [WRITTEN, ("/w/a.py", digest("a\nc\n"), ((2, 1),))], id="a written one, edited"
        ),
        pytest.param([WRITE, ODD_EDIT, EDIT], {}, [WRITTEN], id="an edit that cannot be followed"),
        pytest.param(
            [("read", {"path": "a.py"}, "x\n")], {"cwd": ""}, [], id="in a folder that is not known"
        ),
        pytest.param([HALF], {}, [], id="half a character in the path"),
        pytest.param([HALF], {"cwd": "/w\udfff"}, [], id="and in the folder"),
        pytest.param([HALF], {"cwd": "C:\\w\udfff"}, [], id="and on another system"),
        pytest.param([WRITE], {"is_error": True}, [], id="a failed call shows none"),
        pytest.param(
            [("read", {"path": "src\\a.py"}, "x")],
            {"cwd": "C:\\w"},
            [("C:\\w\\src\\a.py", digest("x"), ())],
            id="a path of another system stays",
        ),
    ],
)
def test_a_file_whose_whole_text_was_shown_is_read(
    calls: list[Any], place: dict[str, Any], found: list[Any]
) -> None:
    assert reads(*calls, **place) == found


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"oldText": "b", "newText": "c"}, ("a\nc\na\n", 2, 1), id="one place"),
        pytest.param({"old_string": "a", "new_string": "c"}, None, id="two places"),
        pytest.param(
            {"old_string": "a", "new_string": "c", "replace_all": True}, ("c\nb\nc\n", 1, 1), id="all places"
        ),
        pytest.param({"old_string": "z", "new_string": "c", "replace_all": True}, None, id="no place"),
        pytest.param({"old_string": "", "new_string": "c"}, None, id="an empty text"),
    ],
)
def test_an_edit_is_followed_where_its_place_is_certain(
    arguments: dict[str, Any], expected: tuple[str, int, int] | None
) -> None:
    assert edit_text("a\nb\na\n", arguments) == expected
