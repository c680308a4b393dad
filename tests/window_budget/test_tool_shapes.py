"""What calls of tools that no table names do, by the words in their names and arguments."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.llmgateway.contract import ToolCallBlock
from sidecar.window_budget.facts import FactKind
from sidecar.window_budget.tool_use import facts_of_call, files_of_call, open_todos


@pytest.mark.parametrize(
    ("name", "given", "facts"),
    [
        ("view_file", {"AbsolutePath": "src/a.py", "StartLine": 3}, ["Files read: src/a.py"]),
        ("builtin_read_file", {"filepath": "src/a.py"}, ["Files read: src/a.py"]),
        ("mcp__fs__read_text_file", {"path": "src/a.py"}, ["Files read: src/a.py"]),
        ("read_file", {"target_file": "src/a.py"}, ["Files read: src/a.py"]),
        (
            "search_replace",
            {"file_path": "a.py", "old_string": "a", "new_string": "b"},
            ["Files modified: a.py: a -> b"],
        ),
        ("write_to_file", {"TargetFile": "a.py", "CodeContent": "x"}, ["Files modified: a.py"]),
        ("developer__text_editor", {"command": "view", "path": "a.py"}, ["Files read: a.py"]),
        (
            "developer__text_editor",
            {"command": "write", "path": "a.py", "file_text": "b"},
            ["Files modified: a.py"],
        ),
        ("run_terminal_cmd", {"command": "make", "is_background": False}, ["Commands: make"]),
        ("run_command", {"CommandLine": "make", "Cwd": "/repo"}, ["Commands: make"]),
        ("execute_sql", {"query": "select 1"}, ["Commands: select 1"]),
        ("codebase_search", {"query": "lease"}, ["Searches: lease"]),
        ("mcp__hub__search_code", {"q": "lease"}, ["Searches: lease"]),
        ("shell", {"command": ["bash", "-lc", "make test"]}, ["Commands: make test"]),
        ("shell", {"command": ["bash", "-lc", "sed -n 1,9p src/a.py"]}, ["Files read: src/a.py"]),
        ("shell", {"command": ["bash", "-lc", "rg -n lease src | head"]}, ["Searches: lease in src"]),
        (
            "shell",
            {"command": ["apply_patch", "*** Begin Patch\n*** Add File: a.py\n+x"]},
            ["Files modified: a.py"],
        ),
        ("book_flight", {"to": "SEA"}, ['Commands: book_flight {"to":"SEA"}']),
    ],
)
def test_a_tool_is_known_by_its_names(name: str, given: Any, facts: list[str]) -> None:
    call = ToolCallBlock("1", name, given)
    found = facts_of_call(call, files_of_call(call, 0), "ok", 0)
    assert [f"{fact.kind.value}: {fact.text}" for fact in found] == facts


@pytest.mark.parametrize(
    "body",
    [
        '[{"type": "text", "text": "ok\\nfatal: no remote"}]',
        '{"output": "ok\\nfatal: no remote", "metadata": {"exit_code": 1}}',
        '{"content": [{"type": "text", "text": "fatal: no remote"}], "isError": false}',
        "Output:\n```\nfatal: no remote\n```",
    ],
)
def test_a_failure_is_found_in_the_wrapping_of_a_result(body: str) -> None:
    call = ToolCallBlock("1", "run", {"command": "git push"})
    found = facts_of_call(call, files_of_call(call, 0, body=body), body, 0)
    errors = [fact for fact in found if fact.kind is FactKind.ERROR]
    assert [fact.text.endswith(": fatal: no remote") for fact in errors] == [True]


@pytest.mark.parametrize(
    ("name", "given", "items"),
    [
        ("write_plan", {"tasks": [{"task": "a", "done": False}, {"task": "b", "done": True}]}, ("a",)),
        ("update_plan", {"plan": [{"step": "a"}]}, ("a",)),
        ("book", {"items": [{"text": "a"}]}, None),
        ("focus", {"progress": "- [ ] a\n- [x] b"}, ("a",)),
        ("write", {"path": "a.md", "content": "- [ ] a"}, None),
    ],
)
def test_a_todo_list_is_known_in_many_shapes(name: str, given: Any, items: tuple[str, ...] | None) -> None:
    assert open_todos(ToolCallBlock("1", name, given)) == items
