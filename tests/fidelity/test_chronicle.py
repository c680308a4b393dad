"""What a chronicle keeps of planted work: short forms of ``make fidelity``."""

from __future__ import annotations

from statistics import mean

import pytest

import fidelity
from planted_work import MANNERS, Manner, share_kept
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from use_of_views import items_used, share_in_view


@pytest.mark.parametrize("manner", MANNERS)
def test_a_fifth_of_a_large_window_keeps_nearly_all_facts(manner: Manner) -> None:
    entries, facts = fidelity.planted_entries(21, manner, 150_000)
    kept = share_kept(facts, fidelity.chronicle_view(entries, 40_000))
    assert {kind for kind in ("request", "rule", "correction") if kept[kind][0] < kept[kind][1]} == set()
    assert kept["error"][0] >= 0.9 * kept["error"][1]
    assert kept["stale alone"][0] == 0
    n_kept, n_facts = (
        sum(counts[at] for kind, counts in kept.items() if kind != "stale alone") for at in (0, 1)
    )
    assert n_kept >= 0.95 * n_facts


def test_words_of_the_user_stand_in_a_small_view() -> None:
    entries, facts = fidelity.planted_entries(22, "other", 150_000)
    kept = share_kept(facts, fidelity.chronicle_view(entries, 12_000))
    assert {kind for kind in ("request", "rule", "correction") if kept[kind][0] < kept[kind][1]} == set()


def test_a_value_never_stands_without_its_correction() -> None:
    entries, facts = fidelity.planted_entries(23, "claude", 150_000)
    for n_tokens in (6_000, 12_000, 40_000):
        assert share_kept(facts, fidelity.chronicle_view(entries, n_tokens))["stale alone"][0] == 0


@pytest.mark.slow
async def test_a_compaction_leaves_more_of_what_is_used_next_than_a_tail_of_its_size() -> None:
    points = list(fidelity.planted_points())[::3]
    for window, gain in ((60_000, 0.1), (150_000, 0.02)):
        shares = []
        for point in points:
            ours = await fidelity.engine_view(WindowBudgetEngine, point.before, window)
            tail = fidelity.tail_view(point.before, fidelity.count_quarters(ours))
            used = items_used(point.before, point.after, 40)
            shares.append([share_in_view(used, view)["mean"] for view in (ours, tail)])
        kept, in_tail = (mean(each) for each in zip(*shares, strict=True))
        assert kept >= in_tail + gain
