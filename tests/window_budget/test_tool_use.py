"""Tool calls: the files they read and change, and the facts that they give."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.text.calls import EDITS_FILE, ToolEffects
from sidecar.window_budget import (
    AssistantMessage,
    FileRange,
    Message,
    ToolResultMessage,
    Transcript,
)
from sidecar.window_budget.facts import FactKind
from sidecar.window_budget.tool_use import (
    ReadCall,
    WriteCall,
    describe_edit,
    facts_of_call,
    files_of_call,
)


@pytest.mark.parametrize(
    ("call", "read", "writes"),
    [
        (("read", {"path": "a", "offset": 3, "limit": 4}), FileRange("a", 3, 4), []),
        (("Read", {"file_path": "a"}), FileRange("a"), []),
        (("mcp__fs__read_file", {"path": "a", "offset": True, "limit": "4"}), FileRange("a"), []),
        (("str_replace_editor", {"command": "view", "path": "a"}), FileRange("a"), []),
        (("str_replace_editor", {"command": "create", "path": "a"}), None, [("a", True)]),
        (("peek", {"path": "a"}), FileRange("a"), []),
        (("write", {"path": "a"}), None, [("a", True)]),
        (("Edit", {"filePath": "a"}), None, [("a", False)]),
        (
            ("apply_patch", {"input": "*** Delete File: a\n*** Update File: b"}),
            None,
            [("a", False), ("b", False)],
        ),
        (("grep", {"path": "a"}), None, []),
        (("bash", {"command": "cat a"}), None, []),
        (("read", None), None, []),
        (("read", {"path": ""}), None, []),
        (("read", ["a"]), None, []),
    ],
    ids=lambda value: str(value)[:40],
)
def test_which_calls_read_and_change_files(
    call: tuple[str, Any], read: FileRange | None, writes: list[tuple[str, bool]]
) -> None:
    """By the names tools go by; a view is a read."""
    block = ToolCallBlock("1", *call)
    files = files_of_call(block, 9)
    assert files.read == (None if read is None else ReadCall(9, call[0], read))
    assert files.writes == tuple(WriteCall(9, path, whole) for path, whole in writes)


@pytest.mark.parametrize(
    ("call", "body", "is_error", "facts"),
    [
        pytest.param(("bash", {"command": "make"}), "exit code: 0", False, ["make [exit 0]"], id="success"),
        pytest.param(
            ("exec", {"cmd": ["make", "all"]}), '{"exit_code":2,"output":"x"}', False,
            ["make all [exit 2]: x", "make all [exit 2]"],
            id="the exit code decides",
        ),
        pytest.param(
            ("bash", {"command": "make"}), "make: *** No rule\nstop", True,
            ["make [failed]: make: *** No rule", "make [failed]"], id="failed without a code",
        ),
        pytest.param(
            ("book_flight", {"to": "SEA"}), "ok", False, ['book_flight {"to":"SEA"}'], id="an unknown tool"
        ),
        pytest.param(("todo", {"items": []}), "ok", False, [], id="nobody misses a todo"),
        pytest.param(("grep", {"q": "x"}), "no such dir", True, ["grep: no such dir"], id="but its error"),
        pytest.param(("bash", {"command": "  "}), "", False, [], id="an empty command"),
        pytest.param(
            ("edit", {"path": "a", "old_string": "a\nb", "new_string": "a\nc"}), "ok", False, ["a: b -> c"],
            id="the first line that differs",
        ),
    ],
)  # fmt: skip
def test_a_call_gives_its_facts_in_a_few_words(
    call: tuple[str, Any], body: str, is_error: bool, facts: list[str]
) -> None:
    """Its outcome, its files, its error."""
    block = ToolCallBlock("1", *call)
    found = facts_of_call(block, files_of_call(block, 0, body=body, is_error=is_error), body, 0)
    assert [fact.text for fact in found] == facts


def test_a_host_declares_the_effects_of_its_own_tools() -> None:
    """Names of its own, an argument of its own for the path; a tool in no table is kept as a call."""
    tools = {"peek": ToolEffects("reads", ("where",)), "fix": EDITS_FILE}
    messages: list[Message] = [
        AssistantMessage(
            (ToolCallBlock("1", "peek", {"where": "a"}), ToolCallBlock("2", "fix", {"path": "b"}))
        ),
        ToolResultMessage("1", "peek", (TextBlock("text"),)),
        ToolResultMessage("2", "fix", (TextBlock("ok"),)),
    ]
    facts = Transcript(tools).extend(messages).facts
    assert list(facts.reads(3)) == [ReadCall(1, "peek", FileRange("a"))]
    assert list(facts.writes(3)) == [WriteCall(2, "b", is_whole=False)]
    assert [each.fact.text for each in facts.rank(FactKind.READ, 3)] == ["a"]
    assert list(facts.rank(FactKind.COMMAND, 3)) == []
    assert [each.fact.text for each in Transcript.of(messages).facts.rank(FactKind.COMMAND, 3)] == [
        'fix {"path":"b"}',
        'peek {"where":"a"}',
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"old_string": "a\nb", "new_string": "a\nc"}, ": b -> c"),
        ({"old_string": "a", "new_string": " a"}, ""),
        ({"path": "p", "edits": [{"old_text": "a", "new_text": "b"}]}, ": a -> b"),
        ("a", ""),
    ],
)
def test_an_edit_is_described_by_the_first_line_that_differs(arguments: Any, words: str) -> None:
    assert describe_edit(arguments) == words
