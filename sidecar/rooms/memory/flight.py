"""Sharing one call among all who need its outcome, one call a lane at a time (failure B-K5).

A stateful shell over asyncio tasks; it knows nothing of rooms or summaries. A waiter that is cancelled
cancels nobody else; a call whose last waiter is gone is cancelled, for nobody is left to use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Generic, TypeVar

__all__ = ["Flight", "Flights"]

L = TypeVar("L", bound=Hashable)
T = TypeVar("T")


class Flight(Generic[T]):
    """A call under way for *key*. ``detached``: its outcome is for its waiters only, and not to be kept."""

    __slots__ = ("detached", "key", "task", "waiters")

    task: asyncio.Task[T]

    def __init__(self, key: str) -> None:
        self.key = key
        self.waiters = 0
        self.detached = False


class Flights(Generic[L, T]):
    """The calls under way, at most one in each lane."""

    def __init__(self) -> None:
        self._lanes: dict[L, Flight[T]] = {}
        self._tasks: set[asyncio.Task[T]] = set()

    def current(self, lane: L) -> Flight[T] | None:
        """Return what is under way in *lane*, or None."""
        return self._lanes.get(lane)

    def start(self, lane: L, key: str, job: Callable[[Flight[T]], Coroutine[None, None, T]]) -> Flight[T]:
        """Begin *job* in *lane*, which must be free, and return its flight; :meth:`join` it next."""
        flight: Flight[T] = Flight(key)
        flight.task = asyncio.create_task(job(flight))
        self._lanes[lane] = flight
        self._tasks.add(flight.task)
        flight.task.add_done_callback(partial(self._landed, lane, flight))
        return flight

    async def join(self, lane: L, flight: Flight[T]) -> T | None:
        """Wait for *flight* and return its outcome, or None when :meth:`close` cancelled it.

        Raises what the job raised.
        """
        flight.waiters += 1
        try:
            await asyncio.wait({flight.task})
        finally:
            flight.waiters -= 1
            if not flight.waiters and not flight.task.done():
                self._free(lane, flight)
                flight.task.cancel()
        return None if flight.task.cancelled() else flight.task.result()

    def detach(self, concerns: Callable[[L], bool]) -> None:
        """Free the lanes that *concerns* picks; what is under way there goes on for its waiters alone."""
        for lane in [lane for lane in self._lanes if concerns(lane)]:
            self._lanes.pop(lane).detached = True

    async def close(self) -> None:
        """Cancel everything under way and wait until it has ended; the waiters get None."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _landed(self, lane: L, flight: Flight[T], task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        self._free(lane, flight)
        if not task.cancelled():
            task.exception()  # taken, so that a failure nobody waits for is not reported as lost

    def _free(self, lane: L, flight: Flight[T]) -> None:
        flight.detached = True
        if self._lanes.get(lane) is flight:
            del self._lanes[lane]
