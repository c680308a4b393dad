"""The outcome of a plan: its digest, its files, and when the input stays as it is."""

from __future__ import annotations

import pytest

from model_cards import card
from sidecar.llmgateway.contract import Conversation, TextBlock, ToolCallBlock
from sidecar.window_budget import (
    DIGEST_HEADER,
    AssistantMessage,
    BudgetPlan,
    BudgetRequest,
    Message,
    ModelDigest,
    ToolResultMessage,
    UserMessage,
    apply_plan,
    apply_without_digest,
    estimate_tokens,
    keep_unchanged,
    plan_compaction,
    preview_prompt,
)
from sidecar.window_budget.contract import CachedRequest

REQUEST = BudgetRequest(force=True)
MESSAGES: list[Message] = [
    UserMessage("Port the importer. Never push.", 1),
    AssistantMessage((ToolCallBlock("1", "read", {"path": "a.py"}),)),
    ToolResultMessage("1", "read", (TextBlock("line\n" * 200),)),
    AssistantMessage((TextBlock("word " * 900),)),
    UserMessage("go on", 2),
]


def plan(messages: list[Message] = MESSAGES) -> BudgetPlan:
    return plan_compaction(messages, REQUEST)


def test_a_models_digest_stands_before_the_files_and_the_kept_messages() -> None:
    """Header and the model's words; then the files, then the kept messages."""
    result = apply_plan(MESSAGES, plan(), ModelDigest("# Plan\nport it"))
    digest, restored, *kept = result.messages
    assert digest == UserMessage(f"{DIGEST_HEADER}\n\n# Plan\nport it", 1)
    assert (result.summary_source, result.fallback_reason) == ("model", None)
    assert result.restored == (restored,)
    assert kept == MESSAGES[4:]
    assert result.tokens_after == estimate_tokens(result.messages) < result.tokens_before


def test_a_failed_or_oversized_digest_is_replaced_by_the_local_one() -> None:
    failed = apply_plan(MESSAGES, plan(), ModelDigest(failure="refused"))
    assert (failed.summary_source, failed.fallback_reason) == ("localFallback", "refused")
    oversized = apply_plan(MESSAGES, plan(), ModelDigest("word " * 9000))
    assert (oversized.summary, oversized.fallback_reason) == (failed.summary, "tooLong")
    assert failed.summary == "# Carryover\n4 earlier messages condensed without a model."


def test_an_input_that_stays_is_the_very_object() -> None:
    short = MESSAGES[4:]
    result = keep_unchanged(short, plan(short), "nothingToDrop")
    assert result.messages is short
    assert (result.noop, result.tokens_after, result.kept_count) == ("nothingToDrop", result.tokens_before, 1)
    assert preview_prompt(plan(short), REQUEST) is None


def test_a_plan_that_folds_nothing_needs_no_digest() -> None:
    found = plan()
    assert apply_without_digest(found).messages == found.tail.messages


@pytest.mark.parametrize(
    ("window", "used", "is_behind"),
    [
        pytest.param(200_000, 100_000, True, id="with room for the request and its answer"),
        pytest.param(200_000, 199_000, False, id="without room for the answer"),
    ],
)
def test_a_digest_is_requested_behind_the_conversation_where_that_fits(
    window: int, used: int, is_behind: bool
) -> None:
    request = BudgetRequest(
        force=True,
        card=card(window),
        context_tokens=used,
        instructions="Stress the lexer.",
        cached=CachedRequest(Conversation(())),
    )
    prompt = preview_prompt(plan_compaction(MESSAGES, request), request)
    assert ("<scrollback>" not in (prompt or "")) is is_behind
    assert (prompt or "").endswith("# Carryover\n\nThe user asks of this digest:\nStress the lexer.")
