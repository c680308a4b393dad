"""``sidecar`` that counts itself: at SIGUSR1 it sends its tasks and objects to the socket of SOAK_COUNTS."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import sys
from collections import Counter

from sidecar.cli import main


def send_counts(*_: object) -> None:
    """Send the number of tasks by name, and the number of objects, as one datagram of JSON."""
    gc.collect()
    tasks = Counter(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())
    kinds = Counter(type(each).__qualname__ for each in gc.get_objects())
    n_objects = kinds.total() + gc.get_freeze_count()
    counts = {"tasks": tasks, "objects": n_objects, "kinds": dict(kinds.most_common(200))}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(json.dumps(counts).encode(), os.environ["SOAK_COUNTS"])


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, send_counts)
    sys.exit(main())
