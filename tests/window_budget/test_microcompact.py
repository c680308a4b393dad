"""Blanking stale tool results."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.text.calls import NO_EFFECTS, READS_FILE
from sidecar.window_budget import (
    CLEARED_TOOL_RESULT,
    DEFAULT_KEEP_RECENT,
    AssistantMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    clear_stale_tool_results,
    compactable_tool_names,
)


def transcript(tools: str) -> list[Message]:
    """One pair for each word; ``-`` before a tool leaves the call out, ``!`` has the body cleared already."""
    out: list[Message] = [UserMessage("go", 1)]
    for number, word in enumerate(tools.split()):
        name = word.lstrip("-!")
        body = CLEARED_TOOL_RESULT if word.startswith("!") else f"body {number}"
        if not word.startswith("-"):
            out.append(AssistantMessage((ToolCallBlock(str(number), name, {}),)))
        out.append(ToolResultMessage(str(number), name, (TextBlock(body),), is_error=number == 1))
    return out


def cleared(messages: list[Message], keep: int) -> list[int] | None:
    """Return the numbers of the results that were blanked, having checked that nothing else changed."""
    after = clear_stale_tool_results(messages, keep)
    if after is None:
        return None
    numbers = []
    for was, now in zip(messages, after, strict=True):
        if was is now:
            continue
        assert isinstance(was, ToolResultMessage)
        expected = (TextBlock(CLEARED_TOOL_RESULT),)
        assert now == ToolResultMessage(was.tool_call_id, was.tool_name, expected, was.is_error)
        numbers.append(int(was.tool_call_id))
    return numbers


@pytest.mark.parametrize(
    ("tools", "keep", "expected"),
    [
        pytest.param("read " * 8, 6, [0, 1], id="all but the newest six"),
        pytest.param("read " * 6, 6, None, id="nothing stale, nothing returned"),
        pytest.param("read bash", 0, [0], id="at least one is kept"),
        pytest.param("read bash", -3, [0], id="whatever the number"),
        pytest.param("todo read memory read", 1, [1], id="control tools are let be"),
        pytest.param("-read read read", 1, [1], id="a result without its call is let be"),
        pytest.param("!read read read", 1, [1], id="blank already, and takes no slot"),
        pytest.param("read !read read", 1, [0], id="a blank one behind it takes no slot either"),
        pytest.param("", 6, None, id="no results"),
    ],
)
def test_all_but_the_newest_results_are_blanked(tools: str, keep: int, expected: list[int] | None) -> None:
    """Only bodies change, from the oldest on, never the newest compactable ones."""
    assert cleared(transcript(tools), keep) == expected


def test_an_id_used_again_belongs_to_the_nearest_call() -> None:
    """A control tool that reuses a reader's id is still a control tool."""
    messages: list[Message] = [
        AssistantMessage((ToolCallBlock("1", "read", {}),)),
        ToolResultMessage("1", "read", (TextBlock("file"),)),
        AssistantMessage((ToolCallBlock("1", "todo", {}),)),
        ToolResultMessage("1", "todo", (TextBlock("list"),)),
        AssistantMessage((ToolCallBlock("2", "read", {}),)),
        ToolResultMessage("2", "read", (TextBlock("file"),)),
    ]
    after = clear_stale_tool_results(messages, 1)
    assert after is not None
    assert [index for index, (was, now) in enumerate(zip(messages, after, strict=True)) if was != now] == [1]


def test_the_compactable_tools_are_those_whose_output_can_be_had_again() -> None:
    assert compactable_tool_names() == {
        "read",
        "grep",
        "find",
        "ls",
        "glob",
        "bash",
        "websearch",
        "webfetch",
        "edit",
        "write",
    }
    assert DEFAULT_KEEP_RECENT == 6
    own = {"view": READS_FILE, "ask": NO_EFFECTS, "bash": NO_EFFECTS}
    assert {"view"} == compactable_tool_names(own) - compactable_tool_names()
    assert {"bash"} == compactable_tool_names() - compactable_tool_names(own)
