"""The queue of one session: one job runs, the others wait in order. Nothing ever runs beside another.

Knows nothing of what a job does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from sidecar._internal.errors import bug, log_fault

__all__ = ["JobQueue"]

J = TypeVar("J")


class JobQueue(Generic[J]):
    """Jobs, carried out by *run* one after another; *done* hears whenever one is over.

    Contract of *run*: it does not raise. If it does, the jobs behind it are carried out all the same.
    """

    def __init__(self, run: Callable[[J], Awaitable[None]], done: Callable[[], None]) -> None:
        self._run = run
        self._done = done
        self._waiting: deque[J] = deque()
        self._worker: asyncio.Task[None] | None = None
        self.current: J | None = None

    @property
    def waiting(self) -> Sequence[J]:
        """The jobs that wait, the next one first."""
        return tuple(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Whether a new job would have to wait."""
        return self.current is not None or bool(self._waiting)

    def put(self, job: J, *, first: bool = False) -> None:
        """Add a job behind the others, or before them when it goes *first*."""
        if first:
            self._waiting.appendleft(job)
        else:
            self._waiting.append(job)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.ensure_future(self._work())

    def put_back(self, jobs: Iterable[J]) -> None:
        """Add *jobs*, in their order, before the others."""
        for job in reversed(tuple(jobs)):
            self.put(job, first=True)

    def remove(self, job: J) -> None:
        """Take a job out that waits."""
        self._waiting.remove(job)

    async def wait_idle(self) -> None:
        """Return once nothing runs and nothing waits."""
        if self._worker is not None:
            await self._worker

    async def _work(self) -> None:
        while self._waiting:
            self.current = self._waiting.popleft()
            try:
                await self._run(self.current)
            except Exception as error:
                log_fault("a job of a session", error)
                bug(f"a job raised {type(error).__name__}")
            finally:
                self.current = None
            try:
                self._done()
            except Exception as error:
                # The jobs behind it do not depend on who is notified of this one.
                log_fault("a listener of a session's queue", error)
