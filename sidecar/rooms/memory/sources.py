"""Asking several knowledge sources at once, so that a bad one costs only itself (failure B-K10).

A stateful shell over asyncio tasks: it holds the sources and the calls that outlived their time. It never
raises what a source raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from sidecar.rooms.source import KnowledgeSource

__all__ = ["OnSourceError", "SourcePool"]

T = TypeVar("T")

OnSourceError: TypeAlias = Callable[[KnowledgeSource, BaseException], None]
"""Is told which source failed, and how. Contract: never raises."""


class SourcePool:
    """The sources of one memory. Each call may take *timeout_seconds*."""

    def __init__(
        self, sources: Sequence[KnowledgeSource], timeout_seconds: float, on_error: OnSourceError | None
    ) -> None:
        self._sources = tuple(sources)
        self._timeout_seconds = timeout_seconds
        self._on_error = on_error
        self._late: set[asyncio.Task[object]] = set()

    def __bool__(self) -> bool:
        return bool(self._sources)

    async def ask(self, request: Callable[[KnowledgeSource], Awaitable[T]]) -> list[T | None]:
        """Put *request* to all sources at once and return their answers in order; None for one that failed.

        A source that is late is cancelled and not waited for, even if it does not heed that.
        """
        tasks = [asyncio.create_task(_put(request, source)) for source in self._sources]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._timeout_seconds)
        finally:
            for task in tasks:
                self._give_up(task)
        return [self._answer(source, task) for source, task in zip(self._sources, tasks, strict=True)]

    async def close(self) -> None:
        """Close all sources, then wait once more for the calls that were given up."""
        await self.ask(lambda source: source.close())
        if self._late:
            await asyncio.wait(self._late, timeout=self._timeout_seconds)

    def _give_up(self, task: asyncio.Task[T]) -> None:
        if not task.done():
            task.cancel()
            self._late.add(task)
            task.add_done_callback(self._late.discard)

    def _answer(self, source: KnowledgeSource, task: asyncio.Task[T]) -> T | None:
        error = self._error(task)
        if error is None:
            return task.result()
        if self._on_error is not None:
            self._on_error(source, error)
        return None

    def _error(self, task: asyncio.Task[T]) -> BaseException | None:
        if not task.done():
            return TimeoutError(f"no answer in {self._timeout_seconds} s")
        if task.cancelled():
            return asyncio.CancelledError("the source cancelled its own call")
        return task.exception()


async def _put(request: Callable[[KnowledgeSource], Awaitable[T]], source: KnowledgeSource) -> T:
    """Make the call inside the task, where even a source that raises before its first await is contained."""
    return await request(source)
