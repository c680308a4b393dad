"""What all connections of a process hold together, and how long strangers may stay."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.transport.bounds import HeldBytes, Strangers


class Held:
    """A bound of 100 bytes, and the connections that it ended, by name."""

    def __init__(self) -> None:
        self.bound = HeldBytes(100)
        self.ended: list[str] = []

    def open(self, name: str) -> object:
        return self.bound.open(lambda: self.ended.append(name))


@pytest.mark.parametrize(
    ("steps", "ended"),
    [
        pytest.param("a60 b40", [], id="up to the bound all may wait"),
        pytest.param("a60 b41", ["a"], id="beyond it the one ends that holds most"),
        pytest.param("a101", ["a"], id="also when it is the only one"),
        pytest.param("a50 b50 a40 b61", ["b"], id="one whose bytes move stays before one that is stuck"),
        pytest.param("a5 b50 c46", ["b"], id="one that holds little is not to blame"),
        pytest.param("a60 a0 b60", [], id="what is gone does not count"),
        pytest.param("a60 b60 c60", ["a", "b"], id="each that goes too far ends one"),
        pytest.param("a60 b60 a70 a80", ["a"], id="one that has ended counts no more"),
    ],
)
async def test_the_bytes_of_all_connections_have_one_bound(steps: str, ended: list[str]) -> None:
    held = Held()
    accounts = {name: held.open(name) for name in "abc"}
    for step in steps.split():
        accounts[step[0]].set(int(step[1:]))  # type: ignore[attr-defined]  # an account
    await asyncio.sleep(0)
    assert held.ended == ended


async def test_a_stranger_has_a_limited_time() -> None:
    strangers = Strangers(2, 0.0)
    with pytest.raises(TimeoutError):
        async with strangers.admit():
            await asyncio.Event().wait()


async def test_the_stranger_that_waits_longest_makes_way() -> None:
    strangers, gone = Strangers(2, 60.0), []

    async def wait(name: str) -> None:
        try:
            async with strangers.admit():
                await asyncio.Event().wait()
        except TimeoutError:
            gone.append(name)

    waiting = [asyncio.ensure_future(wait(name)) for name in "abcd"]
    await asyncio.wait(waiting[:2])
    assert gone == ["a", "b"]
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
