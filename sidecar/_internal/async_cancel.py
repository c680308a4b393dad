"""Waiting in asyncio under a cancel token: futures, bounded work, tasks that are ended and awaited.

A token is cancelled from any thread; the futures and tasks here are touched on their own loop alone. They are
kept apart from the token itself, which pure rooms use without loading asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sidecar._internal.cancel import CancelToken

T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", bound=asyncio.Future[Any])


def apply_to_outcome(outcome: T | Awaitable[T], function: Callable[[T], R]) -> R | Awaitable[R]:
    """Return *function* of *outcome* now, or an awaitable of that for an outcome that is still to come."""
    if not isinstance(outcome, Awaitable):
        return function(outcome)

    async def apply_later() -> R:
        return function(await outcome)

    return apply_later()


def comes_from_within(error: BaseException) -> bool:
    """Whether *error* is a cancellation that a callee raised by itself: nobody cancels the present task."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling()


@contextmanager
def cancel_future(cancel: CancelToken) -> Iterator[asyncio.Future[None]]:
    """Give a future that is done once *cancel* is cancelled; it is cancelled itself when the block ends."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    def on_cancel() -> None:
        loop.call_soon_threadsafe(resolve)

    dispose = cancel.add_callback(on_cancel)
    try:
        yield future
    finally:
        dispose()
        future.cancel()


async def unless_cancelled(work: Awaitable[T], cancel: CancelToken) -> T | None:
    """Return the result of *work*, or None when *cancel* came first; *work* has ended by then."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve_result)
    with cancel_future(cancel) as cancelled:
        try:
            await asyncio.wait((task, cancelled), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
    return None if task.cancelled() else task.result()


async def run_until_cancelled(
    work: Coroutine[object, object, T], cancel: CancelToken, grace_s: float
) -> asyncio.Task[T] | None:
    """Run *work* in a task of its own and return that task once it is done, however it ended.

    Args:
        work: what to run; it always begins, also under a token that is cancelled already.
        cancel: once it is cancelled the task is ended and None is returned.
        grace_s: seconds that the task has to end; one that refuses is left behind.
    """
    task = asyncio.create_task(work)
    task.add_done_callback(_retrieve_result)
    with cancel_future(cancel) as cancelled:
        try:
            await asyncio.wait((task, cancelled), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                await end_tasks((task,), grace_s)
    return None if cancel.cancelled else task


async def end_tasks(tasks: Iterable[asyncio.Task[T]], grace_s: float) -> None:
    """Cancel *tasks* and wait until they are done, for at most *grace_s* seconds. Never raises for them."""
    alive = {task for task in tasks if not task.done()}
    for task in alive:
        task.cancel()
        task.add_done_callback(_retrieve_result)
    if alive:
        await asyncio.wait(alive, timeout=grace_s)


def keep_until_done(task: F, tasks: set[F]) -> F:
    """Keep *task* in *tasks* until it is done, for the event loop itself holds no task; return it."""
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def wait_shielded(task: asyncio.Task[T]) -> T:
    """Return the result of *task*, which goes on when the caller is cancelled; to fail is no fault then."""
    task.add_done_callback(_retrieve_result)
    return await asyncio.shield(task)


def _retrieve_result(task: asyncio.Future[T]) -> None:
    """Retrieve the outcome of *task*, so that asyncio does not report it as overlooked."""
    if not task.cancelled():
        task.exception()
