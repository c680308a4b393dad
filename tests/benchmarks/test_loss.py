"""The cost of a loss report: of what is new once, and of the rest a look-up for each fact."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from pytest_benchmark.fixture import BenchmarkFixture

from histories import entry_of
from sidecar.conductor.loss_values import Loss
from sidecar.conductor.window.compaction.loss import FactLedger, TextLookup, report_facts, text_shown
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)

SHORT, LONG = 1_000, 10_000
KEPT = 40


def a_history(n_turns: int) -> History:
    """Rounds of four turns, each with a path, a command with its error, and a decision of its own."""
    entries: list[Entry] = []
    for number in range(n_turns // 4):
        command = ToolCallBlock(f"c{number}", "bash", {"command": f"pytest -q tests/test_{number}.py"})
        output = f"E   ValueError: bad offset {number}\n[exit 1]"
        turns: list[Turn] = [
            UserTurn((TextBlock(f"Fix src/m_{number}.py, it listens on port {number + 1_000}."),)),
            AssistantTurn((command,)),
            ToolTurn((ToolResultBlock(f"c{number}", output, True),)),
            AssistantTurn((TextBlock(f"Done. I decided on a buffer of {number} slots in m_{number}."),)),
        ]
        entries += map(entry_of, turns)
    return History(entries, {entry.node_id: entry for entry in entries})


def seconds(work: Callable[[], object]) -> float:
    """Return the least processor time of three runs."""
    times = []
    for _ in range(3):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def test_a_report_costs_a_look_up_for_each_fact_that_is_known(benchmark: BenchmarkFixture) -> None:
    benchmark.pedantic(compare_lengths, rounds=1)  # type: ignore[no-untyped-call]  # the library's own


def compare_lengths() -> None:
    """Judge a second report beside the first, and a long history beside a short one."""
    took = {}
    for n_turns in (SHORT, LONG):
        history, ledger = a_history(n_turns), FactLedger()
        view = history[-KEPT:]

        def report(
            history: History = history, view: tuple[Entry, ...] = view, ledger: FactLedger = ledger
        ) -> Loss:
            facts = ledger.facts_of(history.list_folded(view), view, {})
            return report_facts(facts, TextLookup(text_shown(view))).loss

        began = time.process_time()
        loss = report()
        first = time.process_time() - began
        again = took[n_turns] = seconds(report)
        costs = f"{1e3 * first:.0f} ms to find them, {1e3 * again:.1f} ms to count them again"
        sys.stdout.write(f"\n{n_turns} turns, {loss.total} facts: {costs}\n")
        assert again < first / 5
    assert took[LONG] < 20 * took[SHORT]
