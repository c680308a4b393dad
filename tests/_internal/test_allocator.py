"""Memory that worker threads have freed goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


def test_threads_leave_no_heaps_behind() -> None:
    grown = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, check=True).stdout
    assert int(grown) < 2 * 20_000_000, "one load of a thread, and not one for each"
