"""Files by use: which of the files that a conversation touched are worth giving back first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

from histories import entry_of, history_of
from sidecar.conductor.window.compaction import file_use
from sidecar.conductor.window.compaction.file_use import HALF_LIFE_CALLS, FileUse, rank_by_use
from sidecar.conversation import Entry, FileRead, History
from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock, ToolTurn, Turn
from turns import assistant, user


def use(name: str, *, output: str = "ok", is_error: bool | None = None, **arguments: Any) -> list[Turn]:
    """One call with its result."""
    call_id = f"{name} {arguments}"
    return [
        assistant(ToolCallBlock(call_id, name, arguments)),
        ToolTurn((ToolResultBlock(call_id, output, is_error),)),
    ]


def prompt(text: str) -> list[Turn]:
    return [user(text)]


def rank(history: History | Iterable[Turn], first_kept: int | None = None) -> list[FileUse]:
    """The files by use, with everything folded unless *first_kept* says otherwise."""
    known = history if isinstance(history, History) else history_of(history)
    shown = {
        block.call_id: str(block.output)
        for entry in known
        for block in entry.turn.blocks
        if isinstance(block, ToolResultBlock)
    }
    kept = len(known) if first_kept is None else first_kept
    return list(rank_by_use(known, {}, shown=shown, first_kept=kept, key_of=str))


def names(history: History | Iterable[Turn]) -> list[str]:
    return [each.path for each in rank(history)]


def test_the_file_that_is_used_most_and_last_comes_first() -> None:
    often = [turn for _ in range(5) for turn in use("read", path="often.py")]
    between = [turn for n in range(3 * HALF_LIFE_CALLS) for turn in use("bash", command=f"make {n}")]
    late = use("edit", path="late.py", old_string="a", new_string="b")
    assert names([*often, *late]) == ["often.py", "late.py"]
    assert names([*often, *between, *late]) == ["late.py", "often.py"]


def test_a_name_in_the_last_words_counts() -> None:
    turns = [*use("read", path="src/a.py"), *use("read", path="src/b.py")]
    assert names(turns) == ["src/b.py", "src/a.py"]
    assert names([*turns, *prompt("now look at a.py again")]) == ["src/a.py", "src/b.py"]
    assert names([*turns, *prompt("read src/a.py.")]) == ["src/a.py", "src/b.py"]
    assert names([*turns, *prompt("data.py is another one")]) == ["src/b.py", "src/a.py"], "a part of a name"


def test_a_file_that_was_only_found_was_never_read() -> None:
    assert names(use("grep", pattern="x", output="a.py:1:x\nb.py:2:x")) == []
    found = [
        *use("read", path="b.py"),
        *use("read", path="c.py"),
        *use("grep", pattern="x", output="b.py:2:x"),
    ]
    assert names(found) == ["b.py", "c.py"]


def test_files_read_by_shell_count() -> None:
    """Agents without a tool for reading use nothing else."""
    (only,) = rank(use("exec_command", cmd="nl -ba main.rs | sed -n '5,9p'"))
    assert (only.path, only.touches[0].ranges, only.is_known) == ("main.rs", ((5, 5),), False)


def test_a_file_that_was_removed_does_not_come_back_and_a_moved_one_has_its_new_name() -> None:
    turns = [*use("read", path="a.py"), *use("read", path="b.py"), *use("bash", command="rm a.py")]
    assert names(turns) == ["b.py"]
    assert names([*turns, *use("bash", command="git mv b.py c.py")]) == ["c.py"]
    assert names([*turns, *use("write", path="a.py", content="new")]) == ["a.py", "b.py"]


def test_a_failed_call_touches_nothing() -> None:
    assert names(use("read", path="a.py", is_error=True)) == []
    assert names([assistant(ToolCallBlock("1", "read", {"path": "a.py"}))]) == []


def test_the_calls_behind_a_summary_count_and_a_file_that_was_given_back_only_once() -> None:
    turns = [*use("read", path="a.py"), *use("read", path="a.py"), *use("read", path="b.py")]
    folded = history_of(turns)
    summary = Entry(user("so far"), "summary", origin=folded.node_ids, node_id="s")
    given_back = entry_of(user("[Restored file after compaction] b.py\n1\tx"), "file")
    read = FileRead(path="b.py", uri="b.py", hash="h", source="disk")
    back = Entry(given_back.turn, "file", reads=(read,), origin=(folded.node_ids[-1],), node_id="f")
    after = History([summary, back], {entry.node_id: entry for entry in (*folded, summary, back)})
    assert names(after) == names(folded) == ["a.py", "b.py"]


def test_what_the_model_still_sees_is_noted() -> None:
    turns = [*use("read", path="a.py", output="1\tx"), *use("read", path="b.py")]
    shown = {each.path: [body for _, body in each.shown] for each in rank(turns, first_kept=0)}
    assert shown == {"a.py": ["1\tx"], "b.py": ["ok"]}
    assert [each.shown for each in rank(turns)] == [[], []]


def test_of_a_command_that_failed_the_parts_before_the_failure_count() -> None:
    """The first program that may do anything is taken for the one that failed."""
    failed = use("bash", command="cat a.py && make && rm b.py", is_error=True)
    assert names([*use("read", path="b.py"), *failed]) == ["a.py", "b.py"]


def test_a_call_behind_the_newest_ones_does_not_count() -> None:
    turns = [*use("read", path="old.py"), *use("read", path="a.py"), *use("read", path="b.py")]
    with patch.object(file_use, "LOOK_BACK_CALLS", 2):
        assert names(turns) == ["b.py", "a.py"]
        assert names([*turns, *prompt("and old.py?")]) == ["b.py", "a.py"]


def test_a_result_belongs_to_the_newest_call_of_its_id_before_it() -> None:
    first, answered = use("read", path="a.py")
    second = assistant(ToolCallBlock("read {'path': 'a.py'}", "read", {"path": "b.py"}))
    assert names([first, answered, second]) == ["a.py"], "the second call has no result yet"
    assert names([first, second, answered]) == ["b.py"], "the first call was cut off"
    assert names([first, answered, second, answered]) == ["b.py", "a.py"]
