"""What one compaction keeps, and what many keep: short forms of ``make fidelity``."""

from __future__ import annotations

import pytest

import planting
import second_reads
import yardstick
from recorded_sessions import recorded_files


@pytest.mark.parametrize("summariser", yardstick.SUMMARISERS)
async def test_a_compaction_of_a_long_conversation_keeps_its_facts(summariser: str) -> None:
    shares, n_tokens = await yardstick.after_one(11, "English", summariser, n_rounds=105)
    assert shares["all"] >= 0.95
    assert shares["rule"] == 1.0
    assert n_tokens <= 13_000, "12,000 beside a short last turn"


@pytest.mark.parametrize("language", planting.LANGUAGES)
async def test_facts_are_kept_in_every_language(language: str) -> None:
    shares, _ = await yardstick.after_one(12, language, "none", n_rounds=80)
    assert shares["all"] >= 0.95
    assert shares["rule"] >= 0.95


@pytest.mark.parametrize("summariser", ["none", "useless"])
async def test_rules_survive_many_compactions(summariser: str) -> None:
    found = await yardstick.after_many(13, "English", summariser, (1, 5), window=24_000)
    assert found[5]["rule"] == 1.0
    assert found[5]["recalled"] >= 0.9


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


async def test_the_trigger_by_price_spares_the_cache_and_loses_no_fact() -> None:
    by_window, by_price = [await yardstick.cache_cost(14, by_price=each) for each in (False, True)]
    assert by_price.requests <= by_price.with_summaries <= 0.28 < by_window.requests
    assert by_price.kept * by_price.n_facts >= 0.95 * by_window.kept * by_window.n_facts
