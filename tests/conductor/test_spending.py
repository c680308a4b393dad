"""Budgets: no call is made that would break one, whatever calls cost, and everything counts once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bare_sessions import compaction_settings
from fake_tools import FakeTool
from long_talks import emitted, open_session
from model_cards import card as card_of
from properties import cases
from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import TokenCounts
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.events import BudgetNear, Notice, Phase
from sidecar.conductor.spending import BudgetReachedError, DaySpending, Spending
from sidecar.llmgateway.budget import merge_budgets, parse_budgets, tokens_of_usage
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    Amount,
    Channel,
    CostBudget,
    CostSheet,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    ModelCard,
    Reply,
    StopEmission,
    TextEmission,
    Usage,
    UsageEmission,
    WithdrawnEmission,
)
from sidecar.llmgateway.scripted import Call, Say
from sidecar.runtime.store import SessionStore
from turns import text

PRICED = replace(card_of(200_000), cost=CostSheet(10.0, 50.0))
"""A token of the input costs 0.00001 dollars, and one of the output 0.00005."""


def answer(*emissions: Emission) -> Channel:
    async def play() -> Any:
        for emission in emissions:
            yield emission

    return channel_of(play)


async def play(
    spending: Spending, used: Usage, card: ModelCard | None = PRICED, n_tokens: int | None = None
) -> str:
    """Make one call that uses *used*, and return the text of its answer, or why it was not made."""
    n_input = tokens_of_usage(used) - used.output_tokens if n_tokens is None else n_tokens
    done = DoneEmission(Reply("m", (), used, "complete"))
    channel = spending.meter(lambda: answer(UsageEmission(used), done), card, n_input)
    seen = [emission async for emission in channel]
    return seen[-1].error.message if isinstance(seen[-1], ErrorEmission) else "answered"


amounts = st.integers(0, 5_000)
usages = st.builds(Usage, amounts, amounts, amounts, amounts)
sheets = st.builds(
    CostSheet,
    st.sampled_from([0.0, 1.0, 15.0]),
    st.sampled_from([2.0, 75.0]),
    st.sampled_from([None, 0.1]),
    st.sampled_from([None, 3.0]),
    per_request=st.sampled_from([None, 0.001]),
)


@cases(80)
@given(
    sheet=sheets,
    calls=st.lists(st.tuples(st.booleans(), usages), min_size=1, max_size=30),
    usd=st.sampled_from([0.002, 0.05, 0.2]),
    tokens=st.sampled_from([None, 9_000, 50_000]),
    per=st.sampled_from(["prompt", "session", "day"]),
)
def test_no_call_is_made_that_would_break_a_budget(
    sheet: CostSheet, calls: Sequence[tuple[bool, Usage]], usd: float, tokens: int | None, per: Any
) -> None:
    async def check() -> None:
        card, day = replace(PRICED, cost=sheet), DaySpending()
        own, child = Spending(day=day), None
        own.choose("", [CostBudget(usd=usd, tokens=tokens, per=per)])
        child = Spending(day=day, above=own)
        spent_usd, spent_tokens, is_over = 0.0, 0, False
        for is_of_child, used in calls:
            n_input = tokens_of_usage(used) - used.output_tokens
            spending = child if is_of_child else own
            least = spending.price_input(card, n_input).usd
            outcome = await play(spending, used, card)
            fits_usd = spent_usd < usd and spent_usd + least <= usd * (1 + 1e-9)
            fits_tokens = tokens is None or (spent_tokens < tokens and spent_tokens + n_input <= tokens)
            if outcome == "answered":
                assert fits_usd
                assert fits_tokens
                spent_usd += sheet.price(used) or 0.0
                spent_tokens += tokens_of_usage(used)
            else:
                is_over = True
                assert not (fits_usd and fits_tokens) or abs(spent_usd + least - usd) < 1e-6
            assert abs(own.sum_of(per).usd - spent_usd) < 1e-6
            assert own.sum_of(per).tokens == spent_tokens
        last = max((sheet.price(used) or 0.0 for _, used in calls), default=0.0)
        assert spent_usd <= usd + last, "one call may end above it, and no other follows"
        assert own._held.tokens == child._held.tokens == 0
        assert is_over or spent_usd <= usd + last

    asyncio.run(check())


async def test_calls_at_the_same_time_count_before_they_end() -> None:
    own = Spending()
    own.choose("0.02usd per session", ())
    gate, first, second = asyncio.Event(), Spending(above=own), Spending(above=own)

    async def slow() -> Any:
        await gate.wait()
        yield DoneEmission(Reply("m", (), Usage(1_500, 0), "complete"))

    async def drain() -> list[Emission]:
        return [each async for each in first.meter(lambda: channel_of(slow), PRICED, 1_500)]

    running = asyncio.create_task(drain())
    await asyncio.sleep(0)
    assert "$0.015 of $0.02, and the next call takes $0.01 for its input alone" in await play(
        second, Usage(1_000, 0)
    )
    gate.set()
    await running
    assert await play(second, Usage(400, 0)) == "answered"
    assert (own.cost, own.total, first.cost) == (0.019, TokenCounts(1_900, 0), 0.015)


async def test_a_call_that_is_made_again_counts_both_times_and_a_broken_one_its_input() -> None:
    spending = Spending()
    spending.choose("0.05usd per session", ())
    used, again = UsageEmission(Usage(1_000, 100)), UsageEmission(Usage(1_000, 200))
    emissions = (used, TextEmission("a"), WithdrawnEmission(), again, StopEmission("complete"))
    assert len([each async for each in spending.meter(lambda: answer(*emissions), PRICED, 1_000)]) == 5
    assert spending.cost == 0.035
    failed = ErrorEmission(GatewayError("http", "busy", status=503))
    for ending, spent in ((failed, 0.035), (TextEmission("I"), 0.045)):
        assert len([each async for each in spending.meter(partial(answer, ending), PRICED, 1_000)]) == 1
        assert spending.sum_of("session").usd == spent
    assert spending.cost == 0.035, "the total is what providers reported"


async def test_what_a_cache_holds_is_priced_as_read_from_it_for_some_minutes() -> None:
    now = [1_000_000]
    spending = Spending(day=DaySpending(clock_ms=lambda: now[0]))
    card = replace(PRICED, cost=CostSheet(10.0, 50.0, 1.0, 12.5))
    assert spending.price_input(card, 10_000).usd == 0.125
    await play(spending, Usage(0, 0, 0, 10_000), card)
    assert spending.price_input(card, 12_000).usd == pytest.approx(0.01 + 0.025)
    assert spending.price_input(replace(card, id="other"), 12_000).usd == 0.15
    now[0] += 300_001
    assert spending.price_input(card, 12_000).usd == 0.15
    await play(spending, Usage(0, 0, 12_000), card)
    spending.on_moved(None)
    assert spending.price_input(card, 12_000).usd == 0.15, "a compaction writes another beginning"


async def test_a_turn_ends_before_the_call_that_would_break_its_budget(make_stage: Any) -> None:
    step = [Call("fake", {}), UsageEmission(Usage(1_000, 10))]
    stage = await make_stage([step], tools=[FakeTool()], repeat=True, cost=CostSheet(100.0, 0.0))
    session = await stage.session()
    receipt = await session.submit(text("go"), budget=CostBudget(usd=0.35))
    outcome = await receipt.outcome
    assert (outcome.stop_reason, outcome.fault, len(stage.model.calls)) == ("budget", None, 3)
    assert session.info.cost == 0.3
    assert emitted(session, BudgetNear) == [BudgetNear("prompt", 0.35, None, 0.3, 3_030)]
    [notice] = emitted(session, Notice)
    assert notice.notice_kind == "budget"
    assert notice.description.startswith("This prompt has used $0.30 of $0.35, and the next call takes $0.")
    assert notice.description.endswith(
        "the next prompt has a budget of its own, and /budget sets another one"
    )
    assert "faulted" not in [each.phase for each in emitted(session, Phase)]
    await session.choose("budget", "0.45usd per session")
    again = await stage.ask(session, "go on")
    assert (again.stop_reason, len(stage.model.calls)) == ("budget", 4), "0.40 of 0.45 are used"
    await session.choose("budget", "none")
    stage.model._script = ((Say("done"), UsageEmission(Usage(1_000, 10))),)
    assert (await stage.ask(session, "go on")).text == "done"


async def test_a_budget_in_dollars_says_once_that_it_cannot_count_a_model(make_stage: Any) -> None:
    stage = await make_stage([[Say("hi"), UsageEmission(Usage(1_000, 10))]], repeat=True)
    session = await stage.session()
    await session.choose("budget", "1usd, 1500 tokens per session")
    assert [(await stage.ask(session, "go")).stop_reason for _ in "123"] == ["end_turn", "budget", "budget"]
    kinds = [notice.notice_kind for notice in emitted(session, Notice)]
    assert kinds == ["priceUnknown", "budget", "budget"]
    shown = (await stage.ask(session, "/budget")).text
    assert "- This session: $" not in shown, "no price is known"
    assert len(stage.model.calls) == 1


async def test_the_sum_of_the_day_is_that_of_all_daemons_and_survives_them(tmp_path: Path) -> None:
    now, per_day = [1_700_000_000_000], "0.5usd per day"

    def start() -> Spending:
        spending = Spending(day=DaySpending(SessionStore(tmp_path), lambda: now[0]))
        spending.choose(per_day, ())
        return spending

    first, second = start(), start()
    for spending in (first, second, first):
        assert await play(spending, Usage(10_000, 0)) == "answered"
        await spending.day.flush()
    assert "All sessions have used today $0.30 of $0.50" in await play(second, Usage(30_000, 0))
    third = start()
    assert await play(third, Usage(20_000, 0)) == "answered"
    await third.day.flush()
    assert "/budget 1usd per day; else it goes on tomorrow" in await play(start(), Usage(1, 0))
    now[0] += 86_400_000
    assert await play(start(), Usage(1, 0)) == "answered"


async def test_a_later_level_replaces_the_budget_of_a_period(make_stage: Any) -> None:
    settings = parse_budgets("1usd per prompt, 5usd per day")
    assert [*merge_budgets(settings, parse_budgets("2M per day")).values()] == [
        CostBudget(usd=1.0),
        CostBudget(tokens=2_000_000, per="day"),
    ]
    stage, session = await open_session(make_stage, budgets=settings)
    outcome = await stage.ask(session, "/budget 2usd per session")
    assert outcome.text.startswith("Budgets: 1usd per prompt, 2usd per session, 5usd per day. For example, ")
    assert "- This session: $0, 0 tokens" in outcome.text
    await stage.ask(session, "/budget 3usd per prompt")
    assert session.info.budget == "3usd per prompt, 2usd per session"
    await stage.ask(session, "/budget none")
    assert session.record.spending.budgets == {}
    await stage.ask(session, "/budget default")
    assert [*session.record.spending.budgets.values()] == [*settings]
    with pytest.raises(InvalidInput, match="'plenty' is not a budget"):
        await session.choose("budget", "plenty")


async def test_a_child_is_stopped_by_the_budget_of_its_parent_and_the_parent_too() -> None:
    own = Spending()
    own.choose("", ())
    own.begin_prompt(CostBudget(tokens=1_000))
    child = Spending(above=own)
    assert await play(child, Usage(600, 0)) == "answered"
    for spending in (child, own):
        with pytest.raises(BudgetReachedError):
            await spending.hold(Amount(0.0, 500))


async def test_a_summary_counts_and_is_not_written_where_it_would_break_a_budget(make_stage: Any) -> None:
    answers = [[Say(f"{number}. {'It is done. ' * 200}")] for number in range(6)]
    note = [Say("The user asks for work, and it is done."), UsageEmission(Usage(900, 40))]
    settings = compaction_settings(note="always", view_share=0.2)
    stage = await make_stage([*answers, note, [Say("more")]], compaction=settings, cost=CostSheet(10.0, 10.0))
    session = await stage.session()
    for number in range(6):
        await stage.ask(session, f"do {number}")
    await session.choose("budget", "1000 tokens per session")
    refused = await session.compact(CompactionRequest(force=True)).outcome
    assert (refused.status, refused.summary_source, len(stage.model.calls)) == (
        "completed",
        "localFallback",
        6,
    )
    await session.undo(None, force=False, expect_head=None)
    await session.choose("budget", "none")
    written = await session.compact(CompactionRequest(force=True)).outcome
    assert (written.summary_source, len(stage.model.calls), session.record.spending.cost) == (
        "model",
        7,
        0.0094,
    )


async def test_prompts_behind_a_used_up_budget_wait_until_it_is_raised(make_stage: Any) -> None:
    step = (Say("done"), UsageEmission(Usage(1_000, 10)))
    stage, session = await open_session(make_stage, [step], repeat=True)
    await session.choose("budget", "1500 tokens per session")
    await stage.ask(session, "one")
    first, *rest = [await session.submit(text(each)) for each in ("two", "/cost", "three", "four")]
    assert (await first.outcome).stop_reason == "budget"
    assert (await rest[0].outcome).text, "a command in front of the prompts is answered"
    await stage.settle()
    assert [item.turn_id for item in session.turns.prompts.items()] == [each.turn_id for each in rest[1:]]
    stopped = await stage.ask(session, "five")
    assert (stopped.stop_reason, session.snapshot().waiting_for) == ("budget", "budget")
    await session.choose("budget", "1501 tokens per session")
    assert (session.snapshot().state, len(session.turns.prompts.items())) == ("waiting", 2)
    await session.choose("budget", "100k tokens per session")
    assert [(await each.outcome).text for each in rest[1:]] == ["done", "done"]
    assert (session.snapshot().state, session.turns.prompts.items()) == ("idle", ())


async def test_a_raised_budget_ends_the_wait_for_it(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("done")]], repeat=True)
    await session.choose("budget", "1 tokens per session")
    await stage.ask(session, "go")
    assert session.snapshot().state == "waiting"
    await session.choose("budget", "none")
    assert session.snapshot().state == "idle"


async def test_prompts_that_a_budget_holds_up_survive_the_session(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("done")]], repeat=True)
    await session.choose("budget", "1 tokens per session")
    receipts = [await session.submit(text(each)) for each in ("one", "two")]
    await receipts[0].outcome
    await stage.settle()
    await stage.hub.close(session.sid)
    assert (await receipts[1].outcome).stop_reason == "cancelled", "whoever waits for it is told"
    loaded = (await stage.hub.load(session.sid)).session
    assert [item.input[0]["text"] for item in loaded.turns.prompts.items()] == ["two"]
