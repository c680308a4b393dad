"""The index beside a chronicle: facts that thinned away, each once, the newest first."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.chronicle import INDEX_HEADER, Chronicle
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock, ToolTurn
from turns import assistant, user


def typed(text: str) -> Entry:
    return Entry(user(text), "user")


def used(tool: str, given: object, output: str, *, is_error: bool = False) -> list[Entry]:
    call = ToolCallBlock(f"c{id(given)}", tool, given)
    result = ToolResultBlock(call.id, output, is_error)
    return [Entry(assistant(call), "assistant"), Entry(ToolTurn((result,)), "tool")]


def items_of(entries: list[Entry]) -> list[str]:
    """Return the lines of all items of *entries*."""
    chronicle = Chronicle()
    for entry in entries:
        chronicle.add(entry)
    return [line for _, line in chronicle.facts.items(len(entries))]


def test_a_file_has_its_lines_and_the_place_of_its_last_touch() -> None:
    read = used("Read", {"file_path": "src/a.py", "offset": 10, "limit": 30}, "x")
    edit = used("Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"}, "done")
    other = used("bash", {"command": "sed -n '5,9p' src/b.py"}, "y")
    lines = items_of([*read, *edit, *other])
    assert lines == ["$ sed -n '5,9p' src/b.py #6", "src/b.py 5-9 #5", "src/a.py* 10-39 #3"]


def test_a_command_has_its_last_outcome_alone() -> None:
    first = used("bash", {"command": "make test"}, "collecting\n3 failed in lexer_test.py", is_error=True)
    second = used("bash", {"command": "make test"}, "collecting\n41 passed in 2.31s")
    failing = used("run", {"cmd": "make lint"}, "style.py:3: too long", is_error=True)
    assert items_of([*first, *second, *failing]) == [
        "$ make lint → ! style.py:3: too long #6",
        "$ make test → 41 passed in 2.31s #4",
    ]


def test_open_tasks_and_values_given_anew_come_first() -> None:
    tasks = [
        {"content": "Write the parser", "status": "completed"},
        {"content": "Write the tests", "status": "pending"},
    ]
    talk = [
        *used("todo", {"items": tasks}, "ok"),
        typed("port: 8080\nhost: local"),
        typed("port: 9090"),
        *used("read", {"path": "src/a.py"}, "x"),
    ]
    assert items_of(talk) == ["open: Write the tests #1", "now port: 9090 #4", "src/a.py #5"]


def test_an_item_that_the_chronicle_shows_is_not_in_the_index() -> None:
    chronicle = Chronicle()
    for entry in used("read", {"path": "src/a.py"}, "x"):
        chronicle.add(entry)
    assert chronicle.write(10_000, meter=len).index_chars == 0


def test_the_newest_commands_that_failed_last_stand_in_it_though_the_chronicle_shows_them() -> None:
    failed = [used("bash", {"command": f"make {n}"}, "1 failed", is_error=True) for n in range(5)]
    passed = used("bash", {"command": "make 4"}, "9 passed")
    chronicle = Chronicle()
    for entry in [*(entry for each in failed for entry in each), *passed]:
        chronicle.add(entry)
    index, _, lines = chronicle.write(10_000, meter=len).text.removeprefix(INDEX_HEADER).partition("\n\n")
    assert index.split("\n") == [f"$ make {n} → ! 1 failed #{2 * n + 2}" for n in (3, 2, 1)]
    assert all(f"make {n}" in lines for n in range(5))


def test_the_index_has_at_most_a_fifth_of_the_room() -> None:
    reads = [entry for n in range(300) for entry in used("read", {"path": f"src/module{n}.py"}, "x" * 90)]
    chronicle = Chronicle()
    for entry in reads:
        chronicle.add(entry)
    written = chronicle.write(6_000, meter=len)
    index = written.text[: written.index_chars]
    assert index.startswith(INDEX_HEADER)
    assert not [line for line in index.splitlines()[1:-1] if line.split()[0] in written.text[len(index) :]]
    assert 900 < written.index_chars <= 1_200
    assert written.tokens <= 6_000


@pytest.mark.parametrize(
    ("tool", "given", "expected"),
    [
        pytest.param("fs_open", {"target_file": "a.py"}, ["a.py #1"], id="a tool of another agent"),
        pytest.param(
            "apply_patch",
            {"input": "*** Begin Patch\n*** Update File: a.py\n-x\n"},
            ["a.py* #1"],
            id="a patch",
        ),
        pytest.param(
            "shell",
            {"command": ["bash", "-lc", "cat a.py"]},
            ["$ cat a.py #2", "a.py #1"],
            id="words of a command",
        ),
        pytest.param("fetch", {"url": "https://a.example/b.html"}, [], id="an address is no file"),
        pytest.param("ask", {"query": "how are you"}, [], id="nor are words"),
        pytest.param("read", "raw", [], id="arguments that are no object"),
        pytest.param("bash", {"command": 3}, [], id="arguments of other types"),
        pytest.param(
            "todo", {"items": [{"status": "done", "content": "Add tests"}]}, [], id="a task that is done"
        ),
    ],
)
def test_a_call_is_known_by_its_name_or_its_shape(tool: str, given: Any, expected: list[str]) -> None:
    assert items_of(used(tool, given, "done")) == expected


def test_an_edit_that_failed_is_no_edit() -> None:
    given = {"path": "a.py", "old_text": "a", "new_text": "b"}
    assert items_of(used("edit", given, "no such text", is_error=True)) == []
