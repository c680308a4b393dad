"""Tasks with an owner: each is awaited, or ended and awaited, but nobody hangs on one that refuses to end.

A task that will not be cancelled is let go after the grace: nothing can end it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TypeVar

from sidecar._internal.cancel import CancelToken

__all__ = ["reap", "run_until_cancelled"]

T = TypeVar("T")


async def run_until_cancelled(
    work: Coroutine[object, object, T], cancel: CancelToken, grace_s: float
) -> asyncio.Task[T] | None:
    """Run *work* in a task of its own and return that task when it is done, however it ended.

    Once *cancel* fires, from whichever thread, the task is ended and None is returned.
    """
    loop = asyncio.get_running_loop()
    fired: asyncio.Future[None] = loop.create_future()

    def on_cancel() -> None:
        loop.call_soon_threadsafe(fired.set_result, None)

    unlisten = cancel.add_callback(on_cancel)
    task = asyncio.create_task(work)
    task.add_done_callback(_look_at)
    try:
        await asyncio.wait((task, fired), return_when=asyncio.FIRST_COMPLETED)
    finally:
        unlisten()
        await reap((task,), grace_s)
    return None if cancel.cancelled else task


async def reap(tasks: Iterable[asyncio.Task[T]], grace_s: float) -> None:
    """Cancel *tasks* and wait until they are done, for at most *grace_s* seconds. Never raises for them."""
    alive = {task for task in tasks if not task.done()}
    for task in alive:
        task.cancel()
        task.add_done_callback(_look_at)
    if alive:
        await asyncio.wait(alive, timeout=grace_s)


def _look_at(task: asyncio.Task[T]) -> None:
    """Retrieve what the task ended with, so that asyncio does not report it as overlooked."""
    if not task.cancelled():
        task.exception()
