"""The files that tool calls read and changed, and those that shell commands write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agentcore.files import FileLists, file_lists, render_sections, split_sections
from sidecar.agentcore.messages import AgentMessage, CompactionSummary, Message, call_block, tool_message
from sidecar.text.calls import ToolEffects


def call(name: str, call_id: str = "1", **arguments: object) -> Message:
    return Message("assistant", (call_block(call_id, name, json.dumps(arguments)),))


READ_A, EDIT_A = call("read", path="a"), call("edit", path="a")
OK, FAILED = tool_message("1", "ok"), tool_message("1", "no such text", is_error=True)


TOUCHED = {
    "nothing": ([], FileLists()),
    "sorted, unique": ([call("read", path="b"), READ_A, call("read", path="b")], FileLists(("a", "b"))),
    "write and edit": ([call("write", path="a"), call("edit", path="b")], FileLists((), ("a", "b"))),
    "an edit moves the file": ([READ_A, EDIT_A], FileLists((), ("a",))),
    "whatever the order": ([EDIT_A, READ_A], FileLists((), ("a",))),
    "file_path before path": ([call("read", file_path="x", path="a")], FileLists(("x",))),
    "names are exact": ([call("Read", path="a"), call("view", path="b")], FileLists()),
    "a path is a string": ([call("read", path=7), call("read")], FileLists()),
    "broken arguments": ([Message("assistant", (call_block("1", "read", "{"),))], FileLists()),
    "a call without a result counts": ([EDIT_A], FileLists((), ("a",))),
    "so does one that went well": ([EDIT_A, OK], FileLists((), ("a",))),
    "the second try counts": ([EDIT_A, FAILED, EDIT_A, OK], FileLists((), ("a",))),
    "a failed edit is no modification": ([READ_A, OK, EDIT_A, FAILED], FileLists(("a",))),
    "nor a failed write": ([call("write", path="a"), FAILED], FileLists()),
    "what could not be read was not read": ([READ_A, FAILED], FileLists()),
    "a shell's writes": ([call("bash", command="make > build.log")], FileLists((), ("build.log",))),
    "a shell's reads and moves": (
        [call("bash", command="cd x; cat a; mv b c; make 2>&1 >/dev/null")],
        FileLists(("x/a",), ("x/b", "x/c")),
    ),
    "earlier lists are united": (
        [CompactionSummary("s", 0, ("a", "b"), ("c",)), EDIT_A],
        FileLists(("b",), ("a", "c")),
    ),
    "also those only told in text": (
        [CompactionSummary("s\n\n<read-files>\na\n</read-files>")],
        FileLists(("a",)),
    ),
}


@pytest.mark.parametrize(("messages", "expected"), TOUCHED.values(), ids=TOUCHED)
def test_files_follow_the_calls_and_their_results(messages: list[AgentMessage], expected: FileLists) -> None:
    assert file_lists(messages) == expected


def test_tools_are_known_by_their_declared_effects() -> None:
    effects = {
        "view": ToolEffects("reads", ("target",)),
        "patch": ToolEffects("edits", ("file", "target")),
        "shell": ToolEffects("runs", ("line",)),
        "patches": ToolEffects("patches", ("input",)),
    }
    history = [
        call("view", target="seen"),
        call("patch", file=["no path"], target="patched"),
        call("shell", line="rm removed"),
        call("patches", input="*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch"),
        call("read", path="of no declared tool"),
    ]
    assert file_lists(history, effects.get) == FileLists(("seen",), ("a", "b", "patched", "removed"))


@pytest.mark.parametrize(
    ("files", "sections"),
    [
        pytest.param(FileLists(), "", id="nothing, no section"),
        pytest.param(FileLists(("a", "b")), "\n\n<read-files>\na\nb\n</read-files>", id="read"),
        pytest.param(
            FileLists(("a",), ("b",)),
            "\n\n<read-files>\na\n</read-files>\n\n<modified-files>\nb\n</modified-files>",
            id="both",
        ),
        pytest.param(FileLists(("a\nb",)), "\n\n<read-files>\na\\nb\n</read-files>", id="one line a path"),
    ],
)
def test_each_list_that_is_not_empty_has_a_section(files: FileLists, sections: str) -> None:
    assert render_sections(files, 1000) == sections


def test_sections_stay_within_their_limit_and_say_so() -> None:
    files = FileLists(tuple(f"r{i:03}" for i in range(100)), tuple(f"m{i:03}" for i in range(100)))
    text = render_sections(files, 600)
    assert "m099\n</modified-files>" in text
    assert text.startswith("\n\n<read-files>\nr000\n")
    assert "\n(+80 more)\n</read-files>" in text
    assert split_sections(text)[1] == FileLists(files.read[:20], files.modified)


PATHS = st.lists(
    st.text(st.characters(exclude_characters="\n", codec="utf-8"), min_size=1, max_size=9), max_size=5
)


@given(st.text("ab\n<>", max_size=20), PATHS, PATHS)
def test_sections_can_be_taken_off_again(body: str, read: list[str], modified: list[str]) -> None:
    files = FileLists.of(set(read), set(modified))
    assert split_sections(body.rstrip("\n") + render_sections(files, 10_000)) == (body.rstrip("\n"), files)


def test_old_sections_go_wherever_they_stand() -> None:
    text = "Goal\n\n<read-files>\na\n</read-files>\n\nNext\n\n<modified-files>\nb\n</modified-files>"
    assert split_sections(text) == ("Goal\n\nNext", FileLists(("a",), ("b",)))


def test_text_that_only_mentions_a_section_is_kept() -> None:
    text = "the tag <read-files> opens\nand </read-files> closes it"
    assert split_sections(text) == (text, FileLists())


def test_lists_that_are_carried_on_for_ever_have_an_end() -> None:
    """Of more than 500 files of a kind the newest are listed."""
    lists = FileLists()
    for round_number in range(4):
        new = [
            Message("assistant", (call_block(f"{n}", "edit", json.dumps({"path": f"{round_number}/{n}"})),))
            for n in range(200)
        ]
        lists = file_lists([CompactionSummary("", 0, lists.read, lists.modified), *new])
    assert len(lists.modified) == 500
    assert {path[0] for path in lists.modified[-400:]} == {"2", "3"}
