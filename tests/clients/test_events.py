"""The bounded log that readers pull from, and the events in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar_client.events import BoundedLog, ClientEvent, LogReader, SessionEventLog, gap_of

T = TypeVar("T")
Seen: TypeAlias = "int | tuple[int, int]"
"""The number of an event, or a gap from its first to its second number."""


async def read_all(stream: AsyncIterator[T]) -> list[T]:
    return [item async for item in stream]


def event(seq: int) -> ClientEvent:
    return ClientEvent(sid="s", seq=seq, at=0, kind="message", data={})


def seen(events: Sequence[ClientEvent]) -> list[Seen]:
    return [(e.data["from"], e.data["to"]) if e.kind == "gap" else e.seq for e in events]


async def check(
    pushed: Sequence[int | dict[str, Any]], after: int | None, expected: list[Seen], limit: int = 100
) -> None:
    """Every event weighs one byte; a dict is a gap the daemon tells of."""
    feed = SessionEventLog(limit)
    streams = [feed.read(after)] if after is None else []
    for item in pushed:
        feed.push(event(item) if isinstance(item, int) else gap_of({"sid": "s", **item}), 1)
    streams = streams or [feed.read(after)]
    feed.close()
    assert seen(await read_all(streams[0])) == expected


@pytest.mark.parametrize(
    ("pushed", "after", "expected"),
    [
        pytest.param([], 0, [], id="nothing is nothing"),
        pytest.param([1, 2, 3], 0, [1, 2, 3], id="from the beginning"),
        pytest.param([1, 2, 3], 2, [3], id="from a place"),
        pytest.param([7, 9], None, [7, 9], id="numbers as they come"),
        pytest.param([1, 2, 1, 2, 3], 0, [1, 2, 3], id="each number once"),
        pytest.param([0, 0, 5], None, [0, 0, 5], id="the past that is sent again, to who asked for no place"),
        pytest.param([0, 0, 5], 0, [5], id="and not to who did"),
        pytest.param([1, {"from": 2, "to": 4}, 5], 0, [1, (2, 4), 5], id="a gap in its place"),
        pytest.param([1, {"from": 2, "to": 4}, 5], 4, [5], id="no gap to who had read on"),
    ],
)
async def test_a_reader_gets_kept_and_future_items(
    pushed: Sequence[int | dict[str, Any]], after: int | None, expected: list[Seen]
) -> None:
    await check(pushed, after, expected)


@pytest.mark.parametrize(
    ("pushed", "limit", "after", "expected"),
    [
        pytest.param([1, 2, 3, 4, 5], 3, 0, [(1, 2), 3, 4, 5], id="tells what it let go"),
        pytest.param([1, 2, 3, 4, 5], 3, 1, [(2, 2), 3, 4, 5], id="tells what this reader missed"),
        pytest.param([1, 2, 3, 4, 5], 3, 2, [3, 4, 5], id="says nothing to who has read it"),
        pytest.param([1, 2], 0, 0, [(1, 1), 2], id="keeps the newest whatever it weighs"),
    ],
)
async def test_the_oldest_items_are_dropped(
    pushed: list[int], limit: int, after: int, expected: list[Seen]
) -> None:
    await check(pushed, after, expected, limit)


async def test_a_long_event_does_not_give_way_to_short_ones_behind_it() -> None:
    feed = SessionEventLog(10)
    for seq, size in ((1, 50), (2, 1), (3, 1)):
        feed.push(event(seq), size)
    stream = feed.read(0)
    assert seen([await anext(stream) for _ in range(3)]) == [1, 2, 3]
    feed.push(event(4), 50)
    feed.close()
    assert seen(await read_all(feed.read(0))) == [(1, 1), 2, 3, 4]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param([], [(0, 0), 0, 0], id="where nothing came before"),
        pytest.param([1, 2, 3, 4, 5], [(0, 0), 0, 0], id="where newer events had been let go before"),
    ],
)
async def test_a_dropped_past_is_a_gap(known: list[int], expected: list[Seen]) -> None:
    feed = SessionEventLog(2)
    for seq in known:
        feed.push(event(seq), 1)
    stream = feed.read(None)
    for seq in [0, 0, 0, 0]:
        feed.push(event(seq), 1)
    feed.close()
    assert seen(await read_all(stream)) == expected


@given(st.lists(st.integers(1, 30), unique=True, max_size=30), st.integers(0, 12), st.integers(0, 30))
def test_a_reader_gets_every_number_in_order_or_in_a_gap(pushed: list[int], limit: int, after: int) -> None:
    pushed.sort()
    feed = SessionEventLog(limit)
    for seq in pushed:
        feed.push(event(seq), 1)
    feed.close()
    reached = after
    for item in seen(asyncio.run(read_all(feed.read(after)))):
        first, last = item if isinstance(item, tuple) else (item, item)
        assert reached < first <= last
        assert not set(range(reached + 1, first)) & set(pushed)
        reached = last
    assert reached == max([after, *pushed])


def feed_of(*items: int) -> BoundedLog[int]:
    feed: BoundedLog[int] = BoundedLog(lambda before, _gone: (before or 0) - 1)
    for item in items:
        feed.push(item, 1)
    return feed


async def test_readers_wait_and_each_has_its_own_place() -> None:
    feed = feed_of(1)
    early, late = LogReader(feed, 0), LogReader(feed, feed.end)
    waiting = asyncio.create_task(anext(late))
    await asyncio.sleep(0)
    feed.push(2, 1)
    assert await waiting == 2
    assert [await anext(early), await anext(early)] == [1, 2]


async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    feed = feed_of()
    reader = LogReader(feed, 0)
    waiting = asyncio.create_task(anext(reader))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    feed.push(1, 1)
    assert await anext(reader) == 1


async def test_an_error_comes_after_the_kept_items_and_stays() -> None:
    feed = feed_of(1)
    feed.close(ValueError("gone"))
    feed.close()
    reader = LogReader(feed, 0)
    assert await anext(reader) == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="gone"):
            await anext(reader)
