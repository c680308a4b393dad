"""The trigger by price: hand-computed sizes, and a session whose compaction comes when it pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest

from bare_sessions import compaction_settings
from histories import entry_of, history_of
from model_cards import card
from sidecar.conductor.engine import CompactionPlan, CompactionRequest
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from sidecar.conductor.window.session_engines import PriceTrigger, find_paying_size
from sidecar.conversation import History
from sidecar.llmgateway.contract import AssistantTurn, CostSheet, Turn
from sidecar.llmgateway.scripted import Say
from talks import input_of
from turns import assistant, user

DEAR = CostSheet(3.0, 15.0, 0.30, 3.75)
LIMIT = {"triggerRatio": 0.4}
ANSWER = "The parser keeps a stack of open brackets and reports the first that is not closed. " * 15


@pytest.mark.parametrize(
    ("cost", "n_calls", "is_prefix_cached", "expected"),
    [
        # (50 * 20,000 * 0.3 + 6,000 * 15 + 20,000 * 3.45) / (50 * 0.3 - 0.3) = 459,000 / 14.7
        pytest.param(DEAR, 50, True, 31_224, id="many calls to come, the conversation in the cache"),
        # 459,000 / (50 * 0.3 - 3)
        pytest.param(DEAR, 50, False, 38_250, id="a summarising call that reads all anew"),
        # (11 * 20,000 * 0.3 + 90,000 + 69,000) / (11 * 0.3 - 3) = 225,000 / 0.3
        pytest.param(DEAR, 11, False, 750_000, id="few calls to come"),
        pytest.param(DEAR, 10, False, None, id="too few to pay at any size"),
        pytest.param(DEAR, 1, True, None, id="a single one saves no more than the summarising call reads"),
        pytest.param(DEAR, 0, True, None, id="none to come"),
        # (50 * 20,000 * 0.1 + 6,000 * 4 + 20,000 * 0.9) / (50 * 0.1 - 0.1) = 142,000 / 4.9
        pytest.param(
            CostSheet(1.0, 4.0, 0.1), 50, True, 28_980, id="writing to the cache costs as any input"
        ),
        pytest.param(CostSheet(3.0, 15.0), 50, True, None, id="a provider without a cache"),
        pytest.param(CostSheet(0, 0), 50, True, None, id="unknown prices"),
        pytest.param(CostSheet(0, 0, 0), 50, True, None, id="a model that costs nothing"),
        pytest.param(CostSheet(3.0, 15.0, 3.0), 50, True, None, id="a cache that saves nothing"),
    ],
)
def test_the_size_from_which_on_a_compaction_pays(
    cost: CostSheet, n_calls: int, is_prefix_cached: bool, expected: int | None
) -> None:
    found = find_paying_size(
        cost, after_tokens=20_000, summary_tokens=6_000, n_calls=n_calls, is_prefix_cached=is_prefix_cached
    )
    assert (None if found is None else round(found)) == expected


@pytest.mark.parametrize("overhead", [0, 30_000])
def test_none_comes_before_a_share_of_the_window_beside_the_overhead(overhead: int) -> None:
    """However many calls are to come."""
    model, history = replace(card(100_000), cost=DEAR), History([entry_of(AssistantTurn(()))] * 1_000)
    ratio = PriceTrigger(is_prefix_cached=True).ratio(history, (), model, overhead)
    assert ratio == pytest.approx((overhead + 0.36 * (100_000 - overhead)) / 100_000)


def test_a_compaction_by_price_keeps_a_shorter_tail() -> None:
    """The digest is paid for once, and each token of the tail in every later request."""
    turns: list[Turn] = [user("go on"), assistant(ANSWER * 2)] * 60
    given = input_of(history_of(turns), card(60_000), 0)
    grounds: tuple[Literal["price"] | None, ...] = (None, "price")
    plans = [
        WindowBudgetEngine().plan(given, CompactionRequest(limit_by=by, force=False, policy=LIMIT))
        for by in grounds
    ]
    kept = [plan.kept_tokens for plan in plans if isinstance(plan, CompactionPlan)]
    assert [tokens > 3_000 for tokens in kept] == [True, False]


async def limits(
    make_stage: Any, cost: CostSheet, *, policy: Mapping[str, float] | None = None, **settings: bool
) -> tuple[list[tuple[str | None, float]], str]:
    """Return the limit after each of sixty turns as a share of the window, and the words of ``/context``."""
    stage = await make_stage(
        [[Say(ANSWER)]], repeat=True, window=100_000, compaction=compaction_settings(**settings)
    )
    model = stage.models.card("scripted-1")
    stage.models.catalog = {**stage.models.catalog, model.id: replace(model, cost=cost)}
    session = await stage.session(policy=policy or {})
    found = []
    for number in range(60):
        await stage.ask(session, f"{number}")
        usage = session.window.request.usage()
        found.append((usage.limit_by, round(usage.limit / 97_952, 2)))
    return found, (await stage.ask(session, "/context")).text


async def test_the_limit_falls_as_the_conversation_goes_on_and_the_context_says_why(make_stage: Any) -> None:
    found, said = await limits(make_stage, DEAR, by_price=True)
    assert found[0] == (None, 0.75)
    assert found[-1] == ("price", 0.41)
    assert [share for _, share in found] == sorted((share for _, share in found), reverse=True)
    assert "compacts at 39,915 tokens: beyond it, later calls would cost more than the compaction" in said


@pytest.mark.parametrize(
    ("cost", "by_price"),
    [pytest.param(DEAR, False, id="turned off"), pytest.param(CostSheet(0, 0), True, id="unknown prices")],
)
async def test_else_the_window_alone_decides(make_stage: Any, cost: CostSheet, by_price: bool) -> None:
    found, _ = await limits(make_stage, cost, by_price=by_price)
    assert set(found) == {(None, 0.75)}


async def test_a_ratio_that_the_user_chose_stands(make_stage: Any) -> None:
    found, _ = await limits(make_stage, DEAR, policy={"triggerRatio": 0.9}, by_price=True)
    assert {limit_by for limit_by, _ in found} == {None}
