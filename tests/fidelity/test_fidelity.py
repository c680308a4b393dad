"""The cost of compactions for a provider's cache, and the files that come back after them."""

from __future__ import annotations

import pytest

import second_reads
import yardstick
from recorded_sessions import recorded_files


@pytest.mark.slow
@pytest.mark.skipif(
    not any(map(recorded_files, second_reads.AGENTS)),
    reason="the recorded sessions are not beside this checkout",
)
def test_the_files_that_agents_read_again_come_back() -> None:
    """Nearly all of them, and a part of their lines: 8,000 tokens hold about half of the lines at most."""
    first, second = second_reads.measure()
    assert min(first.file_share, second.file_share) >= 0.85
    assert first.line_share >= 0.35
    assert second.line_share >= 0.24


@pytest.mark.slow
async def test_the_trigger_by_price_spares_the_cache_and_loses_few_facts() -> None:
    by_window, by_price = [await yardstick.cache_cost(14, by_price=each) for each in (False, True)]
    assert by_price.requests <= by_price.with_summaries < by_window.requests
    assert by_price.requests <= 0.3
    assert by_price.kept >= 0.85 * by_window.kept
