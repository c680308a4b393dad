"""SessionsIndex finds the messages of the sessions of a folder, and is filled with what has changed."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from room_events import FakeSessionArchive, make_message
from sidecar._internal.values import replace
from sidecar.rooms import RoomEvent, TextContent
from sidecar.rooms.knowledge.sessions import SessionsIndex

FOLDER = Path("/project")


def message(session_id: str, name: str, text: str, at_ms: int) -> RoomEvent:
    return replace(make_message(session_id, name, text), created_at=datetime.fromtimestamp(at_ms / 1000, UTC))


TALK = (
    message("s1", "n1", "we chose the parser by hand", 100),
    message("s1", "n2", "the window holds 200000 tokens", 200),
    message("s2", "n3", "that parser was too slow", 300),
)


@asynccontextmanager
async def sessions() -> AsyncIterator[SessionsIndex]:
    """An index that was given TALK, in the end closed."""
    index = SessionsIndex(FakeSessionArchive(), FOLDER, None, on_error=lambda error: pytest.fail(str(error)))
    await index.add(TALK)
    yield index
    await index.close()


async def nodes(index: SessionsIndex, query: str, **options: Any) -> list[str]:
    return [hit.key for hit in await index.find(query, limit=5, **options)]


async def node_ids(index: SessionsIndex, session_id: str) -> frozenset[str]:
    """The events of a session that are indexed."""
    return await index._thread.call(lambda index: index.keys(session_id))


async def test_a_find_has_the_text_and_its_place() -> None:
    async with sessions() as index:
        (hit,) = await index.find("how many tokens?", limit=5)
        assert (hit.room, hit.key, hit.created_at_ms) == ("s1", "n2", 200)
        assert hit.chunk.text == "the window holds 200000 tokens"
        assert 0 < hit.score <= 1


@pytest.mark.parametrize(
    ("exclude", "found"),
    [
        pytest.param([], ["n1", "n3"], id="what was said in any session"),
        pytest.param(["n1"], ["n3"], id="without what the model sees anyway"),
    ],
)
async def test_a_search_finds_what_is_not_excluded(exclude: list[str], found: list[str]) -> None:
    async with sessions() as index:
        assert sorted(await nodes(index, "parser", exclude=exclude)) == found


async def test_an_event_replaces_the_one_of_its_id() -> None:
    async with sessions() as index:
        await index.add([*TALK, replace(TALK[0], content=TextContent("we chose the lexer"))])
        assert (await nodes(index, "lexer"), await nodes(index, "parser")) == (["n1"], ["n3"])
        assert await node_ids(index, "s1") == {"n1", "n2"}
        await index.add([replace(TALK[1], content=TextContent(" "))])
        assert await node_ids(index, "s1") == {"n1"}


async def test_newer_messages_come_first_among_equals() -> None:
    async with sessions() as index:
        await index.add([message("s3", f"m{number}", "deploy on friday", number) for number in range(3)])
        assert await nodes(index, "deploy") == ["m2", "m1", "m0"]


async def test_many_events_are_added_in_batches() -> None:
    async with sessions() as index:
        await index.add(message("s", str(number), f"number{number}", number) for number in range(150))
        assert await nodes(index, "number149") == ["149"]


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


async def test_what_was_said_before_is_found(bench: Bench) -> None:
    bench.put("s1", 1, "the port is 7341", "thanks")
    bench.put("s2", 2, "the colour is teal")
    async with bench.past() as past:
        assert await find(past, "which port?") == [("s1", "user.0")]
        assert await find(past, "teal") == [("s2", "user.0")]


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
