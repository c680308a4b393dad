"""What storing costs: an append whatever the length, a thousand summaries, a long session's load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from measures import measured, tell
from sidecar.llmgateway.contract import TextBlock, ToolResultBlock, ToolTurn, UserTurn
from sidecar.runtime.memory import live_tokens, local_gist
from sidecar.runtime.store import SessionJournal, SessionStore

TEXT = "some words about src/app.py and what came of it. " * 20
T = TypeVar("T")


def user(number: int) -> UserTurn:
    return UserTurn((TextBlock(f"{number} {TEXT}"),))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


async def append_seconds(journal: SessionJournal, number: int) -> float:
    start = time.perf_counter()
    await journal.record([user(number)])
    return time.perf_counter() - start


def test_the_1000th_append_costs_what_the_10th_costs(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Both are measured in turns, so that what else the disk does weighs on both."""

    async def compare() -> tuple[float, float]:
        store = SessionStore(tmp_path)
        long = store.journal("long")
        await long.record([user(number) for number in range(1_000)])
        at_10: list[float] = []
        at_1000: list[float] = []
        for round_number in range(20):
            short = store.journal(f"short-{round_number}")
            await short.record([user(number) for number in range(10)])
            for number in range(5):
                at_10.append(await append_seconds(short, number))
                at_1000.append(await append_seconds(long, number))
        return median(at_10), median(at_1000)

    short, long = measured(benchmark, lambda: asyncio.run(compare()))
    tell(f"append: {short * 1e3:.2f} ms at turn 10, {long * 1e3:.2f} ms at turn 1,000: {long / short:.2f}x")
    assert long < 2 * short


def test_summaries_cost_less_than_half_of_whole_sessions(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    store = SessionStore(tmp_path)

    async def prepare() -> None:
        await store.journal("s").append_records([{"type": "meta", "title": "x"}])
        await store.journal("s").record([user(number) for number in range(20)])

    asyncio.run(prepare())
    data = (tmp_path / "s.jsonl").read_bytes()
    for number in range(1_000):
        (tmp_path / f"s{number}.jsonl").write_bytes(data)

    async def open_all() -> None:
        for number in range(1_000):
            await store.open(f"s{number}")

    glance = measured(benchmark, lambda: seconds(lambda: asyncio.run(store.summaries())))
    whole = seconds(lambda: asyncio.run(open_all()))
    tell(
        f"1,000 summaries: {glance * 1e3:.0f} ms; sessions whole {whole * 1e3:.0f} ms: {whole / glance:.0f}x"
    )
    assert glance < whole / 2


@pytest.mark.parametrize("n_turns", [1_000, 10_000])
def test_a_gist_grows_with_the_turns_and_no_faster(benchmark: BenchmarkFixture, n_turns: int) -> None:
    result = ToolTurn((ToolResultBlock("c1", TEXT * 3, is_error=False),))
    turns = [user(number) if number % 10 == 0 else result for number in range(n_turns)]
    gist = measured(benchmark, lambda: seconds(lambda: local_gist(turns)))
    count = seconds(lambda: live_tokens(turns))
    tell(f"{n_turns} turns: local gist {gist * 1e3:.1f} ms, counting them {count * 1e3:.2f} ms")
    assert gist < 100 * count
