"""What a compaction would do, and why it would do nothing."""

from __future__ import annotations

import pytest

from model_cards import card
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.window_budget import (
    DIGEST_HEADER,
    AssistantMessage,
    BudgetPolicy,
    BudgetRequest,
    FileRange,
    Message,
    TokenEstimate,
    ToolResultMessage,
    Transcript,
    UserMessage,
    estimate_tokens,
    plan_compaction,
    read_meter,
)
from sidecar.window_budget.plan import MIN_DIGEST_TOKENS

POLICY = BudgetPolicy(trigger_ratio=0.75, keep_recent=500)


def transcript(words: str) -> list[Message]:
    """Of 100 tokens: ``u100`` a prompt, ``a100`` a reply, ``t100`` a read and result, ``d100`` a digest."""
    out: list[Message] = []
    for number, word in enumerate(words.split()):
        text = f"{number} " + "word " * (int(word[1:] or 0) * 36 // 50)
        match word[0]:
            case "u":
                out.append(UserMessage(text, number))
            case "a":
                out.append(AssistantMessage((TextBlock(text),)))
            case "d":
                out.append(UserMessage(f"{DIGEST_HEADER}\n\n# Plan\n{text}"))
            case _:
                call = ToolCallBlock(str(number), "read", {"path": f"f{number}.py"})
                out += [AssistantMessage((call,)), ToolResultMessage(str(number), "read", (TextBlock(text),))]
    return out


def options(
    window: int | None = 4000, *, force: bool = False, context: int = 0, overhead: int = 0
) -> BudgetRequest:
    return BudgetRequest(
        force=force,
        context_tokens=context,
        overhead_tokens=overhead,
        policy=POLICY,
        card=card(window) if window else None,
    )


@pytest.mark.parametrize(
    ("words", "asked", "reason"),
    [
        pytest.param("u100 a100", options(), "underBudget", id="under budget"),
        pytest.param("u9000", options(None), "noWindow", id="no card, no window to be over"),
        pytest.param("u900 a9000", options(overhead=2900), "overheadTooLarge", id="overhead fills it"),
        pytest.param("u100 a100", options(None, force=True), "nothingToDrop", id="one small turn"),
        pytest.param("", options(None, force=True), "nothingToDrop", id="nothing at all"),
        pytest.param("d900 u100 a100", options(None, force=True), "nothingToDrop", id="only a digest"),
        pytest.param("u5 a5 u5", options(None, force=True), "wouldNotShrink", id="less than a digest"),
    ],
)
def test_a_plan_that_does_nothing_says_why(words: str, asked: BudgetRequest, reason: str) -> None:
    messages = transcript(words)
    plan = plan_compaction(messages, asked)
    assert (plan.noop, plan.cut, plan.dropped_count, plan.dropped_tokens) == (reason, 0, 0, 0)
    assert plan.tokens_before == estimate_tokens(messages)


@pytest.mark.parametrize(
    ("words", "asked", "cut", "kept"),
    [
        pytest.param("u900 a900 u900 a300 u150", options(), 3, [3, 4], id="by tokens"),
        pytest.param("u900 a900 u900 a400 a400", options(), 4, [2, 4], id="the newest prompt is carried"),
        pytest.param("u900 a900 u900 a900", options(), 3, [2, 3], id="an oversized newest message is kept"),
        pytest.param("u900 a900 u100 t2000", options(), 3, [2, 3, 4], id="so is an oversized newest group"),
        pytest.param("u100 a100 u100 a100", options(force=True), 2, [2, 3], id="forced: at the prompt"),
        pytest.param("u100 t90 t90 t90 t90 t90 t90", options(None, force=True), 5, [0, *range(5, 13)],
                     id="forced with one long turn: inside it"),
        pytest.param("d100 u100 t900 t900 t900 t100", options(None, force=True), 8, [1, 8, 9],
                     id="forced with only a digest before it: inside it"),
        pytest.param("u50 a50 u100 t900 t900 t900 t100", options(None, force=True), 9, [2, 9, 10],
                     id="forced with a newest turn too long to keep: inside it"),
        pytest.param("u900 a900 u900 a2000", options(3000), 4, [2], id="a reply above the room goes"),
    ],
)  # fmt: skip
def test_the_tail_begins_at_a_safe_cut(words: str, asked: BudgetRequest, cut: int, kept: list[int]) -> None:
    plan = plan_compaction(transcript(words), asked)
    assert (plan.noop, plan.cut, list(plan.kept)) == (None, cut, kept)
    assert plan.prompt_index == (kept[0] if kept[0] < cut else None)


def test_a_plan_adds_up() -> None:
    messages = transcript("u900 t300 t900 t900 u20 a300")
    plan = plan_compaction(messages, options())
    assert (plan.cut, plan.dropped_count, len(plan.kept)) == (7, 7, 2)
    assert plan.dropped_tokens == estimate_tokens(messages[:7])
    assert plan.tail.tokens == estimate_tokens(messages[7:])
    assert [candidate.file for candidate in plan.candidates] == [FileRange(f"f{n}.py") for n in (3, 2, 1)]
    assert plan.digest_tokens == 660, "its share of the room"
    assert plan.files_tokens == 450


def test_files_leave_a_long_digest_its_room() -> None:
    """As much again as it was planned with; of a little that is new they take no more than half."""
    large = plan_compaction(transcript("u50 t3000 t1500 u20 a20"), options(None, force=True))
    left = large.tokens_before - 1 - large.tail.tokens - large.digest_tokens
    assert large.digest_tokens == 800
    assert large.files_tokens == left - large.digest_tokens
    small = plan_compaction(transcript("u50 t900 u20 a20"), options(None, force=True))
    left = small.tokens_before - 1 - small.tail.tokens - small.digest_tokens
    assert small.files_tokens == left // 2


def test_a_digest_may_be_as_large_as_the_one_it_carries_and_half_of_what_is_new() -> None:
    small = plan_compaction(transcript("u100 a100 u100"), options(None, force=True))
    assert 90 <= small.digest_tokens <= 110
    carrying = plan_compaction(transcript("d600 u100 a100 u100"), options(None, force=True))
    assert 690 <= carrying.digest_tokens <= 740
    tiny = plan_compaction(transcript("u60 a2 u100"), options(None, force=True))
    assert tiny.digest_tokens == MIN_DIGEST_TOKENS


@pytest.mark.parametrize(
    ("asked", "room", "is_over"),
    [
        pytest.param(options(), 3000, False, id="by estimate"),
        pytest.param(options(overhead=500), 2500, False, id="the overhead counts"),
        pytest.param(options(context=3100), 1461, True, id="the provider's larger figure counts"),
        pytest.param(options(context=90_000), 750, True, id="but does not shrink the room for ever"),
        pytest.param(options(context=10), 3000, False, id="a smaller one does not"),
        pytest.param(options(overhead=2900), None, True, id="no room left"),
    ],
)
def test_the_meter_reads_estimate_occupancy_and_overhead(
    asked: BudgetRequest, room: int | None, is_over: bool
) -> None:
    messages = transcript("u500 a500 a489")
    total = estimate_tokens(messages)
    gate = read_meter(messages, asked)
    tokens = max(total + asked.overhead_tokens, asked.context_tokens)
    assert gate.estimate == TokenEstimate(tokens, 4000, anchored=asked.context_tokens > total)
    assert (gate.limit, gate.room, gate.is_over, gate.message_tokens) == (3000.0, room, is_over, total)
    assert gate == read_meter(Transcript.of(messages), asked)
