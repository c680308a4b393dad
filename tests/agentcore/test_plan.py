"""The shares of a window, the places where a history may be cut, and the plan of a compaction."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agentcore.estimate import estimate_tokens
from sidecar.agentcore.messages import AgentMessage, Message, call_block, text_message, tool_message
from sidecar.agentcore.plan import (
    Budget,
    CutPlan,
    cut_index,
    find_turn_start,
    fit_budget,
    plan_compaction,
    tail_starts,
)

BUDGETS = {
    "defaults": (128_000, 0, 0, Budget(128_000, 16384, 111_616, 20_000)),
    "less than 0: defaults": (128_000, -1, -5, Budget(128_000, 16384, 111_616, 20_000)),
    "two tails just fit: as given": (56_384, 0, 0, Budget(56_384, 16384, 40_000, 20_000)),
    "own figures that fit are kept": (1000, 200, 100, Budget(1000, 200, 800, 100)),
    "36k: 13 % and a quarter": (36_000, 0, 0, Budget(36_000, 4680, 31_320, 7830)),
    "32k": (32_000, 0, 0, Budget(32_000, 4160, 27_840, 6960)),
    "16k: the reserve's floor": (16_384, 0, 0, Budget(16_384, 4096, 12_288, 3072)),
    "8k: the tail's floor": (8192, 0, 0, Budget(8192, 4096, 4096, 2000)),
    "4k: half is the reserve, half of the rest tail": (4096, 0, 0, Budget(4096, 2048, 2048, 1024)),
    "a chosen reserve that leaves nothing stays": (1000, 1000, 50, Budget(1000, 1000, 0, 0)),
    "no window": (0, 0, 0, Budget(0, 0, 0, 0)),
}


@pytest.mark.parametrize(("window", "reserve", "keep", "expected"), BUDGETS.values(), ids=BUDGETS)
def test_shares_scale_with_small_windows(window: int, reserve: int, keep: int, expected: Budget) -> None:
    assert fit_budget(window, reserve, keep) == expected


def test_answers_may_be_as_long_as_their_share_of_the_reserve() -> None:
    budget = fit_budget(128_000)
    assert (budget.history_max, budget.prefix_max) == (13107, 8192)


@given(st.integers(8000, 300_000), st.integers(0, 40_000), st.integers(0, 60_000))
def test_a_view_of_tail_and_summary_fits_at_every_window(window: int, reserve: int, keep: int) -> None:
    budget = fit_budget(window, reserve, keep)
    if budget.threshold > 0:
        assert budget.keep <= budget.threshold // 2
        assert budget.keep + budget.summary_floor <= budget.soft <= budget.threshold
        assert budget.hard + budget.summary_floor == budget.threshold


@pytest.mark.parametrize(
    ("overhead", "threshold", "keep"),
    [
        pytest.param(0, 111_616, 20_000, id="none"),
        pytest.param(50_000, 61_616, 20_000, id="the threshold pays"),
        pytest.param(80_000, 31_616, 15_808, id="then the tail"),
        pytest.param(200_000, 27_904, 13_952, id="a quarter stays the messages'"),
    ],
)
def test_overhead_narrows_the_budget(overhead: int, threshold: int, keep: int) -> None:
    narrowed = fit_budget(128_000).narrow(overhead)
    assert (narrowed.threshold, narrowed.keep) == (threshold, keep)


NO_LIMIT = 10**9
Draw = Callable[..., list[AgentMessage]]


def cut(messages: list[AgentMessage], keep: int) -> tuple[int, int]:
    """Return (cut, start of the split turn or -1)."""
    before = list(accumulate(map(estimate_tokens, messages), initial=0))
    index = cut_index(before, tail_starts(messages), keep, NO_LIMIT)
    return index, find_turn_start(messages, index) if index else -1


@pytest.mark.parametrize(
    ("letters", "keep", "expected"),
    [
        pytest.param("uaua", 1, (3, 2), id="split, the turn starts at 2"),
        pytest.param("ucta", 1, (3, 0), id="a plain assistant may begin the tail"),
        pytest.param("uctu", 2, (1, 0), id="the tail has at least keep tokens, so the pair stays"),
        pytest.param("uau", 1, (2, -1), id="a user's message splits nothing"),
        pytest.param("aaaa", 2, (2, -1), id="no user in front, not split"),
        pytest.param("ua", 3, (0, -1), id="never reached, no cut"),
        pytest.param("ua", 2, (0, -1), id="index 0 is no cut"),
        pytest.param("sua", 2, (1, -1), id="a system message may be dropped"),
    ],
)
def test_where_the_tail_begins(draw: Draw, letters: str, keep: int, expected: tuple[int, int]) -> None:
    assert cut(draw(letters, 10), keep * 10) == expected


def loop(n: int) -> list[AgentMessage]:
    """A user's message and n calls of 400 bytes with results of 4000."""
    messages: list[AgentMessage] = [text_message("user", "go")]
    for i in range(n):
        messages.append(Message("assistant", (call_block(str(i), "tool", "x" * 396),)))
        messages.append(tool_message(str(i), "y" * 4000))
    return messages


def test_a_tail_of_calls_and_results_is_cut() -> None:
    """The documented rule finds no cut here, or the answer alone; ours keeps 19 pairs of 1100 tokens."""
    assert cut(loop(200), 20_000) == (401 - 2 * 19, 0)
    assert cut([*loop(200), text_message("assistant", "done")], 20_000) == (401 - 2 * 19, 0)


def calls(*ids: str) -> Message:
    return Message("assistant", tuple(call_block(call_id, "ls") for call_id in ids))


USER = text_message("user", "u")


PAIRS = {
    "a batch": ([calls("1", "2"), tool_message("2", ""), tool_message("1", ""), USER], "T..T"),
    "a result that came late": ([calls("1"), USER, tool_message("1", ""), USER], "T..T"),
    "a call without result holds nothing": ([calls("1"), USER, USER], "TTT"),
    "no tail begins with a stray result": ([tool_message("9", ""), USER], ".T"),
    "an id again: the newest call": ([calls("1"), calls("1"), tool_message("1", "")], "TT."),
    "answered twice": ([calls("1"), tool_message("1", ""), tool_message("1", ""), USER], "T..T"),
}


@pytest.mark.parametrize(("messages", "expected"), PAIRS.values(), ids=PAIRS)
def test_pairs_stay_whole(messages: list[AgentMessage], expected: str) -> None:
    assert "".join("T" if start else "." for start in tail_starts(messages)) == expected


@pytest.mark.parametrize(
    ("costs", "room", "pinned", "expected"),
    [
        pytest.param([10, 10, 90, 10, 10], 100, -1, 3, id="what does not fit the room is skipped"),
        pytest.param([10, 10, 90, 10, 10], 110, -1, 2, id="what fits is kept"),
        pytest.param([10, 10, 10, 10, 10], 5, -1, 4, id="nothing fits: the last place"),
        pytest.param([50, 10, 10, 10, 10], 80, 0, 2, id="a pinned prompt takes its part of the room"),
        pytest.param([50, 10, 10, 10, 10], 200, 0, 2, id="and costs nothing where there is room"),
    ],
)
def test_the_tail_fits_its_room(costs: list[int], room: int, pinned: int, expected: int) -> None:
    before = list(accumulate(costs, initial=0))
    assert cut_index(before, [True] * len(costs), 25, room, pinned) == expected


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=30), st.integers(1, 100))
def test_the_cut_is_the_latest_that_keeps_enough(items: list[tuple[int, bool]], keep: int) -> None:
    before = list(accumulate((cost for cost, _ in items), initial=0))
    may_start = [start for _, start in items]
    index = cut_index(before, may_start, keep, NO_LIMIT)
    allowed = [i for i in range(len(items)) if may_start[i] and before[-1] - before[i] >= keep]
    assert index == max(allowed, default=0)


SMALL = fit_budget(1000, 200, 100)
"""Threshold 800, tail 100, a fresh view under 700 of which a summary has 100 at least."""


def planned(messages: list[AgentMessage]) -> CutPlan:
    plan = plan_compaction(messages, SMALL)
    assert plan is not None
    return plan


def outline(plan: CutPlan | None) -> tuple[int, int, int] | None:
    return None if plan is None else (plan.cut, plan.turn_start, plan.pinned)


PLANS = {
    "a view at the threshold is left alone": ("ua" * 40, None),
    "over it: the last turns stay": ("ua" * 41, (72, -1, -1)),
    "a tail takes the prompt of its first answer along": ("ua" * 40 + "u", (70, -1, -1)),
    "a tool loop compacts, its prompt is pinned": ("u" + "ct" * 45, (81, 0, 0)),
    "and again, behind a summary": ("Su" + "ct" * 45, (82, 1, 1)),
    "a split turn": ("ua" * 20 + "u" + "a" * 45, (76, 40, 40)),
    "only the newest prompt is pinned": ("ua" * 20 + "u" + "a" * 8 + "u" + "a" * 35, (75, 49, 49)),
    "aborted messages weigh nothing": ("x" * 200 + "ua" * 40, None),
}


@pytest.mark.parametrize(("letters", "expected"), PLANS.values(), ids=PLANS)
def test_where_the_plan_cuts(draw: Draw, letters: str, expected: tuple[int, int, int] | None) -> None:
    assert outline(plan_compaction(draw(letters), SMALL)) == expected


def test_counts_and_tokens_of_a_plan(draw: Draw) -> None:
    plan = plan_compaction(draw("Su" + "ct" * 45), SMALL)
    assert plan == CutPlan(
        cut=82,
        turn_start=1,
        pinned=1,
        shrink=(),
        dropped_count=81,
        dropped_tokens=810,
        kept_count=11,
        kept_tokens=110,
        summary_tokens=590,
        tokens_before=920,
        is_incremental=True,
    )
    assert (plan.is_split_turn, plan.kept_tokens + plan.summary_tokens) == (True, 700)


def of_size(*tokens: int) -> list[AgentMessage]:
    """A user's message, then assistant messages, of so many tokens."""
    roles = ["user", *["assistant"] * (len(tokens) - 1)]
    return [
        text_message("user" if role == "user" else "assistant", "x" * 4 * n)
        for role, n in zip(roles, tokens, strict=True)
    ]


OVERSIZED = {
    "an item larger than the window: half the threshold": (of_size(10, 5000), ((1, 400),), 410),
    "even the newest prompt": (of_size(5000), ((0, 400),), 400),
    "a lone turn: the answer pays, not the prompt": (of_size(300, 600), ((1, 500),), 800),
    "a prompt pays last, when nothing else is left": (of_size(690, 300), ((0, 600), (1, 200)), 800),
}


@pytest.mark.parametrize(("messages", "shrink", "kept"), OVERSIZED.values(), ids=OVERSIZED)
def test_oversized_items_are_shrunk_without_a_model(
    messages: list[AgentMessage], shrink: tuple[tuple[int, int], ...], kept: int
) -> None:
    plan = planned(messages)
    assert (plan.cut, plan.shrink, plan.kept_tokens) == (0, shrink, kept)


def test_too_little_to_condense_is_no_reason_to_stay_over_the_threshold(draw: Draw) -> None:
    plan = planned([*draw("u", 5), *draw("ua", 450)])
    assert (plan.cut, plan.shrink) == (0, ((2, 345),))


def test_two_oversized_items_are_not_both_kept() -> None:
    """Cut to half the threshold each they would still be too much: the older one is condensed."""
    plan = plan_compaction(of_size(10, 5000, 5000), SMALL)
    assert outline(plan) == (2, 0, 0)
    assert plan is not None
    assert plan.shrink == ((2, 400),)


def test_a_batch_larger_than_the_window_keeps_its_pairs_and_is_shrunk(draw: Draw) -> None:
    messages = [*draw("ua" * 10), *draw("uct", 600)]
    plan = planned(messages)
    assert (plan.cut, plan.kept_tokens) == (20, SMALL.hard)
    assert plan.shrink == ((20, 526), (21, 87), (22, 87))


def test_a_prompt_too_large_to_be_carried_is_cut(draw: Draw) -> None:
    """Three quarters of the threshold are carried whole, more is cut to a half of it."""
    whole = planned([*draw("ua" * 10), *draw("u", 600), *draw("ct" * 10)])
    assert (whole.pinned, whole.shrink) == (20, ())
    cut = planned([*draw("ua" * 10), *draw("u", 601), *draw("ct" * 10)])
    assert (cut.pinned, cut.shrink) == (20, ((20, 400),))


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        pytest.param("ua" * 10, (14, -1, -1), id="a quarter stays"),
        pytest.param("u" + "ct" * 10, (15, 0, 0), id="a running turn is split"),
        pytest.param("Sua", None, id="nothing new behind the summary"),
        pytest.param("u", None, id="a lone prompt"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_force_compacts_what_fits(draw: Draw, letters: str, expected: tuple[int, int, int] | None) -> None:
    assert outline(plan_compaction(draw(letters), SMALL, force=True)) == expected


def test_a_summary_alone_is_not_summarised_again(draw: Draw) -> None:
    assert plan_compaction([*draw("S", 500), *draw("uct", 99)], SMALL) is None
    plan = planned([*draw("S", 500), *draw("uct", 120)])
    assert (plan.cut, plan.dropped_count) == (0, 0)
