"""Memory that worker threads have freed goes back to the system."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys

import pytest

from sidecar._internal import allocator
from sidecar._internal.allocator import FreedMemory

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the allocator of glibc is set"),
]

WORK = """
import threading
import psutil
from sidecar._internal.allocator import limit_kept_memory

limit_kept_memory()
before, kept = psutil.Process().memory_info().rss, []
lock, together = threading.Lock(), threading.Barrier(8)

def work():
    together.wait()
    with lock:
        blocks = [b"x" * 40_000 for _ in range(500)]
        kept.extend(blocks[::50])
        del blocks
    together.wait()

threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(psutil.Process().memory_info().rss - before)
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_threads_leave_no_heaps_behind() -> None:
    assert int(run(WORK)) < 2 * 20_000_000, "one load of a thread, and not one for each"


CYCLES = """
import asyncio
import psutil
from sidecar._internal import allocator

class Part:
    pass

async def main():
    loop, freed, rests = asyncio.get_running_loop(), allocator.FreedMemory(), iter([False, True])
    allocator._DELAY_S = 0
    done, work = asyncio.Event(), allocator.return_freed_memory
    allocator.return_freed_memory = lambda most: (work(most), loop.call_soon_threadsafe(done.set))
    freed.is_at_rest = lambda: next(rests)
    before = psutil.Process().memory_info().rss
    whole = Part()
    whole.parts = [Part() for _ in range(300)]
    for part in whole.parts:
        part.whole, part.text = whole, "x" * 100_000
    grown = psutil.Process().memory_info().rss - before
    del whole, part
    freed.return_soon()
    freed.return_soon()
    await done.wait()
    print(grown, psutil.Process().memory_info().rss - before)

asyncio.run(main())
"""


def test_parts_that_refer_to_each_other_are_collected_once_nothing_is_at_work() -> None:
    grown, left = map(int, run(CYCLES).split())
    assert grown > 25_000_000
    assert left < 10_000_000


MANY = """
import asyncio, gc, weakref
from sidecar._internal import allocator

class Part:
    pass

def make():
    whole = Part()
    whole.itself = whole
    return weakref.ref(whole)

async def main():
    loop, freed, done, work = (
        asyncio.get_running_loop(), allocator.FreedMemory(), asyncio.Queue(), allocator.return_freed_memory
    )
    def return_freed_memory(*most):
        work(*most)
        loop.call_soon_threadsafe(done.put_nowait, (excluded() is None, later() is None))

    allocator.return_freed_memory = return_freed_memory
    allocator._DELAY_S, allocator._QUIET_S, allocator._MOST_BLOCKS = 0, 0.2, 1
    gc.disable()
    excluded = make()
    gc.freeze()
    later, rests = make(), iter([True, False, True])
    freed.is_at_rest = lambda: next(rests)
    freed.return_soon()
    print(await done.get(), await done.get(), [*rests])

asyncio.run(main())
"""


def test_many_excluded_objects_are_looked_at_only_in_a_quiet_time() -> None:
    assert run(MANY) == "(False, True) (True, True) []\n"


async def test_the_event_loop_counts_no_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk through those of 100,000 messages would hold it up for a tenth of a second."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(allocator, "return_freed_memory", lambda _most: loop.call_soon_threadsafe(done.set))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("it counted objects"))
    FreedMemory().return_at_rest()
    await done.wait()


EXCLUDED = """
import gc, weakref
from sidecar._internal.allocator import BriefCollections, return_freed_memory

class Part:
    pass

gc.callbacks.append(BriefCollections(most_s=0))
whole = Part()
whole.itself, known = whole, weakref.ref(whole)
gc.collect()
n_excluded = gc.get_freeze_count()
del whole
gc.collect()
print(n_excluded > 0, known() is None)
return_freed_memory()
print(gc.get_freeze_count() > 0, known() is None)
"""


def test_what_survives_a_long_collection_is_looked_at_again_when_memory_is_returned() -> None:
    assert run(EXCLUDED).split() == ["True", "False", "True", "True"]
