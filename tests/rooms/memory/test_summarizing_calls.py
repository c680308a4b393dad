"""Summaries are shared: one call for all waiters, and a cancelled waiter cancels nobody else."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.rooms.memory.summarizing import SharedCall, SharedCalls


class Gate:
    """A job that waits until it is opened, and knows what became of it."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.entered = asyncio.Event()
        self.cancelled = False
        self.n_runs = 0

    async def run(self, call: SharedCall[str]) -> str:
        self.n_runs += 1
        self.entered.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return "done"


async def test_waiters_share_the_outcome() -> None:
    calls: SharedCalls[str, str] = SharedCalls()
    gate = Gate()
    call = calls.start("lane", "key", gate.run)
    waiters = [asyncio.create_task(calls.join("lane", call)) for _ in range(3)]
    assert calls.current("lane") is call
    gate.opened.set()
    assert await asyncio.gather(*waiters) == ["done"] * 3
    assert (gate.n_runs, calls.current("lane")) == (1, None)


async def test_a_cancelled_waiter_cancels_nobody_else() -> None:
    calls: SharedCalls[str, str] = SharedCalls()
    gate = Gate()
    call = calls.start("lane", "key", gate.run)
    first, second = (asyncio.create_task(calls.join("lane", call)) for _ in range(2))
    await gate.entered.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.opened.set()
    assert await second == "done"
    assert not gate.cancelled


async def test_the_last_waiter_takes_the_call_along() -> None:
    """And frees the lane at once, so that the next one does not join a dying call."""
    calls: SharedCalls[str, str] = SharedCalls()
    gate = Gate()
    call = calls.start("lane", "key", gate.run)
    only = asyncio.create_task(calls.join("lane", call))
    await gate.entered.wait()
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    assert (calls.current("lane"), call.detached) == (None, True)
    await calls.close()
    assert gate.cancelled


async def test_detached_calls_go_on_for_their_waiters() -> None:
    """The lane is free for another call meanwhile, and stays the other's."""
    calls: SharedCalls[str, str] = SharedCalls()
    old, new = Gate(), Gate()
    first = calls.start("lane", "key", old.run)
    kept = calls.start("other", "key", new.run)
    calls.detach(lambda lane: lane == "lane")
    second = calls.start("lane", "key", new.run)
    waiter = asyncio.create_task(calls.join("lane", first))
    old.opened.set()
    assert await waiter == "done"
    assert (first.detached, second.detached, kept.detached) == (True, False, False)
    assert (calls.current("lane"), calls.current("other")) == (second, kept)
    await calls.close()


async def test_close_ends_the_calls_and_tells_their_waiters() -> None:
    calls: SharedCalls[str, str] = SharedCalls()
    gate = Gate()
    waiter = asyncio.create_task(calls.join("lane", calls.start("lane", "key", gate.run)))
    await gate.entered.wait()
    await calls.close()
    assert await waiter is None
    assert gate.cancelled


async def test_a_failure_reaches_every_waiter() -> None:
    """As what the job raised; without waiters it is not reported as lost."""
    calls: SharedCalls[str, str] = SharedCalls()

    async def fail(call: SharedCall[str]) -> str:
        raise RuntimeError("broken")

    call = calls.start("lane", "key", fail)
    outcomes = await asyncio.gather(
        calls.join("lane", call), calls.join("lane", call), return_exceptions=True
    )
    assert [str(outcome) for outcome in outcomes] == ["broken", "broken"]
