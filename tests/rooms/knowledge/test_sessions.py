"""SessionsIndex finds the messages of the sessions of a folder, and is filled with what has changed."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from room_events import DAY, FakeSessionArchive, make_message
from sidecar.rooms.knowledge.sessions import SessionsIndex

FOLDER = Path("/project")


class Bench:
    def __init__(self, database: Path | None) -> None:
        self.archive = FakeSessionArchive()
        self.database = database
        self.troubles: list[Exception] = []

    def put(self, session: str, changed_at: int, *texts: str) -> None:
        messages = [make_message(session, f"user.{n}", text) for n, text in enumerate(texts)]
        self.archive.put(FOLDER, session, changed_at, messages)

    @asynccontextmanager
    async def past(self) -> AsyncIterator[SessionsIndex]:
        made = SessionsIndex(self.archive, FOLDER, self.database, on_error=self.troubles.append)
        made.start()
        await made.wait_until_idle()
        yield made
        await made.close()


async def find(past: SessionsIndex, query: str) -> list[tuple[str, str]]:
    await past.wait_until_idle()
    return [(hit.room, hit.key) for hit in await past.find(query, limit=5)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "index" / "sessions.db")


async def test_what_was_said_before_is_found_as_it_was_said_last(bench: Bench) -> None:
    bench.put("s1", 1, "the port is 7341", "thanks")
    async with bench.past() as past:
        (hit,) = await past.find("which port?", limit=5)
        assert (hit.room, hit.key, hit.chunk.text) == ("s1", "user.0", "the port is 7341")
        assert hit.created_at_ms == DAY.timestamp() * 1000
        assert await past.find("port", limit=5, exclude=["user.0"]) == []
        past.ingest([make_message("s1", f"more.{n}", f"number{n}") for n in range(150)])
        past.ingest([make_message("s1", "user.0", "the door is 7341"), make_message("s1", "user.1", " ")])
        assert [await find(past, word) for word in ("port", "thanks")] == [[], []]
        assert await find(past, "door") == [("s1", "user.0")]
        assert await find(past, "number149") == [("s1", "more.149")]


async def test_a_start_reads_what_has_changed_since(bench: Bench) -> None:
    bench.put("s1", 1, "the port is 7341")
    bench.put("s2", 2, "the colour is teal")
    async with bench.past():
        pass
    bench.put("s2", 3, "the colour is teal", "or rather mauve")
    async with bench.past() as past:
        assert bench.archive.read == ["s1", "s2", "s2"]
        assert await find(past, "mauve") == [("s2", "user.1")]
        assert await find(past, "port") == [("s1", "user.0")]


async def test_what_is_said_now_is_found_at_once(bench: Bench) -> None:
    async with bench.past() as past:
        past.ingest([make_message("s3", "user.7", "the cache lives in redis")])
        assert await find(past, "redis cache") == [("s3", "user.7")]


async def test_a_deleted_conversation_is_forgotten_now_or_at_the_next_start(bench: Bench) -> None:
    bench.put("s1", 1, "the port is 7341")
    bench.put("s2", 2, "the colour is teal")
    async with bench.past() as past:
        past.forget("s1")
        assert await find(past, "port") == []
    del bench.archive.stored["s2"]
    async with bench.past() as past:
        assert await find(past, "teal") == []


async def test_an_index_that_was_lost_is_fed_again(bench: Bench) -> None:
    bench.put("s1", 1, "the port is 7341")
    async with bench.past():
        pass
    assert bench.database is not None
    bench.database.write_bytes(b"no database" * 500)
    async with bench.past() as past:
        await find(past, "port")
        assert await find(past, "port") == [("s1", "user.0")]


async def test_notes_that_cannot_be_read_cost_a_reading(bench: Bench) -> None:
    bench.put("s1", 1, "the port is 7341")
    async with bench.past():
        pass
    assert bench.database is not None
    notes = bench.database.with_suffix(".fed.json")
    assert json.loads(notes.read_text()) == {"s1": 1}
    notes.write_text('{"s1"')
    async with bench.past() as past:
        assert bench.archive.read == ["s1", "s1"]
        assert await find(past, "port") == [("s1", "user.0")]


async def test_the_record_is_read_and_written_beside_the_event_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk must not hold up the clients."""
    loop, threads = threading.get_ident(), set[int]()
    for name in ("read_text", "write_text"):
        real = getattr(Path, name)

        def spy(path: Path, *args: Any, real: Any = real) -> Any:
            threads.add(threading.get_ident())
            return real(path, *args)

        monkeypatch.setattr(Path, name, spy)
    bench.put("s1", 1, "the port is 7341")
    async with bench.past():
        pass
    assert threads
    assert loop not in threads


async def test_a_store_that_fails_is_told_and_read_again_by_the_next_start(bench: Bench) -> None:
    bench.put("s1", 1, "the port is 7341")
    bench.archive.error = OSError("the disk is gone")
    async with bench.past() as past:
        assert await find(past, "port") == []
    assert [type(error) for error in bench.troubles] == [OSError]
    bench.archive.error = None
    async with bench.past() as past:
        assert await find(past, "port") == [("s1", "user.0")]


async def test_without_a_place_on_disk_it_is_kept_in_memory() -> None:
    bench = Bench(None)
    bench.put("s1", 1, "the port is 7341")
    async with bench.past() as past:
        assert await find(past, "port") == [("s1", "user.0")]
