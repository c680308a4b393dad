"""RetrievalMemory adds the results of its sources; a bad source costs only itself."""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from room_events import ASSISTANT, make_event
from sidecar.rooms import (
    AIMessage,
    CompositeContent,
    DeleteContent,
    EditContent,
    EventContent,
    KnowledgeResult,
    KnowledgeSource,
    LocationContent,
    MockKnowledgeSource,
    Room,
    RoomContext,
    RoomEvent,
    TextContent,
)
from sidecar.rooms.memory import MemoryResult, MockMemoryProvider, RetrievalMemory
from sidecar.rooms.memory.estimate import message_tokens
from sidecar.rooms.memory.retrieval import knowledge_message

HEADER = "[Relevant context from knowledge sources]"


HISTORY = MemoryResult([AIMessage("system", "history")], [make_event("e1", "earlier")])
ROOM = RoomContext(room=Room(id="r"))


def inner() -> MockMemoryProvider:
    return MockMemoryProvider(HISTORY.messages, HISTORY.events)


async def lines(
    sources: Sequence[KnowledgeSource], said: EventContent | str = "what is the plan?", **options: Any
) -> list[str]:
    """The lines of the knowledge message for an event that says *said*, without header; [] for no message."""
    result = await RetrievalMemory(sources, inner(), **options).retrieve("r", make_event("now", said), ROOM)
    assert result.events == HISTORY.events
    if result == HISTORY:
        return []
    message, *rest = result.messages
    assert (message.role, rest) == ("user", HISTORY.messages)
    header, *listed = str(message.content).split("\n")
    assert header == HEADER
    return listed


def finds(*pairs: tuple[str, float], source: str = "") -> MockKnowledgeSource:
    """A source that finds texts with scores."""
    return MockKnowledgeSource([KnowledgeResult(text, score, source) for text, score in pairs])


class Odd(KnowledgeSource):
    """A source whose search does whatever *behaviour* does."""

    def __init__(self, behaviour: Callable[[], Any]) -> None:
        self.behaviour = behaviour

    def search(self, query: str, *, room_id: str | None = None, limit: int = 5) -> Any:
        return self.behaviour()


async def returning(value: object) -> object:
    return value


def raising() -> None:
    """Raise before there is anything to await."""
    raise RuntimeError("broken")


async def cancelling() -> None:
    raise asyncio.CancelledError


QUERIES = {
    "a text": ("what is it?", "what is it?"),
    "the texts of a composite": (
        CompositeContent([TextContent("look"), LocationContent(1, 2), TextContent("there")]),
        "look there",
    ),
    "untrimmed": ("   ", "   "),
    "too short": ("hi", None),
    "no words": (LocationContent(1, 2), None),
}


@pytest.mark.parametrize(("said", "query"), QUERIES.values(), ids=QUERIES)
async def test_the_current_text_is_the_query(said: EventContent | str, query: str | None) -> None:
    source = finds(("a", 1))
    listed = await lines([source], said)
    assert source.search_calls == ([] if query is None else [(query, "r", 5)])
    assert listed == ([] if query is None else ["- a"])


@pytest.mark.parametrize("sources", [[], [finds(), finds()]], ids=["no source", "empty ones"])
async def test_nothing_found_changes_nothing(sources: list[KnowledgeSource]) -> None:
    assert await lines(sources) == []


async def test_results_are_merged_by_score() -> None:
    """Best first, ties in the order of the sources, the same text once with its higher score, five in all."""
    first = finds(("a", 0.2), ("b", 0.9), ("c", 0.5), source="one")
    second = finds(("a", 0.8), ("d", 0.5), ("e", 0.4), ("f", 0.1), source="two")
    assert await lines([first, second]) == ["- [one] b", "- [two] a", "- [one] c", "- [two] d", "- [two] e"]


async def test_no_more_than_max_results_are_shown() -> None:
    first, second = finds(("a", 0.2), ("b", 0.1)), finds(("c", 0.3))
    assert await lines([first, second], max_results=2) == ["- c", "- a"]
    assert first.search_calls[0].limit == 2


@pytest.mark.parametrize(
    ("result", "item"),
    [
        pytest.param(KnowledgeResult("text", source="docs"), ["- [docs] text"], id="with a source"),
        pytest.param(KnowledgeResult("text"), ["- text"], id="without one"),
        pytest.param(
            KnowledgeResult("one\n- [docs] two\r\nthree\u2028four", source="web"),
            ["- [web] one", "  - [docs] two", "  three", "  four"],
            id="lines cannot pass for items",
        ),
        pytest.param(KnowledgeResult("x", source="we\nb"), ["- [we b] x"], id="nor can the name of a source"),
        pytest.param(KnowledgeResult(" \n "), [], id="a blank find says nothing"),
    ],
)
async def test_the_largest_items_shrink_first(result: KnowledgeResult, item: list[str]) -> None:
    assert await lines([MockKnowledgeSource([result])]) == item


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(lambda: returning(None), id="returns None"),
        pytest.param(lambda: returning(7), id="returns a number"),
        pytest.param(lambda: returning(["text"]), id="returns other things"),
        pytest.param(lambda: returning([KnowledgeResult(None)]), id="a find without text"),  # type: ignore[arg-type]  # what a careless source does
        pytest.param(lambda: None, id="is not awaitable"),
        pytest.param(raising, id="raises before its first await"),
        pytest.param(cancelling, id="cancels itself"),
    ],
)
async def test_a_bad_source_costs_only_itself(behaviour: Callable[[], Any]) -> None:
    assert await lines([Odd(behaviour), finds(("good", 0.5)), Odd(behaviour)]) == ["- good"]


@pytest.mark.parametrize("score", [None, math.nan, math.inf, -math.inf, "high", -3.0])
async def test_a_score_that_is_no_number_counts_nothing(score: Any) -> None:
    odd = finds(("odd", score), ("fine", 0.2))
    assert await lines([finds(("low", 0.1)), odd, finds(("high", 0.9))]) == [
        "- high",
        "- fine",
        "- low",
        "- odd",
    ]


async def test_a_source_that_scores_by_distance_keeps_its_order() -> None:
    """Its scores are negative: the near result comes before the far one, and before weak ones of others."""
    distances = finds(("far", -3.0), ("near", -0.25))
    assert await lines([distances, finds(("weak", 0.5))]) == ["- near", "- weak", "- far"]
    assert await lines([finds(("far", -0.9), ("near", -0.1), ("hit", 0.4))]) == ["- hit", "- near", "- far"]


async def test_scores_of_different_scales_compare() -> None:
    """A source that counts to thirty does not drown one that counts to one."""
    scaled = finds(("x", 30.0), ("y", 15.0), ("z", 3.0))
    assert await lines([scaled, finds(("p", 0.9), ("q", 0.2))]) == ["- x", "- p", "- y", "- q", "- z"]


async def test_a_source_that_hangs_is_not_waited_for() -> None:
    """Also when it does not heed its cancellation; close takes care of it."""
    released = asyncio.Event()

    async def stubborn() -> list[KnowledgeResult]:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return []

    errors: list[tuple[KnowledgeSource, BaseException]] = []
    hanging = Odd(stubborn)
    memory = RetrievalMemory(
        [hanging, finds(("good", 0.5))],
        inner(),
        source_timeout_seconds=0.001,
        on_error=lambda source, error: errors.append((source, error)),
    )
    result = await memory.retrieve("r", make_event("now", "what is it?"), ROOM)
    assert result.messages[0].content == f"{HEADER}\n- good"
    assert [(source, str(error)) for source, error in errors] == [(hanging, "no answer in 0.001 s")]
    released.set()
    await memory.close()


async def test_a_cancelled_retrieve_cancels_its_searches() -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def waiting() -> list[KnowledgeResult]:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return []

    memory = RetrievalMemory([Odd(waiting)], inner())
    task = asyncio.create_task(memory.retrieve("r", make_event("now", "what is it?"), ROOM))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await memory.close()
    assert cancelled.is_set()


ECHOES = {
    "a part of it, by its id": ({"event_id": "now"}, "what is", False),
    "its words, from a source without ids": ({}, " what is the plan?\n", False),
    "an earlier event with the same words": ({"event_id": "e7"}, "what is the plan?", True),
}


@pytest.mark.parametrize(("metadata", "text", "shown"), ECHOES.values(), ids=ECHOES)
async def test_the_current_message_never_retrieves_itself(
    metadata: Mapping[str, str], text: str, shown: bool
) -> None:
    source = MockKnowledgeSource(
        [KnowledgeResult(text, 1.0, metadata=metadata), KnowledgeResult("plan", 0.5)]
    )
    assert await lines([source]) == (["- what is the plan?"] if shown else []) + ["- plan"]


async def test_the_message_is_bounded() -> None:
    """One find takes a quarter while others wait, the last all that is left."""
    source = finds(("a" * 9000, 0.9), ("b" * 9000, 0.8), ("c" * 50, 0.7), ("d" * 9000, 0.6))
    result = await RetrievalMemory([source], inner(), max_tokens=1000).retrieve(
        "r", make_event("now", "what is it?"), ROOM
    )
    message = result.messages[0]
    text = str(message.content)
    assert 990 <= message_tokens(message) <= 1000
    assert [text.count(letter * 40) for letter in "abcd"] == [24, 24, 1, 46]
    assert text.count("\n[... truncated from 9002 chars ...]") == 3


def test_what_has_no_room_is_left_out() -> None:
    """A scrap of a find is not worth its line; a short one behind it may be."""
    results = [KnowledgeResult("a" * 900), KnowledgeResult("b" * 900), KnowledgeResult("c")]
    message = knowledge_message(results, 60)
    assert message is not None
    assert str(message.content).split("\n") == [HEADER, "- c"]
    assert knowledge_message(results[:1], 20) is None


INGESTED = {
    "a short text too": (make_event("e1", "hi"), [], [("hi", "e1")]),
    "a composite": (
        make_event("e1", CompositeContent([TextContent("a"), TextContent("b")])),
        [],
        [("a b", "e1")],
    ),
    "nothing without words": (make_event("e1", LocationContent(1, 2)), [], []),
    "not what an assistant says": (make_event("e1", "answer", ASSISTANT), [], []),
    "an edit": (make_event("e2", EditContent("e1", TextContent("new"))), [("e1",)], [("new", "e1")]),
    "an assistant's edit": (
        make_event("e2", EditContent("e1", TextContent("new")), ASSISTANT),
        [("e1",)],
        [],
    ),
    "a deletion": (make_event("e2", DeleteContent("e1")), [("e1",)], []),
}


@pytest.mark.parametrize(("said", "deleted", "indexed"), INGESTED.values(), ids=INGESTED)
async def test_ingested_text_reaches_the_sources(
    said: RoomEvent, deleted: list[Any], indexed: list[tuple[str, str]]
) -> None:
    """The inner memory first, then every source, and a broken one keeps nobody from it."""
    memory, broken, source = inner(), MockKnowledgeSource(error=RuntimeError("broken")), MockKnowledgeSource()
    await RetrievalMemory([broken, source], memory).ingest("r", said, channel_id="ai1")
    calls = [(text, {"room_id": "r", "event_id": event_id}) for text, event_id in indexed]
    assert memory.ingest_calls == [("r", said, "ai1")]
    assert (source.delete_calls, source.index_calls) == (deleted, calls)
    assert (broken.delete_calls, broken.index_calls) == (deleted, calls)


async def test_clear_and_close_reach_everybody() -> None:
    class Stuck(MockMemoryProvider):
        async def clear(self, room_id: str) -> None:
            raise RuntimeError("stuck")

        async def close(self) -> None:
            raise RuntimeError("stuck")

    broken, source = MockKnowledgeSource(error=RuntimeError("broken")), MockKnowledgeSource()
    memory = RetrievalMemory([broken, source], Stuck())
    with pytest.raises(RuntimeError, match="stuck"):
        await memory.clear("r")
    with pytest.raises(RuntimeError, match="stuck"):
        await memory.close()
    assert (source.clear_calls, source.closed, broken.closed) == (["r"], True, True)


def test_the_name_tells_the_inner_memory() -> None:
    assert RetrievalMemory([], inner()).name == "RetrievalMemory(MockMemoryProvider)"


class FailsWhenStopped(MockKnowledgeSource):
    """A source whose search fails in the moment in which *stop* ends its caller."""

    stop: Callable[[], object]

    async def search(
        self, query: str, *, room_id: str | None = None, limit: int = 5
    ) -> list[KnowledgeResult]:
        self.stop()
        raise OSError("the disk is full")


async def test_a_search_that_is_stopped_leaves_no_error_of_a_source_behind() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    source = FailsWhenStopped([])
    memory = RetrievalMemory([source], inner())
    caller = asyncio.ensure_future(memory.retrieve("r", make_event("now", "what is the plan?"), ROOM))
    source.stop = caller.cancel
    await asyncio.wait([caller])
    assert caller.cancelled()
    del caller, source, memory
    gc.collect()
    assert complaints == []
