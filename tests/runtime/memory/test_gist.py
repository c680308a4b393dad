"""The local gist keeps what matters, in little room, the same way every time."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import CommandBlock, Turn, UserTurn
from sidecar.runtime.memory import SUMMARY_HEADING, local_gist
from turns import assistant, tool_call, tool_result, user


def test_requests_rules_files_commands_errors_decisions_and_the_last_word() -> None:
    history: list[Turn] = [
        user("Fix the parser.\nAlways run the tests first."),
        tool_call("c1", path="src/parser.py"),
        tool_result("c1"),
        tool_call("c2", "bash", command="pytest -q"),
        tool_result("c2", "2 failed\nAssertionError: 3 != 4\n[exit code 1]", is_error=True),
        tool_call("c3", "edit", path="src/parser.py"),
        tool_result("c3", "no match", is_error=True),
        assistant("I chose a table instead of ifs. Next I run the tests."),
        UserTurn((CommandBlock("compact", ("now",)),)),
    ]
    assert local_gist(history) == (
        "# Rules\n- Always run the tests first.\n\n"
        "# Requests\n- Fix the parser. Always run the tests first.\n\n"
        "# Errors\n- bash: AssertionError: 3 != 4\n- edit: no match\n\n"
        "# Files\n- src/parser.py (read)\n- src/parser.py (edit failed)\n\n"
        "# Commands\n- `pytest -q` -> exit 1\n- compact now\n\n"
        "# Decisions\n- I chose a table instead of ifs.\n\n"
        "# Open\n- I chose a table instead of ifs. Next I run the tests."
    )


def test_an_earlier_gist_is_carried_on() -> None:
    first = local_gist([user("Never touch main."), tool_call("c1", path="a.py"), tool_result("c1")])
    second = local_gist([user(f"{SUMMARY_HEADING}\n{first}"), user("And fix b.py")])
    assert second == (
        "# Rules\n- Never touch main.\n\n# Requests\n- Never touch main.\n- And fix b.py\n\n"
        "# Files\n- a.py (read)"
    )


def test_texts_of_the_host_are_not_requests() -> None:
    """A restored file adds nothing, the digest of another engine is carried on, else both are prompts."""
    history = [user("[file] a.py\nx = 1"), user("[digest]\n# Rules\n- be brief")]
    assert local_gist(history, kinds=["file", "summary"]) == "# Rules\n- be brief"
    assert local_gist(history) == "# Requests\n- [file] a.py x = 1\n- [digest] # Rules - be brief"


@pytest.mark.parametrize("max_tokens", [0, 20, 100, 1_000])
def test_it_is_bounded_and_keeps_first_and_newest(max_tokens: int) -> None:
    history = [user(f"request {i}: " + "please " * 20 + "never stop") for i in range(200)]
    gist = local_gist(history, max_tokens=max_tokens)
    assert len(gist) <= 4 * max_tokens
    if max_tokens >= 100:
        assert "request 0:" in gist
        assert gist == local_gist(history, max_tokens=max_tokens)
    if max_tokens == 1_000:
        assert "request 199:" in gist


def test_one_huge_paste_is_read_at_both_ends() -> None:
    gist = local_gist([user("Fix it. " + "x" * 5_000_000 + ". Never ask.")])
    assert gist.startswith("# Rules\n- Never ask.\n\n# Requests\n- Fix it. xxx")
