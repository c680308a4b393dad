"""What a chronicle keeps of planted work: short forms of ``make fidelity``."""

from __future__ import annotations

from statistics import mean

import pytest

import fidelity
from planted_work import MANNERS, Manner, share_kept
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
def test_a_view_holds_more_of_what_is_used_next_than_a_tail_of_its_size() -> None:
    points = list(fidelity.planted_points())[::3]
    for n_tokens in (12_000, 30_000):
        shares = [
            [
                share_in_view(items_used(point.before, point.after, 40), view)["mean"]
                for view in (
                    fidelity.chronicle_view(point.before, n_tokens),
                    fidelity.tail_view(point.before, n_tokens),
                )
            ]
            for point in points
        ]
        ours, tail = (mean(each) for each in zip(*shares, strict=True))
        assert ours >= tail + 0.06
