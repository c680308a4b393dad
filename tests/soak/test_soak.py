"""Hours of editor use, compressed, with accidents: nothing that the daemon holds grows, and nothing hangs.

``make soak`` takes ten minutes (``SOAK_SECONDS``) and prints what it sees; the suite takes some seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from editor_day import PATIENCE_S, EditorDay
from sidecar.attach.paths import DaemonPaths
from sidecar_client import SidecarClient
from soak_model import serve_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="a limit of another process is set on Linux only"),
]

SECONDS = float(os.environ.get("SOAK_SECONDS", "6"))
WARM_SHARE = 0.3
"""The part of the time in which the daemon loads its modules, fills its caches and starts its threads."""

N_WINDOWS = 3
REST_S = 60.0
DAEMON = Path(__file__).parents[1] / "support" / "counting_daemon.py"
CONFIG = """
model = "big"
[providers.work]
base_url = "{url}/v1"
api = "openai-chat"
[models.big]
provider = "work"
name = "soak-1"
context_window = 12000
max_output_tokens = 1000
"""


@dataclass(frozen=True)
class Counts:
    """What the daemon holds at a moment at which nothing goes on."""

    tasks: int
    descriptors: int
    threads: int
    memory_kb: int
    objects: int
    names: Mapping[str, int]
    kinds: Mapping[str, int]


def may_grow() -> dict[str, int]:
    """Return how much more of each there may be at the end than after the warming up.

    The connections to the model stay open for the next call, asyncio starts the threads of its pool one by
    one, and the allocator keeps some memory. A short run still loads modules after its warming up.
    """
    return {
        "tasks": 0,
        "descriptors": 8,
        "threads": (os.cpu_count() or 1) + 4,
        "memory_kb": 12_000 if SECONDS >= 60 else 50_000,
    }


class Patient:
    """The daemon of a soak: *process*, at *paths*, which counts itself."""

    def __init__(self, process: psutil.Process, paths: DaemonPaths, counts: socket.socket) -> None:
        self.process = process
        self.paths = paths
        self._counts = counts

    async def rest(self, tasks: Mapping[str, int] | None = None) -> Counts:
        """Return the counts once no session is loaded, no other client is there, and only *tasks* run.

        Watches take a second to end. Tasks that do not end in time are left for the caller to see.
        """
        async with SidecarClient.connect(self.paths.socket) as client:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    status = await client.status()
                    if (len(status.clients), status.sessions.loaded, len(status.children)) == (1, 0, 0):
                        break
            counts = await self._count()
            with suppress(TimeoutError):
                async with asyncio.timeout(REST_S):
                    while tasks is not None and Counter(counts.names) - Counter(tasks):
                        counts = await self._count()
            return counts

    async def _count(self) -> Counts:
        self.process.send_signal(signal.SIGUSR1)
        told = json.loads(await asyncio.get_running_loop().sock_recv(self._counts, 1 << 20))
        return Counts(
            sum(told["tasks"].values()),
            self.process.num_fds(),
            self.process.num_threads(),
            self.process.memory_info().rss // 1000,
            told["objects"],
            told["tasks"],
            told["kinds"],
        )


@contextmanager
def a_patient(folder: Path, url: str) -> Iterator[Patient]:
    """A shared daemon whose model is at *url*; in the end it leaves in order, without a complaint."""
    paths = DaemonPaths(folder / "home")
    paths.home.mkdir()
    (paths.home / "config.toml").write_text(CONFIG.format(url=url))
    environment = {
        **os.environ,
        "INDUSAGI_HOME": str(paths.home),
        "SOAK_COUNTS": str(folder / "counts"),
        "PYTHONWARNINGS": "default",
    }
    command = [sys.executable, "-P", str(DAEMON), *("serve", "--shared", "--daemon", "--log", "error")]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as counts,
        (folder / "complaints").open("w+b") as complaints,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, env=environment) as daemon,
    ):
        counts.setblocking(False)
        counts.bind(str(folder / "counts"))
        assert daemon.stdout is not None
        try:
            assert daemon.stdout.readline().startswith(b"listening at ")
            yield Patient(psutil.Process(daemon.pid), paths, counts)
            daemon.terminate()
            assert daemon.wait(PATIENCE_S) == 0
        finally:
            daemon.kill()
            complaints.seek(0)
            complained = complaints.read().decode()
            print(complained)
        assert complained == ""


async def live(day: EditorDay, seconds: float) -> None:
    """Let windows, a panel and accidents go on side by side for *seconds*, and tell how it goes."""
    began = told = time.monotonic()

    def is_over() -> bool:
        return time.monotonic() - began >= seconds

    async def tell() -> None:
        nonlocal told
        while not is_over():
            await asyncio.sleep(min(10.0, seconds))
            print(f"{time.monotonic() - began:6.0f} s  {day.describe()}", flush=True)

    async with asyncio.TaskGroup() as group:
        for seed in range(N_WINDOWS):
            group.create_task(day.be_a_window(seed, is_over))
        group.create_task(day.be_a_panel(N_WINDOWS, is_over))
        group.create_task(day.be_accident_prone(N_WINDOWS + 1, is_over))
        group.create_task(tell())


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as name:
        yield Path(name).resolve()


async def test_nothing_grows_and_nothing_hangs_in_hours_of_use(folder: Path) -> None:
    async with serve_model() as url:
        with a_patient(folder, url) as patient:
            fresh = await patient.rest()
            day = EditorDay(patient.paths.socket, folder / "project", patient.process)
            await live(day, SECONDS * WARM_SHARE)
            warm = await patient.rest(fresh.names)
            await live(day, SECONDS * (1 - WARM_SHARE))
            end = await patient.rest(fresh.names)
    assert report(fresh, warm, end) == []


def report(fresh: Counts, warm: Counts, end: Counts) -> list[str]:
    """Print the counts as a table, and return the names of those that have grown too much."""
    allowed, grown = may_grow(), []
    print(f"\n{'':12}{'fresh':>10}{'warm':>10}{'end':>10}{'may grow':>10}")
    for name in (*allowed, "objects"):
        row = [getattr(counts, name) for counts in (fresh, warm, end)]
        print(f"{name:12}" + "".join(f"{value:>10}" for value in (*row, allowed.get(name, ""))))
        if row[2] - row[1] > allowed.get(name, row[2]):
            grown.append(name)
    print("more tasks:", dict(Counter(end.names) - Counter(warm.names)))
    print("more objects:", dict((Counter(end.kinds) - Counter(warm.kinds)).most_common(15)))
    return grown
