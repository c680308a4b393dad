"""Turns a cancel token into the end of whatever a call is waiting for, at once and on its own task.

A call waits for bytes inside an SDK. To end that wait, the waiting task is cancelled just there, as
``asyncio.timeout`` does it, so that the SDK closes the connection on the way out. Outside of such a wait the
task is never touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar

from sidecar._internal.cancel import CancelToken

__all__ = ["Interrupted", "Interrupter"]

T = TypeVar("T")


class Interrupted(Exception):
    """The token was cancelled before or during a wait."""


class Interrupter:
    """The waits of one call under one *token*; None never interrupts. A context manager.

    The token may be cancelled from any thread.
    """

    def __init__(self, token: CancelToken | None) -> None:
        self._token = token
        self._waiting: asyncio.Task[object] | None = None
        self._was_hit = False
        self._unlisten: Callable[[], None] | None = None

    def __enter__(self) -> Interrupter:
        loop = asyncio.get_running_loop()

        def on_cancel() -> None:
            loop.call_soon_threadsafe(self._hit)

        if self._token is not None:
            self._unlisten = self._token.add_callback(on_cancel)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._unlisten is not None:
            self._unlisten()

    async def run(self, work: Awaitable[T]) -> T:
        """Return what *work* comes to. Raises Interrupted when the token is or gets cancelled."""
        if self._token is None:
            return await work
        task = asyncio.current_task()
        if task is None or self._token.cancelled:
            _discard(work)
            raise Interrupted
        before = task.cancelling()
        self._waiting = task
        try:
            result = await work
        except asyncio.CancelledError:
            if self._was_hit and task.uncancel() <= before:
                raise Interrupted from None
            raise
        finally:
            self._waiting = None
        if self._was_hit:
            # What was waited for swallowed the cancellation; it must not reach the caller's next wait.
            task.uncancel()
            raise Interrupted
        return result

    def _hit(self) -> None:
        if self._waiting is not None and not self._was_hit:
            self._was_hit = True
            self._waiting.cancel()


def _discard(work: Awaitable[object]) -> None:
    """Close a coroutine that will not be awaited, so that nobody is warned of it."""
    close = getattr(work, "close", None)
    if close is not None:
        close()
