"""The bounded log that readers pull from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar_client.feed import Feed

GAP = tuple[int, int]


def feed_of(numbers: Sequence[int], limit: int = 100) -> Feed[int | GAP]:
    """Every entry is its own number and weighs one byte."""
    feed: Feed[int | GAP] = Feed(lambda first, last: (first, last), limit)
    for number in numbers:
        feed.push(number, number, 1)
    return feed


async def read_all(feed: Feed[int | GAP], after: int) -> list[int | GAP]:
    feed.end()
    return [item async for item in feed.read(after)]


@pytest.mark.parametrize(
    ("pushed", "limit", "after", "read"),
    [
        pytest.param([1, 2, 3], 100, 0, [1, 2, 3], id="reads from the beginning"),
        pytest.param([1, 2, 3], 100, 2, [3], id="reads from a place"),
        pytest.param([7, 9], 100, 0, [7, 9], id="takes numbers as they come"),
        pytest.param([5, 1, 2, 5], 100, 0, [1, 2, 5], id="puts a replay in its place, once"),
        pytest.param([1, 2, 3, 4, 5], 4, 0, [(1, 2), 3, 4, 5], id="tells what it let go"),
        pytest.param([1, 2, 3, 4, 5], 4, 1, [(2, 2), 3, 4, 5], id="tells of what this reader missed"),
        pytest.param([1, 2, 3, 4, 5], 4, 2, [3, 4, 5], id="says nothing to who has read it"),
        pytest.param([1, 2], 0, 0, [(1, 1), 2], id="keeps the newest whatever it weighs"),
        pytest.param([1, 2, 3, 4, 5, 2], 4, 0, [(1, 1), 2, 3, 4, 5], id="takes back what a replay brings"),
        pytest.param([], 100, 0, [], id="may be empty"),
    ],
)
async def test_what_is_read(pushed: list[int], limit: int, after: int, read: list[int | GAP]) -> None:
    assert await read_all(feed_of(pushed, limit), after) == read


@given(st.lists(st.integers(1, 30), unique=True, max_size=30), st.integers(0, 12), st.integers(0, 30))
def test_a_reader_gets_every_number_in_order_or_in_a_gap(pushed: list[int], limit: int, after: int) -> None:
    pushed.sort()
    items = asyncio.run(read_all(feed_of(pushed, limit), after))
    reached = after
    for item in items:
        first, last = item if isinstance(item, tuple) else (item, item)
        assert reached < first <= last
        assert isinstance(item, tuple) or item in pushed
        skipped = set(range(reached + 1, first)) & set(pushed)
        assert not skipped
        reached = last
    assert reached == max([after, *pushed])


async def test_readers_wait_and_each_has_its_own_place() -> None:
    feed = feed_of([1])
    early, late = feed.read(0), feed.read(1)
    waiting = asyncio.create_task(anext(late))
    await asyncio.sleep(0)
    feed.push(2, 2, 1)
    assert await waiting == 2
    assert [await anext(early), await anext(early)] == [1, 2]


async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    feed = feed_of([])
    reader = feed.read(0)
    waiting = asyncio.create_task(anext(reader))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    feed.push(1, 1, 1)
    assert await anext(reader) == 1


async def test_an_error_comes_after_what_is_kept_and_stays() -> None:
    feed = feed_of([1])
    feed.end(ValueError("gone"))
    feed.end()
    reader = feed.read(0)
    assert await anext(reader) == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="gone"):
            await anext(reader)
