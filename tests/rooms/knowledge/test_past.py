"""PastSource: the conversations of a folder, caught up with once and fed with what is said now."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sidecar.rooms import EventSource, RoomEvent, TextContent
from sidecar.rooms.knowledge.past import PastSource

FOLDER = Path("/project")
SOURCE = EventSource("clients", "websocket")


def said(session: str, name: str, text: str) -> RoomEvent:
    return RoomEvent(
        id=f"user.{name}",
        room_id=session,
        source=SOURCE,
        content=TextContent(text),
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
    )


class Talk:
    """Stored conversations: when each changed, and what was said; it writes down what was read."""

    def __init__(self) -> None:
        self.talks: dict[str, tuple[int, list[RoomEvent]]] = {}
        self.read: list[str] = []
        self.error: Exception | None = None

    def put(self, session: str, changed_at: int, *texts: str) -> None:
        self.talks[session] = (changed_at, [said(session, f"{n}", text) for n, text in enumerate(texts)])

    async def sessions(self, folder: Path) -> Mapping[str, int]:
        assert folder == FOLDER
        return {session: changed_at for session, (changed_at, _) in self.talks.items()}

    async def events(self, session_id: str) -> Sequence[RoomEvent]:
        self.read.append(session_id)
        if self.error is not None:
            raise self.error
        return self.talks[session_id][1]


class Bench:
    def __init__(self, database: Path | None) -> None:
        self.talk = Talk()
        self.database = database
        self.troubles: list[Exception] = []

    @asynccontextmanager
    async def past(self) -> AsyncIterator[PastSource]:
        """A source that has caught up."""
        made = PastSource(self.talk, FOLDER, self.database, trouble=self.troubles.append)
        made.start()
        await made.settled()
        yield made
        await made.close()


async def find(past: PastSource, query: str) -> list[tuple[str, str]]:
    await past.settled()
    found = await past.source.search(query, room_id="asking")
    return [(each.metadata["session_id"], each.metadata["event_id"]) for each in found]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "index" / "sessions.db")


async def test_what_was_said_before_is_found(bench: Bench) -> None:
    bench.talk.put("s1", 1, "the port is 7341", "thanks")
    bench.talk.put("s2", 2, "the colour is teal")
    async with bench.past() as past:
        assert await find(past, "which port?") == [("s1", "user.0")]
        assert await find(past, "teal") == [("s2", "user.0")]


async def test_a_start_reads_what_has_changed_since(bench: Bench) -> None:
    bench.talk.put("s1", 1, "the port is 7341")
    bench.talk.put("s2", 2, "the colour is teal")
    async with bench.past():
        pass
    bench.talk.put("s2", 3, "the colour is teal", "or rather mauve")
    async with bench.past() as past:
        assert bench.talk.read == ["s1", "s2", "s2"]
        assert await find(past, "mauve") == [("s2", "user.1")]
        assert await find(past, "port") == [("s1", "user.0")]


async def test_what_is_said_now_is_found_at_once(bench: Bench) -> None:
    async with bench.past() as past:
        past.ingest([said("s3", "7", "the cache lives in redis")])
        assert await find(past, "redis cache") == [("s3", "user.7")]


async def test_a_deleted_conversation_is_forgotten_now_or_at_the_next_start(bench: Bench) -> None:
    bench.talk.put("s1", 1, "the port is 7341")
    bench.talk.put("s2", 2, "the colour is teal")
    async with bench.past() as past:
        past.forget("s1")
        assert await find(past, "port") == []
    del bench.talk.talks["s2"]
    async with bench.past() as past:
        assert await find(past, "teal") == []


async def test_an_index_that_was_lost_is_fed_again(bench: Bench) -> None:
    bench.talk.put("s1", 1, "the port is 7341")
    async with bench.past():
        pass
    assert bench.database is not None
    bench.database.write_bytes(b"no database" * 500)
    async with bench.past() as past:
        await find(past, "port")
        assert await find(past, "port") == [("s1", "user.0")]


async def test_notes_that_cannot_be_read_cost_a_reading(bench: Bench) -> None:
    bench.talk.put("s1", 1, "the port is 7341")
    async with bench.past():
        pass
    assert bench.database is not None
    notes = bench.database.with_suffix(".fed.json")
    assert json.loads(notes.read_text()) == {"s1": 1}
    notes.write_text('{"s1"')
    async with bench.past() as past:
        assert bench.talk.read == ["s1", "s1"]
        assert await find(past, "port") == [("s1", "user.0")]


async def test_a_store_that_fails_is_told_and_read_again_by_the_next_start(bench: Bench) -> None:
    bench.talk.put("s1", 1, "the port is 7341")
    bench.talk.error = OSError("the disk is gone")
    async with bench.past() as past:
        assert await find(past, "port") == []
    assert [type(error) for error in bench.troubles] == [OSError]
    bench.talk.error = None
    async with bench.past() as past:
        assert await find(past, "port") == [("s1", "user.0")]


async def test_without_a_place_on_disk_it_is_kept_in_memory() -> None:
    bench = Bench(None)
    bench.talk.put("s1", 1, "the port is 7341")
    async with bench.past() as past:
        assert await find(past, "port") == [("s1", "user.0")]
