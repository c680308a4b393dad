"""Keeps the requests of a session in order: while an exclusive one is at work, the later ones wait.

Knows no method. Sessions order their own work; this is for what happens around them, such as a load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import TypeAlias

from sidecar.service.contract import Answer

__all__ = ["Begin", "SessionOrder"]

Begin: TypeAlias = Callable[[], Answer | Awaitable[Answer]]
"""Begins to answer one request."""


class SessionOrder:
    """The exclusive requests that are at work, by session."""

    def __init__(self) -> None:
        self._holders: dict[str, asyncio.Future[Answer]] = {}

    def run(self, sid: str, begin: Begin) -> Answer | Awaitable[Answer]:
        """Begin a request at once, or when the exclusive one before it is over."""
        holder = self._holders.get(sid)
        return begin() if holder is None else _after(holder, begin)

    def run_exclusive(self, sid: str, begin: Begin) -> Awaitable[Answer]:
        """Begin an exclusive request in its turn; those of *sid* that come later wait for it.

        It holds the lane until its answer is on its way, also when it fails or is cancelled.
        """
        task = asyncio.ensure_future(_after(self._holders.get(sid), begin))
        self._holders[sid] = task
        task.add_done_callback(partial(self._release, sid))
        return task

    def _release(self, sid: str, task: asyncio.Future[Answer]) -> None:
        if self._holders.get(sid) is task:
            del self._holders[sid]


async def _after(holder: asyncio.Future[Answer] | None, begin: Begin) -> Answer:
    if holder is not None:
        await asyncio.wait((holder,))
    outcome = begin()
    return await outcome if isawaitable(outcome) else outcome
