"""Order the requests about one session: while an exclusive one runs, the later ones wait for it.

A client sends ``session/load`` and, without waiting for the answer, a prompt for that session. Sessions order
their own work, but until the load is done there is no session; so the order has to be kept around it. A
request is either ordinary and runs at once, unless an exclusive one of its session is running, or exclusive,
and then it also waits for the exclusive one before it. The invariant: at most one exclusive request of a
session runs, and nothing that came after it begins before it is over, whether it succeeded, failed or was
cancelled.

Only the newest exclusive request of a session is kept, because each waits for the one before it: the cost is
one dictionary entry for a session that is being changed, and nothing for all others.

Example: load 1, prompt, close, load 2 arrive together. Load 1 runs; the prompt and the close wait for load 1;
load 2 waits for the close.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeAlias

from sidecar.service.contract import Answer

Begin: TypeAlias = Callable[[], Answer | Awaitable[Answer]]
"""Begins to answer one request."""


class SessionOrder:
    """The newest exclusive request of each session, while it waits or runs."""

    def __init__(self) -> None:
        self._exclusive: dict[str, asyncio.Future[Answer]] = {}

    def run(self, sid: str, begin: Begin) -> Answer | Awaitable[Answer]:
        """Run a request now, or after the exclusive one that came before it."""
        before = self._exclusive.get(sid)
        return begin() if before is None else _run_after(before, begin)

    def run_exclusive(self, sid: str, begin: Begin) -> Awaitable[Answer]:
        """Run an exclusive request after those before it; later requests of *sid* wait for its answer."""
        task = asyncio.ensure_future(_run_after(self._exclusive.get(sid), begin))
        self._exclusive[sid] = task

        def release(done: asyncio.Future[Answer]) -> None:
            if not done.cancelled():
                # A client may cancel its request before the answer is awaited; an error is no fault then.
                done.exception()
            if self._exclusive.get(sid) is task:
                del self._exclusive[sid]

        task.add_done_callback(release)
        return task


async def _run_after(before: asyncio.Future[Answer] | None, begin: Begin) -> Answer:
    if before is not None:
        await asyncio.wait((before,))
    outcome = begin()
    return await outcome if isawaitable(outcome) else outcome
