"""Ends tasks that are not wanted any more, and waits for them, but not for ever.

A task that refuses to be cancelled is let go after the grace: nothing can end it, and nobody may hang on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["AnyTask", "reap"]

AnyTask: TypeAlias = "asyncio.Task[object]"


async def reap(tasks: Iterable[AnyTask], grace_s: float) -> None:
    """Cancel *tasks* and wait until they are done, for at most *grace_s* seconds. Never raises for them."""
    alive = {task for task in tasks if not task.done()}
    for task in alive:
        task.cancel()
        task.add_done_callback(_look_at)
    if alive:
        await asyncio.wait(alive, timeout=grace_s)


def _look_at(task: AnyTask) -> None:
    """Retrieve what the task ended with, so that asyncio does not report it as overlooked."""
    if not task.cancelled():
        task.exception()
