"""Waiting for a cancel."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine

import pytest

from sidecar._internal.async_cancel import cancel_future, unless_cancelled, wait_shielded
from sidecar._internal.cancel import CancelToken


async def test_a_cancel_from_another_thread_is_noticed() -> None:
    asyncio.get_running_loop().set_debug(True)  # it refuses what is not made for other threads
    cancel = CancelToken()
    with cancel_future(cancel) as cancelled:
        waiting = asyncio.ensure_future(asyncio.wait([cancelled]))
        await asyncio.sleep(0)  # now it waits
        await asyncio.to_thread(cancel.cancel)
        async with asyncio.timeout(20):
            await waiting


async def test_a_cancel_before_is_noticed_and_twice_is_once() -> None:
    cancel = CancelToken()
    cancel.cancel()
    with cancel_future(cancel) as first, cancel_future(cancel) as second:
        await asyncio.gather(first, second)


async def test_afterwards_there_is_no_listener() -> None:
    cancel = CancelToken()
    with cancel_future(cancel) as cancelled:
        pass
    cancel.cancel()
    assert cancelled.cancelled()


async def answer() -> str:
    return "yes"


async def fail() -> str:
    raise LookupError


async def test_work_that_is_done_first_counts() -> None:
    assert await unless_cancelled(answer(), CancelToken()) == "yes"
    with pytest.raises(LookupError):
        await unless_cancelled(fail(), CancelToken())


async def test_work_that_waits_for_ever_is_ended() -> None:
    cancel = CancelToken()
    never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(cancel.cancel)
    assert await unless_cancelled(never, cancel) is None
    assert never.cancelled()


async def test_a_cancelled_task_ends_its_work() -> None:
    never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(unless_cancelled(never, CancelToken()))
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert never.cancelled()


@pytest.mark.parametrize("wait", [wait_shielded, lambda task: unless_cancelled(task, CancelToken())])
async def test_a_failure_that_nobody_waits_for_any_more_is_no_fault(
    wait: Callable[[asyncio.Task[None]], Coroutine[object, object, None]],
) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    fails = asyncio.Event()

    async def fail_later() -> None:
        try:
            await fails.wait()
        finally:
            raise ValueError("x")

    failing = asyncio.create_task(fail_later())
    waiting = asyncio.create_task(wait(failing))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    fails.set()
    await asyncio.wait((failing,))
    del failing, waiting
    gc.collect()
    assert faults == []
