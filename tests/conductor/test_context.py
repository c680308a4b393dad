"""What a session has spent: its totals."""

from __future__ import annotations

from sidecar.conductor.contract import TokenCounts
from sidecar.conductor.record.session_record import Spending
from sidecar.llmgateway.contract import CostSheet, ModelCard, Usage


def test_the_tokens_and_the_price_of_a_sub_agent_are_added() -> None:
    spending = Spending(TokenCounts(1, 2, 3, 4), 0.5)
    spending.add_total(TokenCounts(10, 20, 30, 40), 0.25)
    spending.add_total(None, None)
    assert (spending.total, spending.cost) == (TokenCounts(11, 22, 33, 44), 0.75)


def test_the_price_that_a_provider_told_goes_before_the_prices_of_the_card() -> None:
    spending = Spending()
    priced = ModelCard(
        "m",
        "fake",
        "openai-chat",
        "M",
        context_window=9_000,
        max_output_tokens=900,
        modalities=("text",),
        reasoning=False,
        cost=CostSheet(1.0, 1.0),
    )
    for card in (priced, None):
        spending.add(Usage(1_000_000, 0, cost=0.25), card)
    assert spending.cost == 0.5
    spending.add(Usage(1_000_000, 0), priced)
    assert spending.cost == 1.5
