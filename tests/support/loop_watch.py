"""How long an event loop stands still, for benchmarks: a task beside the work wakes every millisecond.

The longest time between two of its wakes is the stall. On a busy machine that is the time of the neighbours
too, so processor time is what counts: that of the loop, and that of the whole process, in which a thread may
have kept the interpreter's lock.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from sidecar._internal.allocator import BriefCollections
from sidecar._internal.loading import take_short_turns
from sidecar._internal.values import Value


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
