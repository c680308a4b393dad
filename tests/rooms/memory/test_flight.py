"""B-K5: one call for all who need it, and nobody's cancellation is another's."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.rooms.memory.flight import Flight, Flights


class Gate:
    """A job that waits until it is opened, and knows what became of it."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.entered = asyncio.Event()
        self.cancelled = False
        self.n_runs = 0

    async def run(self, flight: Flight[str]) -> str:
        """Wait, then return "done"."""
        self.n_runs += 1
        self.entered.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return "done"


async def test_waiters_share_the_outcome() -> None:
    """Three waiters, one run; then the lane is free."""
    flights: Flights[str, str] = Flights()
    gate = Gate()
    flight = flights.start("lane", "key", gate.run)
    waiters = [asyncio.create_task(flights.join("lane", flight)) for _ in range(3)]
    assert flights.current("lane") is flight
    gate.opened.set()
    assert await asyncio.gather(*waiters) == ["done"] * 3
    assert (gate.n_runs, flights.current("lane")) == (1, None)


async def test_a_cancelled_waiter_cancels_nobody_else() -> None:
    """The call goes on for who is left."""
    flights: Flights[str, str] = Flights()
    gate = Gate()
    flight = flights.start("lane", "key", gate.run)
    first, second = (asyncio.create_task(flights.join("lane", flight)) for _ in range(2))
    await gate.entered.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.opened.set()
    assert await second == "done"
    assert not gate.cancelled


async def test_the_last_waiter_takes_the_call_along() -> None:
    """And frees the lane at once, so that the next one does not join a dying call."""
    flights: Flights[str, str] = Flights()
    gate = Gate()
    flight = flights.start("lane", "key", gate.run)
    only = asyncio.create_task(flights.join("lane", flight))
    await gate.entered.wait()
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    assert (flights.current("lane"), flight.detached) == (None, True)
    await flights.close()
    assert gate.cancelled


async def test_detached_calls_go_on_for_their_waiters() -> None:
    """The lane is free for another call meanwhile, and stays the other's."""
    flights: Flights[str, str] = Flights()
    old, new = Gate(), Gate()
    first = flights.start("lane", "key", old.run)
    kept = flights.start("other", "key", new.run)
    flights.detach(lambda lane: lane == "lane")
    second = flights.start("lane", "key", new.run)
    waiter = asyncio.create_task(flights.join("lane", first))
    old.opened.set()
    assert await waiter == "done"
    assert (first.detached, second.detached, kept.detached) == (True, False, False)
    assert (flights.current("lane"), flights.current("other")) == (second, kept)
    await flights.close()


async def test_close_ends_the_calls_and_tells_their_waiters() -> None:
    """They get None, and are not cancelled themselves."""
    flights: Flights[str, str] = Flights()
    gate = Gate()
    waiter = asyncio.create_task(flights.join("lane", flights.start("lane", "key", gate.run)))
    await gate.entered.wait()
    await flights.close()
    assert await waiter is None
    assert gate.cancelled


async def test_a_failure_reaches_every_waiter() -> None:
    """As what the job raised; without waiters it is not reported as lost."""
    flights: Flights[str, str] = Flights()

    async def fail(flight: Flight[str]) -> str:
        raise RuntimeError("broken")

    flight = flights.start("lane", "key", fail)
    outcomes = await asyncio.gather(
        flights.join("lane", flight), flights.join("lane", flight), return_exceptions=True
    )
    assert [str(outcome) for outcome in outcomes] == ["broken", "broken"]
