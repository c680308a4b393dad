"""Times of works, for benchmarks."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from pytest_benchmark.fixture import BenchmarkFixture

T = TypeVar("T")


def fastest(*works: Callable[[], object], rounds: int) -> list[float]:
    """The shortest run of each, in seconds of processor time; they take turns, as caches grow warm."""
    times: list[list[float]] = [[] for _ in works]
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for work, taken in zip(works, times, strict=True):
                start = time.process_time()
                work()
                taken.append(time.process_time() - start)
    finally:
        gc.enable()
    return [min(each) for each in times]


def measured(benchmark: BenchmarkFixture, work: Callable[[], T]) -> T:
    """Run *work* once under the benchmark's name."""
    result: T = benchmark.pedantic(work, rounds=1)  # type: ignore[no-untyped-call]  # the plugin has no types
    return result


def tell(text: str) -> None:
    """Print a figure."""
    sys.stdout.write(f"\n{text}\n")
