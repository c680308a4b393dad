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
    FileRange,
    FreshText,
    Message,
    ModelDigest,
    RestoredFiles,
    ToolResultMessage,
    UserMessage,
    apply_plan,
    apply_without_digest,
    estimate_tokens,
    keep_unchanged,
    plan_compaction,
    preview_prompt,
    restore_planned_files,
)
from sidecar.window_budget.contract import CachedRequest
from sidecar.window_budget.digest_layout import parse_digest

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


def test_a_models_digest_is_kept_with_the_rules_it_dropped() -> None:
    """Header, rules, the model's words; then the files, then the kept messages."""
    files = {FileRange("a.py"): FreshText("now", "sha256:1", "disk")}
    found = restore_planned_files(plan(), files)
    result = apply_plan(MESSAGES, plan(), ModelDigest("# Plan\nport it"), found)
    digest, restored, *kept = result.messages
    assert isinstance(digest, UserMessage)
    assert str(digest.content).startswith(
        f"{DIGEST_HEADER}\n\n# Guardrails\n- Never push.\n\n# Plan\nport it"
    )
    assert (digest.timestamp, result.summary_source, result.fallback_reason) == (1, "model", None)
    assert restored == result.restored[0].message
    assert kept == MESSAGES[4:]
    assert result.tokens_after == estimate_tokens(result.messages) < result.tokens_before


def test_a_failed_or_oversized_digest_is_replaced_by_the_local_one() -> None:
    """With the reason."""
    failed = apply_plan(MESSAGES, plan(), ModelDigest(failure="refused"), RestoredFiles())
    assert (failed.summary_source, failed.fallback_reason) == ("localFallback", "refused")
    oversized = apply_plan(MESSAGES, plan(), ModelDigest("word " * 9000), RestoredFiles())
    assert (oversized.summary, oversized.fallback_reason) == (failed.summary, "tooLong")


def test_files_that_are_gone_are_named_in_the_digest() -> None:
    """Unless the note would be most of it."""
    gone = RestoredFiles(gone=((FileRange("a.py"), "deleted"),))
    result = apply_plan(MESSAGES, plan(), ModelDigest("# Plan"), gone)
    assert result.gone == ((FileRange("a.py"), "deleted"),)
    assert (result.summary or "").endswith("Not restored: a.py (deleted).")
    assert "Not restored" not in str(parse_digest(result.summary or "").prose), "it is not carried on"
    names = [FileRange(f"{'long' * 20}{number}.py") for number in range(99)]
    many = RestoredFiles(gone=tuple((name, "deleted") for name in names))
    assert "Not restored" not in (apply_plan(MESSAGES, plan(), ModelDigest("# Plan"), many).summary or "")


def test_an_input_that_stays_is_the_very_object() -> None:
    """Nothing dropped, nothing counted."""
    short = MESSAGES[4:]
    result = keep_unchanged(short, plan(short), "nothingToDrop")
    assert result.messages is short
    assert (result.noop, result.tokens_after, result.kept_count) == ("nothingToDrop", result.tokens_before, 1)
    assert preview_prompt(plan(short), REQUEST) is None


def test_a_plan_that_folds_nothing_needs_no_digest() -> None:
    """Its messages are the tail as it fits."""
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
