"""The sliding window, and the provider port with its mock."""

from __future__ import annotations

import pytest

from room_events import make_event
from sidecar.rooms import AIMessage, Room, RoomContext, RoomEvent, RoomValueError
from sidecar.rooms.memory import MemoryProvider, MemoryResult, MockMemoryProvider, SlidingWindowMemory


@pytest.mark.parametrize(
    ("max_events", "recent", "current", "kept"),
    [
        pytest.param(3, "abcde", "e", "cd", id="one less than N beside the current event"),
        pytest.param(3, "abcd", "x", "bcd", id="N when the current event is not in the tail"),
        pytest.param(9, "abc", "c", "ab", id="everything when there is less"),
        pytest.param(1, "abc", "c", "", id="the current event alone"),
        pytest.param(0, "abc", "c", "", id="zero keeps nothing"),
        pytest.param(5, "", "c", "", id="an empty room"),
    ],
)
async def test_the_window_holds_the_newest_events(
    max_events: int, recent: str, current: str, kept: str
) -> None:
    context = RoomContext(room=Room(id="r"), recent_events=[make_event(name) for name in recent])
    result = await SlidingWindowMemory(max_events).retrieve("r", make_event(current), context)
    assert "".join(each.id for each in result.events) == kept
    assert result.messages == []


async def test_the_window_is_fifty_by_default() -> None:
    recent = [make_event(str(number)) for number in range(60)]
    context = RoomContext(room=Room(id="r"), recent_events=recent)
    assert (await SlidingWindowMemory().retrieve("r", recent[-1], context)).events == recent[10:59]


def test_a_negative_window_is_refused() -> None:
    with pytest.raises(RoomValueError, match="max_events is -1"):
        SlidingWindowMemory(-1)


async def test_a_provider_needs_only_retrieve() -> None:
    """The lifecycle does nothing by default, and the class is the name."""

    class Forgetful(MemoryProvider):
        async def retrieve(
            self,
            room_id: str,
            current_event: RoomEvent,
            context: RoomContext,
            *,
            channel_id: str | None = None,
        ) -> MemoryResult:
            return MemoryResult()

    memory = Forgetful()
    await memory.ingest("r", make_event("a"))
    await memory.clear("r")
    await memory.close()
    context = RoomContext(room=Room(id="r"))
    assert await memory.retrieve("r", make_event("a"), context) == MemoryResult(messages=[], events=[])
    assert (memory.name, SlidingWindowMemory().name) == ("Forgetful", "SlidingWindowMemory")


async def test_the_mock_of_the_seed() -> None:
    context = RoomContext(room=Room(id="room1"))
    mock = MockMemoryProvider(messages=[AIMessage(role="system", content="Summary of conversation")])
    result = await mock.retrieve("room1", make_event("a"), context)
    assert len(mock.retrieve_calls) == 1
    assert result == MemoryResult(messages=[AIMessage(role="system", content="Summary of conversation")])
    await mock.ingest("room1", make_event("b"), channel_id="ai")
    await mock.clear("room1")
    await mock.close()
    assert mock.retrieve_calls == [("room1", event_of(mock), context, None)]
    assert mock.ingest_calls[0].event.id == "b"
    assert (mock.ingest_calls[0].channel_id, mock.clear_calls, mock.closed) == ("ai", ["room1"], True)


async def test_results_are_each_calls_own() -> None:
    mock = MockMemoryProvider(events=[make_event("a")])
    context = RoomContext(room=Room(id="r"))
    (await mock.retrieve("r", make_event("b"), context)).events.clear()
    assert [each.id for each in (await mock.retrieve("r", make_event("b"), context)).events] == ["a"]


def event_of(mock: MockMemoryProvider) -> RoomEvent:
    """The current event of the mock's first call."""
    return mock.retrieve_calls[0].current_event
