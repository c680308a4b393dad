"""What a work costs: its steps, its times, and how long an event loop stands still meanwhile.

Steps do not depend on the machine. For the last a task beside the work wakes every millisecond: the longest
time between two of its wakes is the stall. On a busy machine that is the time of the neighbours too, so
processor time is what counts: that of the loop, and that of the whole process, in which a thread may have
kept the interpreter's lock.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from cProfile import Profile
from typing import TypeVar

from pytest_benchmark.fixture import BenchmarkFixture

from sidecar._internal.allocator import BriefCollections
from sidecar._internal.loading import take_short_turns
from sidecar._internal.values import Value

T = TypeVar("T")


def count_steps(action: Callable[[], object]) -> int:
    """Return how many functions are called while *action* runs, those written in C included."""
    profile = Profile()  # in C, ten times as fast as a function for each call
    profile.runcall(action)
    return sum(each.callcount for each in profile.getstats())


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


class Stall(Value):
    """The time between two wakes in seconds of processor time: of the loop, and of the process."""

    loop_s: float = 0.0
    process_s: float = 0.0


@asynccontextmanager
async def watch() -> AsyncIterator[list[Stall]]:
    """Give the times between the wakes of a task."""
    stalls = [Stall()]

    async def tick() -> None:
        while True:
            loop_s, process_s = time.thread_time(), time.process_time()
            await asyncio.sleep(0.001)
            stalls.append(Stall(time.thread_time() - loop_s, time.process_time() - process_s))

    task = asyncio.create_task(tick())
    await asyncio.sleep(0)
    try:
        yield stalls
    finally:
        await asyncio.sleep(0.002)
        task.cancel()


@contextmanager
def like_daemon() -> Iterator[None]:
    """Let threads take turns and the collector work as in the daemon; the plugin switches it off."""
    brief, interval_s = BriefCollections(), sys.getswitchinterval()
    gc.callbacks.append(brief)
    gc.enable()
    take_short_turns()
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        gc.callbacks.remove(brief)
        gc.unfreeze()
        gc.collect()
