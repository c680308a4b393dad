"""The code examples of the seed, their import root changed, run as they stand."""

from __future__ import annotations

from collections.abc import AsyncIterator

from model_cards import card
from sidecar.llmgateway.contract import (
    Conversation,
    DoneEmission,
    Emission,
    Reply,
    StreamOptions,
    TextBlock,
    Usage,
)
from sidecar.window_budget import (
    AUTO_CONDENSE_POLICY,
    DEFAULT_KEEP_RECENT,
    AssistantMessage,
    BudgetPolicy,
    CondenserDeps,
    Message,
    RehydrateOpts,
    SummarizeDeps,
    UserMessage,
    budget_limit,
    clear_stale_tool_results,
    condense_scope,
    create_condenser,
    estimate_tokens,
    is_over_budget,
    plan_slice,
    rehydrate_recent_reads,
)

MY_CARD = card(32_000, 4096)
LONG_TRANSCRIPT: list[Message] = [
    message
    for number in range(60)
    for message in (
        UserMessage(f"question {number} " + "why " * 400, number),
        AssistantMessage((TextBlock(f"answer {number} " + "so " * 400),)),
    )
]


async def scripted_model(conversation: Conversation, options: StreamOptions) -> AsyncIterator[Emission]:
    reply = Reply("m", (TextBlock("# Objective\nanswer questions"),), Usage(10, 3), "complete")
    yield DoneEmission(reply)


async def test_build_a_network_free_condenser() -> None:
    condenser = create_condenser(CondenserDeps())
    out = await condenser(LONG_TRANSCRIPT)
    assert out is LONG_TRANSCRIPT


async def test_drive_the_summary_path_with_a_scripted_model() -> None:
    condenser = create_condenser(
        CondenserDeps(invoke=scripted_model, card=MY_CARD, policy=AUTO_CONDENSE_POLICY)
    )
    digest, *tail = await condenser(LONG_TRANSCRIPT)
    assert digest == UserMessage(
        "[session digest — older turns condensed]\n\n# Objective\nanswer questions", timestamp=52
    )
    assert tail == LONG_TRANSCRIPT[-len(tail) :]


def test_use_the_budget_math_directly() -> None:
    assert BudgetPolicy(0.75, 6000, 2048) == AUTO_CONDENSE_POLICY
    limit = budget_limit(MY_CARD, AUTO_CONDENSE_POLICY)
    assert estimate_tokens(LONG_TRANSCRIPT) > limit == (32_000 - 2048) * 0.75
    assert is_over_budget(LONG_TRANSCRIPT, MY_CARD, AUTO_CONDENSE_POLICY)
    plan = plan_slice(LONG_TRANSCRIPT, AUTO_CONDENSE_POLICY)
    assert [*plan.dropped, *plan.kept] == LONG_TRANSCRIPT
    assert plan.dropped == tuple(LONG_TRANSCRIPT[: plan.cut])
    assert estimate_tokens(plan.kept) <= 6000


async def test_branch_archival_via_the_scope_wrapper() -> None:
    summary = await condense_scope(LONG_TRANSCRIPT, SummarizeDeps(invoke=scripted_model))
    assert isinstance(summary.message, UserMessage)
    assert str(summary.message.content).startswith("[branch digest — archived from a path not taken]")
    assert summary.covered_count == 120


def test_microcompact_and_rehydrate() -> None:
    """Nothing to clear, nothing to restore: the input, and nothing."""
    messages = LONG_TRANSCRIPT
    lighter = clear_stale_tool_results(messages, DEFAULT_KEEP_RECENT) or messages
    assert lighter is messages
    plan = plan_slice(messages, AUTO_CONDENSE_POLICY)
    assert rehydrate_recent_reads(plan.dropped, plan.kept, RehydrateOpts()) == ()
    assert RehydrateOpts() == RehydrateOpts(max_files=5, token_budget=8000, read_tool_name="read")
