"""Work on paths that is requested often and needed once: soon after the first request, never twice at a time.

Knows nothing of files; the work is the caller's. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from msgspec import Struct


class _Job(Struct, eq=False):
    task: asyncio.Task[None]
    must_run_again: bool = False


class Coalescer:
    """Runs *work* for each scheduled path, *delay_s* seconds after it was scheduled.

    A path that is scheduled again during the delay runs once; one that is scheduled while its work is under
    way runs exactly once more. *work* contract: never raises.
    """

    def __init__(self, work: Callable[[Path], Awaitable[None]], *, delay_s: float) -> None:
        self._work = work
        self._delay_s = delay_s
        self._jobs: dict[Path, _Job] = {}
        self._waiting: set[Path] = set()
        self._closed = False

    def schedule(self, path: Path) -> None:
        """Run the work on *path* soon; after :meth:`close` nothing happens."""
        if self._closed or path in self._waiting:
            return
        job = self._jobs.get(path)
        if job is None:
            self._waiting.add(path)
            self._jobs[path] = _Job(asyncio.get_running_loop().create_task(self._run(path)))
        else:
            job.must_run_again = True

    async def wait(self, paths: Iterable[Path], timeout_s: float) -> None:
        """Wait until the work scheduled on *paths* is done, for *timeout_s* seconds at most."""
        tasks = [self._jobs[path].task for path in paths if path in self._jobs] if self._jobs else ()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    async def drain(self) -> None:
        """Wait until nothing is scheduled or under way."""
        while self._jobs:
            await asyncio.wait([job.task for job in self._jobs.values()])

    async def close(self) -> None:
        """Drop scheduled work and wait for work under way to end."""
        self._closed = True
        tasks = [job.task for job in self._jobs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, path: Path) -> None:
        try:
            while True:
                await asyncio.sleep(self._delay_s)
                self._waiting.discard(path)
                await self._work(path)
                if not self._jobs[path].must_run_again:
                    return
                self._jobs[path].must_run_again = False
                self._waiting.add(path)
        finally:
            self._waiting.discard(path)
            self._jobs.pop(path, None)
