"""SessionsSource finds messages of sessions; SessionsIndex keeps it filled for a folder."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from room_events import FakeSessionArchive, make_message
from sidecar.rooms import KnowledgeResult
from sidecar.rooms.knowledge import SessionEntry, SessionsSource
from sidecar.rooms.knowledge.sessions import SessionsIndex

TALK = (
    SessionEntry("s1", "n1", "we chose the parser by hand", 100),
    SessionEntry("s1", "n2", "the window holds 200000 tokens", 200),
    SessionEntry("s2", "n3", "that parser was too slow", 300),
)


@asynccontextmanager
async def sessions(**options: Any) -> AsyncIterator[SessionsSource]:
    """A source that was fed TALK, in the end closed."""
    source = SessionsSource(**options)
    assert await source.add(TALK) == 3
    yield source
    await source.close()


async def nodes(source: SessionsSource, query: str, **options: Any) -> list[str]:
    """The nodes found."""
    return [find.metadata["event_id"] for find in await source.search(query, **options)]


async def node_ids(source: SessionsSource, session_id: str) -> frozenset[str]:
    """The nodes of a session that are indexed."""
    return await source._thread.call(lambda index: index.keys(session_id))


async def test_finds_say_who_said_it_when() -> None:
    """The text, and where it is from."""
    async with sessions() as source:
        (find,) = await source.search("how many tokens?")
        assert find == KnowledgeResult(
            content="the window holds 200000 tokens",
            score=find.score,
            source="sessions",
            metadata={"session_id": "s1", "event_id": "n2", "created_at_ms": 200},
        )
        assert (0 < find.score <= 1, source.name) == (True, "sessions")


@pytest.mark.parametrize(
    ("exclude", "found"),
    [
        pytest.param([], ["n1", "n3"], id="what was said in any session"),
        pytest.param(["n1"], ["n3"], id="without what the model sees anyway"),
    ],
)
async def test_a_search_finds_what_is_not_excluded(exclude: list[str], found: list[str]) -> None:
    async with sessions() as source:
        assert sorted(await nodes(source, "parser", room_id="s1", exclude=exclude)) == found


async def test_feeding_again_costs_nothing() -> None:
    """Only what is new or changed is taken in, and a caller can ask what is held."""
    async with sessions() as source:
        assert await source.add(TALK) == 0
        assert await source.add([*TALK, TALK[0]._replace(text="we chose the lexer")]) == 1
        assert (await nodes(source, "lexer"), await nodes(source, "parser")) == (["n1"], ["n3"])
        assert await node_ids(source, "s1") == {"n1", "n2"}
        assert await source.add([TALK[1]._replace(text=" ")]) == 0
        assert await node_ids(source, "s1") == {"n1"}


async def test_newer_messages_come_first_among_equals() -> None:
    """The same words said twice."""
    async with sessions() as source:
        await source.add(
            [SessionEntry("s3", f"m{number}", "deploy on friday", number) for number in range(3)]
        )
        assert await nodes(source, "deploy") == ["m2", "m1", "m0"]


async def test_a_session_that_is_forgotten_is_not_found() -> None:
    async with sessions() as source:
        await source.clear("s1")
        assert (await nodes(source, "parser"), await node_ids(source, "s1")) == (["n3"], frozenset())


async def test_it_is_kept_on_disk(tmp_path: Path) -> None:
    """And fed again when it was lost."""
    path = tmp_path / "sessions.db"
    async with sessions(database=path):
        pass
    again = SessionsSource(path)
    assert await nodes(again, "slow") == ["n3"]
    await again.close()
    path.write_bytes(b"garbage" * 999)
    lost: list[str] = []
    async with sessions(database=path, on_lost=lambda: lost.append("fed again")) as source:
        assert await nodes(source, "slow") == ["n3"]
    assert lost == ["fed again"]


async def test_many_entries_are_added_in_batches() -> None:
    """More than one batch's worth."""
    source = SessionsSource()
    entries = (SessionEntry("s", str(number), f"number{number}", number) for number in range(150))
    assert await source.add(entries) == 150
    assert await nodes(source, "number149") == ["149"]
    await source.close()


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
        """A source that has caught up."""
        made = SessionsIndex(self.archive, FOLDER, self.database, on_error=self.troubles.append)
        made.start()
        await made.wait_until_idle()
        yield made
        await made.close()


async def find(past: SessionsIndex, query: str) -> list[tuple[str, str]]:
    await past.wait_until_idle()
    found = await past.source.search(query, room_id="asking")
    return [(each.metadata["session_id"], each.metadata["event_id"]) for each in found]


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
