"""The shares of a window: facts A3, A8 and Z1, failure B-A3."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agentcore.budget import Budget, fit_budget


@pytest.mark.parametrize(
    ("window", "reserve", "keep", "expected"),
    [
        pytest.param(128_000, 0, 0, Budget(128_000, 16384, 111_616, 20_000), id="defaults"),
        pytest.param(128_000, -1, -5, Budget(128_000, 16384, 111_616, 20_000), id="less than 0: defaults"),
        pytest.param(56_384, 0, 0, Budget(56_384, 16384, 40_000, 20_000), id="two tails just fit: as given"),
        pytest.param(1000, 200, 100, Budget(1000, 200, 800, 100), id="own figures that fit are kept"),
        pytest.param(36_000, 0, 0, Budget(36_000, 4680, 31_320, 7830), id="36k: 13 % and a quarter"),
        pytest.param(32_000, 0, 0, Budget(32_000, 4160, 27_840, 6960), id="32k"),
        pytest.param(16_384, 0, 0, Budget(16_384, 4096, 12_288, 3072), id="16k: the reserve's floor"),
        pytest.param(8192, 0, 0, Budget(8192, 4096, 4096, 2000), id="8k: the tail's floor"),
        pytest.param(
            4096, 0, 0, Budget(4096, 2048, 2048, 1024), id="4k: half is the reserve, half of the rest tail"
        ),
        pytest.param(
            1000, 1000, 50, Budget(1000, 1000, 0, 0), id="a chosen reserve that leaves nothing stays"
        ),
        pytest.param(0, 0, 0, Budget(0, 0, 0, 0), id="no window"),
    ],
)
def test_a3_z1_fit_budget(window: int, reserve: int, keep: int, expected: Budget) -> None:
    assert fit_budget(window, reserve, keep) == expected


def test_a8_lengths_of_the_answers() -> None:
    budget = fit_budget(128_000)
    assert (budget.history_max, budget.prefix_max) == (13107, 8192)


@given(st.integers(8000, 300_000), st.integers(0, 40_000), st.integers(0, 60_000))
def test_b_a3_a_view_of_tail_and_summary_fits_at_every_window(window: int, reserve: int, keep: int) -> None:
    budget = fit_budget(window, reserve, keep)
    if budget.threshold > 0:
        assert budget.keep <= budget.threshold // 2
        assert budget.keep + budget.summary_floor <= budget.soft <= budget.threshold
        assert budget.hard + budget.summary_floor == budget.threshold


@given(st.integers(8000, 36_000))
def test_b_a3_small_windows_do_not_starve(window: int) -> None:
    budget = fit_budget(window)
    assert budget.threshold >= window * 4 // 10
    assert budget.keep >= 1900


@pytest.mark.parametrize(
    ("overhead", "threshold", "keep"),
    [
        pytest.param(0, 111_616, 20_000, id="none"),
        pytest.param(50_000, 61_616, 20_000, id="the threshold pays"),
        pytest.param(80_000, 31_616, 15_808, id="then the tail"),
        pytest.param(200_000, 27_904, 13_952, id="a quarter stays the messages'"),
    ],
)
def test_b_a10_overhead_narrows_the_budget(overhead: int, threshold: int, keep: int) -> None:
    narrowed = fit_budget(128_000).narrowed(overhead)
    assert (narrowed.threshold, narrowed.keep) == (threshold, keep)
