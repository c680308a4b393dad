"""The cost of messages, by the figures of the seed document and for any transcript; the budget."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_cards import card
from sidecar.llmgateway.contract import CommandBlock, ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from sidecar.llmgateway.contract import ToolResultBlock as Result
from sidecar.window_budget import (
    AUTO_CONDENSE_POLICY,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    BudgetPolicy,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    budget_limit,
    estimate_message_tokens,
    estimate_tokens,
    is_over_budget,
    prefix_tokens,
)
from sidecar.window_budget.estimate import chars_in, tokens_of_chars

IMAGE = ImageBlock("image/png", "A" * 9000)


def call(arguments: Any) -> AssistantMessage:
    return AssistantMessage((ToolCallBlock("1", "read", arguments),))


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        pytest.param(UserMessage("hello  \r\nworld \n", 1), 11, id="raw text is weighed, blanks included"),
        pytest.param(UserMessage((TextBlock("look"), IMAGE), 1), 1034, id="an image is flat"),
        pytest.param(UserMessage("   ", 1), 7, id="blank text is text"),
        pytest.param(
            AssistantMessage(
                (
                    ThinkingBlock("plan it"),
                    TextBlock("I will read"),
                    ToolCallBlock("1", "read", {"path": "a.py", "note": "é"}),
                )
            ),
            30,
            id="a raw é counts one character",
        ),
        pytest.param(AssistantMessage((TextBlock("  "),), "boom"), 8, id="the error message counts"),
        pytest.param(ToolResultMessage("1", "read", (TextBlock("file body"),)), 16, id="tool name counts"),
        pytest.param(ToolResultMessage("1", "bash", ()), 12, id="an empty result still costs framing"),
        pytest.param(BashExecutionMessage("ls -la", "out\n", 0), 9, id="the exit code is free"),
        pytest.param(BashExecutionMessage("sleep", ""), 8, id="command without output"),
        pytest.param(CustomMessage("kind", "custom text"), 10, id="the custom type is free"),
        pytest.param(CustomMessage("kind", ""), 6, id="empty custom"),
        pytest.param(BranchSummaryMessage("branch sum", "n1"), 9, id="branch summary"),
        pytest.param(CompactionSummaryMessage("comp sum", 99), 9, id="compaction summary"),
    ],
)
def test_the_estimates_of_the_seed_document(message: Message, tokens: int) -> None:
    assert estimate_message_tokens(message) == tokens


@pytest.mark.parametrize(
    "block", [Result("1", {"a": 1}), CommandBlock("clear", ("x",))], ids=["result", "command"]
)
def test_other_blocks_weigh_as_their_serialized_form(block: Result | CommandBlock) -> None:
    """A block the weights do not name is measured by what it would be as JSON."""
    bare = estimate_message_tokens(UserMessage((TextBlock(""),), 1))
    assert estimate_message_tokens(UserMessage((block,), 1)) > bare


def test_arguments_nested_too_deeply_to_print_still_weigh() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    assert estimate_message_tokens(call({"a": nested})) > 12


texts = st.text(max_size=60)
messages = st.lists(
    st.one_of(
        texts.map(UserMessage),
        texts.map(lambda text: AssistantMessage((TextBlock(text),))),
        texts.map(lambda text: ToolResultMessage("1", "read", (TextBlock(text),))),
    ),
    max_size=20,
)


@given(messages)
def test_prefix_sums_ascend_from_zero_to_the_total(transcript: list[Message]) -> None:
    before = prefix_tokens(transcript)
    assert before[0] == 0
    assert before[-1] == estimate_tokens(transcript)
    steps = [after - start for start, after in pairwise(before)]
    assert steps == [estimate_message_tokens(message) for message in transcript]


@given(st.integers(0, 10**7))
def test_characters_and_tokens_convert_without_overshoot(tokens: int) -> None:
    """As many characters as fit a number of tokens cost no more than those."""
    assert tokens_of_chars(chars_in(tokens)) <= tokens


@pytest.mark.parametrize(
    ("window", "policy", "limit"),
    [
        pytest.param(200_000, AUTO_CONDENSE_POLICY, 148_464.0, id="the default policy"),
        pytest.param(1000, AUTO_CONDENSE_POLICY, 0.0, id="a reserve above the window leaves nothing"),
        pytest.param(1000, BudgetPolicy(0.5, 1), 500.0, id="no reserve"),
    ],
)
def test_the_limit_is_a_share_of_the_window_less_the_reserve(
    window: int, policy: BudgetPolicy, limit: float
) -> None:
    """The window less the reserve, never below zero, times the ratio."""
    assert budget_limit(card(window), policy) == limit


def test_over_budget_means_strictly_over_the_limit() -> None:
    messages: list[Message] = [UserMessage("small"), UserMessage("ok")]
    at = BudgetPolicy(1.0, 1)
    total = estimate_tokens(messages)
    assert not is_over_budget(messages, card(total), at)
    assert is_over_budget(messages, card(total - 1), at)
