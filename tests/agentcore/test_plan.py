"""What a plan drops, keeps and shrinks: decisions on A3 to A5, failures B-A2, B-A3 and B-A9."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sidecar.agentcore.budget import fit_budget
from sidecar.agentcore.messages import AgentMessage, text_message
from sidecar.agentcore.plan import CompactionPlan, plan_compaction

Draw = Callable[..., list[AgentMessage]]

SMALL = fit_budget(1000, 200, 100)
"""Threshold 800, tail 100, a fresh view under 700 of which a summary has 100 at least."""


def outline(plan: CompactionPlan | None) -> tuple[int, int, int] | None:
    return None if plan is None else (plan.cut, plan.turn_start, plan.pinned)


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        pytest.param("ua" * 40, None, id="a view at the threshold is left alone"),
        pytest.param("ua" * 41, (72, -1, -1), id="over it: the last turns stay"),
        pytest.param("ua" * 40 + "u", (70, -1, -1), id="a tail takes the prompt of its first answer along"),
        pytest.param("u" + "ct" * 45, (81, 0, 0), id="B-A2: a tool loop compacts, its prompt is pinned"),
        pytest.param("Su" + "ct" * 45, (82, 1, 1), id="and again, behind a summary"),
        pytest.param("ua" * 20 + "u" + "a" * 45, (76, 40, 40), id="a split turn"),
        pytest.param(
            "ua" * 20 + "u" + "a" * 8 + "u" + "a" * 35, (75, 49, 49), id="only the newest prompt is pinned"
        ),
        pytest.param("x" * 200 + "ua" * 40, None, id="B-A10: aborted messages weigh nothing"),
    ],
)
def test_where_the_plan_cuts(draw: Draw, letters: str, expected: tuple[int, int, int] | None) -> None:
    assert outline(plan_compaction(draw(letters), SMALL)) == expected


def test_counts_and_tokens_of_a_plan(draw: Draw) -> None:
    plan = plan_compaction(draw("Su" + "ct" * 45), SMALL)
    assert plan == CompactionPlan(
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
    assert (plan.is_split_turn, plan.projected_tokens) == (True, 700)


def of_size(*tokens: int) -> list[AgentMessage]:
    """A user's message, then assistant messages, of so many tokens."""
    roles = ["user", *["assistant"] * (len(tokens) - 1)]
    return [
        text_message("user" if role == "user" else "assistant", "x" * 4 * n)
        for role, n in zip(roles, tokens, strict=True)
    ]


@pytest.mark.parametrize(
    ("messages", "shrink", "kept"),
    [
        pytest.param(
            of_size(10, 5000), ((1, 400),), 410, id="an item larger than the window: half the threshold"
        ),
        pytest.param(of_size(5000), ((0, 400),), 400, id="even the newest prompt"),
        pytest.param(of_size(300, 600), ((1, 500),), 800, id="a lone turn: the answer pays, not the prompt"),
        pytest.param(
            of_size(690, 300), ((0, 600), (1, 200)), 800, id="a prompt pays last, when nothing else is left"
        ),
    ],
)
def test_b_a9_oversized_items_are_shrunk_without_a_model(
    messages: list[AgentMessage], shrink: tuple[tuple[int, int], ...], kept: int
) -> None:
    plan = plan_compaction(messages, SMALL)
    assert plan is not None
    assert (plan.cut, plan.shrink, plan.kept_tokens) == (0, shrink, kept)


def test_too_little_to_condense_is_no_reason_to_stay_over_the_threshold(draw: Draw) -> None:
    plan = plan_compaction([*draw("u", 5), *draw("ua", 450)], SMALL)
    assert plan is not None
    assert (plan.cut, plan.shrink) == (0, ((2, 345),))


def test_b_a9_two_oversized_items_are_not_both_kept() -> None:
    """Cut to half the threshold each they would still be too much: the older one is condensed."""
    plan = plan_compaction(of_size(10, 5000, 5000), SMALL)
    assert outline(plan) == (2, 0, 0)
    assert plan is not None
    assert plan.shrink == ((2, 400),)


def test_b_a9_a_batch_larger_than_the_window_keeps_its_pairs_and_is_shrunk(draw: Draw) -> None:
    messages = [*draw("ua" * 10), *draw("uct", 600)]
    plan = plan_compaction(messages, SMALL)
    assert plan is not None
    assert (plan.cut, plan.kept_tokens) == (20, SMALL.hard)
    assert plan.shrink == ((20, 526), (21, 87), (22, 87))


def test_a_prompt_too_large_to_be_carried_is_cut(draw: Draw) -> None:
    """Three quarters of the threshold are carried whole, more is cut to a half of it."""
    whole = plan_compaction([*draw("ua" * 10), *draw("u", 600), *draw("ct" * 10)], SMALL)
    assert whole is not None
    assert (whole.pinned, whole.shrink) == (20, ())
    cut = plan_compaction([*draw("ua" * 10), *draw("u", 601), *draw("ct" * 10)], SMALL)
    assert cut is not None
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


def test_z7_a_summary_alone_is_not_summarised_again(draw: Draw) -> None:
    assert plan_compaction([*draw("S", 500), *draw("uct", 99)], SMALL) is None
    plan = plan_compaction([*draw("S", 500), *draw("uct", 120)], SMALL)
    assert plan is not None
    assert (plan.cut, plan.dropped_count) == (0, 0)


def test_a3_no_threshold_no_plan(draw: Draw) -> None:
    assert plan_compaction(draw("ua" * 100), fit_budget(1000, 1000, 10)) is None
    assert plan_compaction(draw("ua" * 100), fit_budget(1000, 1000, 10), force=True) is None


def test_a_summary_is_smaller_than_what_it_replaces(draw: Draw) -> None:
    plan = plan_compaction([*draw("u", 30), *draw("aua", 300)], SMALL)
    assert plan is not None
    assert plan.summary_tokens < plan.dropped_tokens
    assert plan.projected_tokens < plan.tokens_before
