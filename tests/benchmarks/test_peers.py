"""The table of ``make bench-peers`` without a peer: its figures and ratios, and the calls of the fake."""

from __future__ import annotations

from typing import Any

import pytest

from peers.bench import TASKS, row_of_turns
from peers.fake_models import FILES, reading_call
from peers.measuring import Run
from peers.table import format_table


def run(cpu_s: float, memory_mb: float = 1.0) -> Run:
    return Run(wall_s=0.5, cpu_s=cpu_s, first_call_s=0.1, memory_mb=memory_mb)


def test_a_step_costs_what_many_cost_more_than_few() -> None:
    n_more = len(FILES) - TASKS[1].n_reads
    turns = (run(0.3), run(0.2), run(0.1), run(0.2), run(0.2 + 0.004 * n_more), run(0.2, memory_mb=90.0))
    *times, call_ms, delta_us, memory_mb = row_of_turns(turns)
    assert times == [500.0, 300.0, 500.0, 500.0]
    assert call_ms == pytest.approx(4.0)
    assert delta_us == pytest.approx(1e5 / 1_995)
    assert memory_mb == 90.0


def test_the_least_of_each_figure_counts() -> None:
    one = Run(wall_s=1, cpu_s=4, first_call_s=5, memory_mb=8)
    other = Run(wall_s=2, cpu_s=3, first_call_s=6, memory_mb=7)
    assert one.least(other) == Run(wall_s=1, cpu_s=3, first_call_s=5, memory_mb=7)


def test_each_row_of_the_table_has_its_ratio_to_the_first() -> None:
    assert format_table("time", ["wall ms", "CPU ms"], {"ours": [1_200, 0], "theirs": [600, 0.5]}).split(
        "\n"
    ) == [
        "time     wall ms     CPU ms",
        "ours     1,200       0.0",
        "theirs   600 (0.5)   0.5 (-)",
    ]


@pytest.mark.parametrize(
    ("tools", "call"),
    [
        ({"bash": {}, "read": {"properties": {"path": {}}}}, ("read", {"path": "/a"})),
        ({"read_file": {"properties": {"file_path": {}}}}, ("read_file", {"file_path": "/a"})),
        ({"exec_command": {"properties": {"cmd": {}}}}, ("exec_command", {"cmd": "cat /a"})),
        ({"todo": {"properties": {"path": {}}}}, None),
    ],
)
def test_the_fake_reads_with_the_tool_that_is_offered(tools: Any, call: Any) -> None:
    assert reading_call(tools, "/a") == call
