"""Where a transcript may be divided: pairs whole, in parallel batches and out of order too."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.llmgateway.contract import ToolResultBlock as Result
from sidecar.window_budget import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    PrefixMeter,
    ToolResultMessage,
    UserMessage,
    safe_cut,
)
from sidecar.window_budget.cut import has_open_calls


def transcript(words: str) -> list[Message]:
    """u prompt, a reply, b command, cXY calls X and Y, rX the result of X, nX a user message nesting that."""
    return [message(word) for word in words.split()]


def message(word: str) -> Message:
    match word[0]:
        case "u":
            return UserMessage("go")
        case "a":
            return AssistantMessage((TextBlock("ok"),))
        case "b":
            return BashExecutionMessage("ls", "", 0)
        case "c":
            return AssistantMessage(tuple(ToolCallBlock(key, "read", {}) for key in word[1:]))
        case "n":
            return UserMessage((Result(word[1:], "out"),))
        case _:
            return ToolResultMessage(word[1:], "read", (TextBlock("out"),))


def check(words: str, *, start: int, cut: int) -> None:
    messages = transcript(words)
    assert safe_cut(messages, PrefixMeter().extend(messages), start) == cut


@pytest.mark.parametrize(
    ("words", "start", "cut"),
    [
        pytest.param("u a u a", 2, 2, id="a prompt may begin a tail"),
        pytest.param("u a u a", 4, 3, id="past the end: the newest message"),
        pytest.param("u c1 r1 a", 2, 3, id="forward past a result"),
        pytest.param("u c1 r1", 3, 1, id="back to the call when nothing follows"),
        pytest.param("u c12 r1 r2 a", 2, 4, id="a parallel batch is one piece"),
        pytest.param("u c12 r2 r1 a", 3, 4, id="whatever the order of its results"),
        pytest.param("u c12 r1 u r2 a", 3, 5, id="a steering prompt inside a batch begins no tail"),
        pytest.param("u c12 r1 u r2", 3, 1, id="nor when the batch is the newest"),
        pytest.param("u c1 r1 u c1 r1 a", 3, 3, id="an id used again belongs to the nearest call"),
        pytest.param("u a r9 a", 3, 3, id="an orphan result holds nothing together"),
        pytest.param("u a n9 a u", 2, 2, id="nor does a nested one"),
        pytest.param("u c1 n1 a", 2, 3, id="a nested result stays with its call"),
        pytest.param("u a c12 r1 b b", 5, 2, id="calls still open keep what follows"),
        pytest.param("u a c12 r1 u", 4, 4, id="a prompt ends the wait for them"),
        pytest.param("u a c1", 2, 2, id="an open call may begin the tail"),
        pytest.param("u", 0, 0, id="one message cannot be divided"),
        pytest.param("", 0, 0, id="nothing cannot be divided"),
        pytest.param("c1 r1", 1, 0, id="nor can one pair"),
    ],
)
def test_a_safe_cut_keeps_calls_and_results_together(words: str, start: int, cut: int) -> None:
    """The least safe index at or behind the start, else the greatest before it, else none."""
    check(words, start=start, cut=cut)


@pytest.mark.parametrize(
    ("words", "is_open"),
    [
        ("u c1", True),
        ("u c12 r1", True),
        ("u c1 r1", False),
        ("u c1 u", False),
        ("u c1 a", False),
        ("", False),
    ],
)
def test_only_the_newest_reply_waits_for_results(words: str, is_open: bool) -> None:
    """Only the newest reply waits, and only until a prompt comes."""
    assert has_open_calls(transcript(words)) is is_open
