"""The bare condenser: gate, slice, summary."""

from __future__ import annotations

from sidecar.llmgateway.contract import CostSheet, ModelCard, TextBlock
from sidecar.window_budget import (
    AUTO_CONDENSE_POLICY,
    DIGEST_HEADER,
    AssistantMessage,
    BudgetPolicy,
    CompactionSummaryMessage,
    CondenserDeps,
    Message,
    UserMessage,
    condense,
    create_condenser,
)

CARD = ModelCard(
    "m",
    "mock",
    "mock",
    "M",
    context_window=4000,
    max_output_tokens=500,
    modalities=("text",),
    reasoning=False,
    cost=CostSheet(0, 0),
)
POLICY = BudgetPolicy(trigger_ratio=0.5, keep_recent=300)
LONG: list[Message] = [
    message
    for number in range(40)
    for message in (
        UserMessage(f"question {number}: {'why ' * 20}", number),
        AssistantMessage((TextBlock(f"answer {number}: {'so ' * 30}"),)),
    )
]


async def test_without_a_card_nothing_happens() -> None:
    """No window, no measure: the very same list comes back."""
    assert await create_condenser()(LONG) is LONG
    assert await create_condenser(CondenserDeps(policy=POLICY))(LONG) is LONG


async def test_under_budget_nothing_happens() -> None:
    """The very same list comes back."""
    short = LONG[:2]
    assert await create_condenser(CondenserDeps(card=CARD, policy=POLICY))(short) is short


async def test_nothing_condensable_nothing_happens() -> None:
    """Over budget, but the documented rule finds no cut."""
    huge: list[Message] = [UserMessage("small", 1), UserMessage("x" * 36_000, 1)]
    assert await create_condenser(CondenserDeps(card=CARD))(huge) is huge


async def test_over_budget_the_head_becomes_a_digest() -> None:
    """[digest, *tail], the tail the very same messages."""
    out = list(await create_condenser(CondenserDeps(card=CARD, policy=POLICY))(LONG))
    digest, *tail = out
    assert isinstance(digest, UserMessage)
    assert str(digest.content).startswith(f"{DIGEST_HEADER}\n\n# Carryover\n{len(LONG) - len(tail)} ")
    assert tail == LONG[-len(tail) :]
    assert 0 < len(tail) < len(LONG)


async def test_without_a_model_the_digest_still_says_what_happened() -> None:
    """Not a bare count: what was asked first and last is in it."""
    digest, *_ = await create_condenser(CondenserDeps(card=CARD, policy=POLICY))(LONG)
    assert isinstance(digest, UserMessage)
    assert "question 0: why why" in str(digest.content)


async def test_the_condenser_carries_an_earlier_digest_on() -> None:
    """On the second pass the first digest is carried, with or without its own role."""
    for earlier in (
        CompactionSummaryMessage("# Objective\nmove the mill", 900),
        UserMessage(f"{DIGEST_HEADER}\n\n# Objective\nmove the mill"),
    ):
        digest, *_ = await create_condenser(CondenserDeps(card=CARD, policy=POLICY))([earlier, *LONG])
        assert isinstance(digest, UserMessage)
        assert str(digest.content).count("move the mill") == 1


def test_the_default_policy_is_the_seeds() -> None:
    """Three quarters of the window, 6000 tokens of tail, 2048 of reserve."""
    assert BudgetPolicy(0.75, 6000, 2048) == AUTO_CONDENSE_POLICY


async def test_condense_pins_the_session_scope() -> None:
    """Also for an empty slice."""
    summary = await condense([])
    assert summary.covered_count == 0
    assert summary.message == UserMessage(
        f"{DIGEST_HEADER}\n\n# Carryover\n0 earlier messages condensed without a model.", 0
    )
