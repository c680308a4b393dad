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


def test_a_whole_file_that_was_shown_is_read() -> None:
    assert reads(("read", {"path": "a.py"}, "x\n")) == [("/w/a.py", digest("x\n"), ())]


def test_a_written_file_is_known_and_an_edit_of_it_too() -> None:
    write = ("write", {"path": "/w/a.py", "content": "a\nb\n"}, None)
    edit = ("edit", {"path": "a.py", "old_string": "b", "new_string": "c"}, None)
    assert reads(write, edit) == [("/w/a.py", digest("a\nb\n"), ()), ("/w/a.py", digest("a\nc\n"), ((2, 1),))]


def test_an_edit_that_cannot_be_followed_ends_the_knowledge() -> None:
    write = ("write", {"path": "/w/a.py", "content": "a\n"}, None)
    odd = ("edit", {"path": "a.py", "patch": "..."}, None)
    edit = ("edit", {"path": "a.py", "old_string": "a", "new_string": "b"}, None)
    assert len(reads(write, odd, edit)) == 1


def test_a_path_in_a_folder_that_is_not_known_is_no_read() -> None:
    assert reads(("read", {"path": "a.py"}, "x\n"), cwd="") == []


@pytest.mark.parametrize("cwd", ["/w", "C:\\w"])
def test_a_path_with_half_a_character_is_no_read(cwd: str) -> None:
    write = ("write", {"path": "\ud800", "content": "a"}, None)
    assert reads(write, cwd=cwd) == reads(write, cwd=f"{cwd}\udfff") == []


def test_a_failed_call_shows_no_file() -> None:
    assert reads(("write", {"path": "/w/a.py", "content": "a"}, None), is_error=True) == []


def test_paths_of_another_system_stay_as_they_were() -> None:
    (found,) = reads(("read", {"path": "src\\a.py"}, "x"), cwd="C:\\w")
    assert found[0] == "C:\\w\\src\\a.py"


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
