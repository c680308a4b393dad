"""The meter of a session: its totals."""

from __future__ import annotations

from sidecar.conductor.contract import TokenCounts
from sidecar.conductor.window.meter import ContextMeter
from sidecar.llmgateway.contract import CostSheet, ModelCard, Usage


def test_the_tokens_and_the_price_of_a_sub_agent_are_added() -> None:
    meter = ContextMeter(TokenCounts(1, 2, 3, 4), 0.5)
    meter.add_total(TokenCounts(10, 20, 30, 40), 0.25)
    meter.add_total(None, None)
    assert (meter.session_total, meter.cost) == (TokenCounts(11, 22, 33, 44), 0.75)


def test_the_price_that_a_provider_told_goes_before_the_prices_of_the_card() -> None:
    meter = ContextMeter()
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
        meter.add(Usage(1_000_000, 0, cost=0.25), card)
    assert meter.cost == 0.5
    meter.add(Usage(1_000_000, 0), priced)
    assert meter.cost == 1.5
