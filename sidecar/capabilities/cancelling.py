"""A cancel token as something asyncio can wait for.

Tokens are cancelled from any thread; the future here is set on the loop's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sidecar._internal.cancel import CancelToken

__all__ = ["cancellation", "unless_cancelled"]

T = TypeVar("T")


@contextmanager
def cancellation(cancel: CancelToken) -> Iterator[asyncio.Future[None]]:
    """Give a future that is done once *cancel* is cancelled."""
    loop = asyncio.get_running_loop()
    cancelled: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if not cancelled.done():
            cancelled.set_result(None)

    def fire() -> None:
        loop.call_soon_threadsafe(resolve)

    dispose = cancel.add_callback(fire)
    try:
        yield cancelled
    finally:
        dispose()
        cancelled.cancel()


async def unless_cancelled(work: Awaitable[T], cancel: CancelToken) -> T | None:
    """Return what *work* comes to, or None when *cancel* comes first and has ended it."""
    task = asyncio.ensure_future(work)
    with cancellation(cancel) as cancelled:
        try:
            await asyncio.wait((task, cancelled), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
    return None if task.cancelled() else task.result()
