"""Times of works that take turns, for benchmarks."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


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
