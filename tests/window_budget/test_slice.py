"""Gate and slice: limits, cuts, and the boundary of a forced condense."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import CostSheet, ModelCard, TextBlock, ToolCallBlock
from sidecar.window_budget import (
    AUTO_CONDENSE_POLICY,
    DIGEST_HEADER,
    RESTORED_FILE_PREFIX,
    AssistantMessage,
    BudgetPolicy,
    CompactionSummaryMessage,
    CondensePlan,
    Message,
    ToolResultMessage,
    UserMessage,
    budget_limit,
    estimate_tokens,
    is_over_budget,
    last_user_turn_start,
    plan_slice,
)

HUGE = "x" * 36_000


def card(window: int) -> ModelCard:
    return ModelCard(
        "m",
        "mock",
        "mock",
        "M",
        context_window=window,
        max_output_tokens=1,
        modalities=("text",),
        reasoning=False,
        cost=CostSheet(0, 0),
    )


def transcript(kinds: str) -> list[Message]:
    """u user, U huge user, a assistant, c call, t result, T huge result."""
    made: dict[str, Message] = {
        "u": UserMessage("small", 1),
        "U": UserMessage(HUGE, 1),
        "a": AssistantMessage((TextBlock("ok"),)),
        "c": AssistantMessage((ToolCallBlock("1", "read", {"path": "a.py"}),)),
        "t": ToolResultMessage("1", "read", (TextBlock("body"),)),
        "T": ToolResultMessage("1", "read", (TextBlock(HUGE),)),
    }
    return [made[kind] for kind in kinds]


def check(kinds: str, *, keep: int, cut: int) -> None:
    messages = transcript(kinds)
    plan = plan_slice(messages, BudgetPolicy(0.75, keep))
    assert plan == CondensePlan(cut, kept=tuple(messages[cut:]), dropped=tuple(messages[:cut]))


@pytest.mark.parametrize(
    ("kinds", "keep", "cut"),
    [
        pytest.param("", 6000, 0, id="nothing to cut"),
        pytest.param("ua", 6000, 0, id="everything fits the tail"),
        pytest.param("U", 6000, 0, id="one huge message"),
        pytest.param("Uu", 6000, 1, id="the huge one goes"),
        pytest.param("uU", 6000, 0, id="the documented rule declines a huge newest message"),
        pytest.param("uaua", 0, 0, id="no tail at all, no cut"),
        pytest.param("ucT", 6000, 0, id="a huge newest result stays with its call, so nothing goes"),
        pytest.param("ucTu", 6000, 3, id="the tail never begins with a tool result"),
        pytest.param("uctu", 24, 3, id="snaps forward past the result"),
    ],
)
def test_a_slice_keeps_the_recent_tail_and_snaps_past_results(kinds: str, keep: int, cut: int) -> None:
    """The lower bound of total - keep, then forward past results; nothing left means no cut."""
    check(kinds, keep=keep, cut=cut)


@pytest.mark.parametrize(
    ("kinds", "index"),
    [("", None), ("a", None), ("ua", 0), ("uaua", 2), ("uact", 0), ("uau", 2)],
    ids=["empty", "no user", "first", "last", "tool loop", "at the end"],
)
def test_the_last_turn_starts_at_the_newest_prompt(kinds: str, index: int | None) -> None:
    """The newest user message, wherever it stands."""
    assert last_user_turn_start(transcript(kinds)) == index


def test_what_is_filed_under_the_user_is_no_prompt() -> None:
    """Digests and restored files do not move the boundary of a forced condense."""
    filed: list[Message] = [
        UserMessage("do it", 1),
        CompactionSummaryMessage("digest", 1),
        UserMessage(f"{DIGEST_HEADER}\n\n# Plan", 1),
        UserMessage((TextBlock(f"{RESTORED_FILE_PREFIX} a.py\nbody"),), 1),
    ]
    assert last_user_turn_start(filed) == 0


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
    """At the limit is not over it."""
    messages = transcript("uaua")
    at = BudgetPolicy(1.0, 1)
    total = estimate_tokens(messages)
    assert not is_over_budget(messages, card(total), at)
    assert is_over_budget(messages, card(total - 1), at)
