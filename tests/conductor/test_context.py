"""The meter of a session: its totals."""

from __future__ import annotations

from sidecar.conductor.context import ContextMeter
from sidecar.conductor.contract import TokenCounts


def test_the_tokens_and_the_price_of_a_sub_agent_are_added() -> None:
    meter = ContextMeter(TokenCounts(1, 2, 3, 4), 0.5)
    meter.add_total(TokenCounts(10, 20, 30, 40), 0.25)
    meter.add_total(None, None)
    assert (meter.session_total, meter.cost) == (TokenCounts(11, 22, 33, 44), 0.75)
