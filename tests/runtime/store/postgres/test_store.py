"""Sessions in PostgreSQL: the rules that the store of files keeps, and those of several daemons."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from sidecar.conversation import Entry
from sidecar.llmgateway.contract import TextBlock, Turn, UserTurn
from sidecar.runtime.store import SessionLockedError, SessionPlace, SessionStore

if TYPE_CHECKING:
    from postgres_server import PostgresServer
    from sidecar.runtime.store.postgres.store import PostgresStore

pytestmark = [pytest.mark.postgres, pytest.mark.processes]
MakeStore = Callable[..., "PostgresStore"]


def say(text: str) -> UserTurn:
    return UserTurn((TextBlock(text),))


def texts(turns: Iterable[Turn]) -> list[str]:
    return [block.text for turn in turns for block in turn.blocks if isinstance(block, TextBlock)]


@pytest.fixture(params=["files", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, make_store: MakeStore) -> SessionPlace:
    """A place of each kind."""
    if request.param == "files":
        return SessionStore(tmp_path / "store")
    return make_store()


async def test_what_is_written_is_read_again(place: SessionPlace) -> None:
    held = await place.hold("s")
    journal = place.journal("s")
    await journal.load()
    await journal.append([Entry(say("a\x00b \ud800 é"), "user"), Entry(say("c"), "file")])
    await journal.append_records([{"type": "meta", "title": "t\x00"}, {"type": "note", "x": [1]}])
    head = journal.head
    await journal.replace([Entry(say("new"), "summary", origin=tuple(journal.node_ids))])
    await journal.move_head(head)
    place.close("s")
    held.release()
    await place.settle()
    stored = await place.open("s")
    assert stored.integrity.ok
    assert stored.graph.leaf == head
    assert texts(stored.graph.path_to(str(head))) == ["a\x00b \ud800 é", "c"]
    kinds = [entry.kind for entry in stored.graph.entries.values()]
    assert kinds == ["user", "file", "summary"]
    assert [record["type"] for record in stored.records] == ["meta", "note"]
    assert await place.exists("s")
    assert not await place.exists("other")
    [summary] = await place.summaries()
    assert (summary.session_id, summary.meta) == ("s", {"type": "meta", "title": "t\x00"})


async def test_there_is_one_writer(place: SessionPlace) -> None:
    held = await place.hold("s")
    with pytest.raises(SessionLockedError):
        await place.hold("s")
    held.release()
    held.release()
    (await place.hold("s")).release()


async def test_a_deleted_session_is_gone_and_may_begin_anew(place: SessionPlace) -> None:
    for n_turns in (2, 1):
        held = await place.hold("s")
        journal = place.journal("s")
        await journal.load()
        for n in range(n_turns):
            await journal.append([Entry(say(f"turn {n}"), "user")])
        assert len((await place.open("s")).graph.nodes) == n_turns
        place.close("s")
        held.release()
        assert await place.delete("s")
    assert not await place.delete("s")
    assert await place.summaries() == []


async def test_a_session_is_found_by_the_words_in_it(place: SessionPlace) -> None:
    for sid, text in (("a", "the unclosed Bracket\nof été"), ("b", "another bracket")):
        held = await place.hold(sid)
        journal = place.journal(sid)
        await journal.load()
        await journal.append([Entry(say("first"), "user"), Entry(say(text), "user")])
        place.close(sid)
        held.release()
    assert await place.search(["bracket"]) == {"a", "b"}
    assert await place.search(["bracket", "UNCLOSED", "first"]) == {"a"}
    assert await place.search(["été"]) == {"a"}
    assert await place.search(["nowhere"]) == set()


async def test_a_held_batch_is_stored_whole(place: SessionPlace) -> None:
    held = await place.hold("s")
    journal = place.journal("s")
    await journal.load()
    journal.hold()
    await journal.append([Entry(say("a"), "user")])
    await journal.append_records([{"type": "note"}])
    assert not await place.exists("s")
    await journal.release()
    stored = await place.open("s")
    assert (len(stored.graph.nodes), len(stored.records)) == (1, 1)
    held.release()


async def test_raw_lines_move_between_places(place: SessionPlace, tmp_path: Path) -> None:
    held = await place.hold("s")
    journal = place.journal("s")
    await journal.load()
    await journal.append([Entry(say("a"), "user"), Entry(say("b"), "user")])
    other = SessionStore(tmp_path / "other")
    await other.write_raw("s", await place.read_raw("s"))
    assert (await other.open("s")).graph.nodes == journal.nodes
    assert await other.read_raw("s") == await place.read_raw("s")
    held.release()


async def test_forks_share_the_rows_of_their_nodes(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    store = make_store()
    for sid in ("s", "fork"):
        held = await store.hold(sid)
        if sid == "s":
            journal = store.journal("s")
            await journal.load()
            await journal.append([Entry(say("shared words"), "user")])
        else:
            await store.write_raw("fork", await store.read_raw("s"))
        held.release()
    [(n_nodes, n_records)] = server.execute(
        "SELECT (SELECT count(*) FROM sidecar.nodes), (SELECT count(*) FROM sidecar.records)", database
    )
    assert (n_nodes, n_records) == (1, 4)
    await store.delete("s")
    assert len((await store.open("fork")).graph.nodes) == 1
    await store.delete("fork")
    assert server.execute("SELECT count(*) FROM sidecar.nodes", database) == [(0,)]


async def test_a_lease_that_ran_out_is_taken_over_and_its_old_holder_writes_nothing(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    old, new = make_store(lease_s=3600), make_store()
    lost: list[tuple[str, str]] = []
    old.on_lost = lambda sid, who: lost.append((sid, who))
    await old.hold("s")
    journal = old.journal("s")
    await journal.load()
    await journal.append([Entry(say("mine"), "user")])
    with pytest.raises(SessionLockedError, match=r"in use by process \d+ on "):
        await new.hold("s")
    server.execute("UPDATE sidecar.sessions SET leased_until = now() - interval '1 s'", database)
    held = await new.hold("s")
    theirs = new.journal("s")
    await theirs.load()
    await theirs.append([Entry(say("theirs"), "user")])
    with pytest.raises(SessionLockedError, match="in use by process"):
        await journal.append([Entry(say("late"), "user")])
    await asyncio.sleep(0)
    assert [sid for sid, _ in lost] == ["s"]
    assert texts(theirs.turns) == ["mine", "theirs"]
    held.release()
    await new.settle()
    await old.settle()
    stored = await new.open("s")
    assert texts(stored.graph.path_to(str(stored.graph.leaf))) == ["mine", "theirs"]


async def test_the_heartbeat_keeps_a_lease_and_tells_of_its_loss(
    make_store: MakeStore, server: PostgresServer, database: str, beats: asyncio.Queue[set[str]]
) -> None:
    store, other = make_store(lease_s=0.3), make_store(lease_s=60)
    lost = asyncio.Event()
    store.on_lost = lambda sid, who: lost.set()
    await store.hold("s")
    [(taken,)] = server.execute("SELECT leased_until FROM sidecar.sessions", database)
    async with asyncio.timeout(10):
        assert await beats.get() == {"s"}
    [(kept,)] = server.execute("SELECT leased_until FROM sidecar.sessions", database)
    assert isinstance(taken, datetime)
    assert isinstance(kept, datetime)
    assert kept > taken
    # As if this daemon had been stopped for longer than its lease.
    server.execute(
        "UPDATE sidecar.sessions SET leased_until = now() + interval '1 h', lease_token = 0", database
    )
    with pytest.raises(SessionLockedError):
        await other.hold("s")
    async with asyncio.timeout(10):
        await lost.wait()


async def test_rows_are_their_writers_alone(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    ann, bob = make_store("ann"), make_store("bob")
    for store, text in ((ann, "of ann"), (bob, "of bob")):
        held = await store.hold("s")
        journal = store.journal("s")
        await journal.load()
        await journal.append([Entry(say(text), "user")])
        assert texts((await store.open("s")).graph.path_to(str(journal.head))) == [text]
        held.release()
    with psycopg.connect(server.conninfo("bob", database)) as connection:
        for table in ("sessions", "nodes", "records"):
            owners = connection.execute(f"SELECT DISTINCT owner FROM sidecar.{table}".encode()).fetchall()
            assert owners == [("bob",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("INSERT INTO sidecar.sessions (owner, id) VALUES ('ann', 'x')")


@pytest.mark.parametrize("user", ["ann", "tests"], ids=["a user", "a superuser, whom no policy binds"])
async def test_rows_are_found_by_the_indexes_of_their_owners(
    make_store: MakeStore, server: PostgresServer, database: str, user: str
) -> None:
    from sidecar.attach import tunnels
    from sidecar.runtime.store.postgres import lease, store, writing

    await make_store(user).exists("s")
    queries: dict[str, tuple[object, ...]] = {
        writing.STANDS: ("s",),
        writing._KEPT: (["s"],),
        store._READ: ("s",),
        writing._DELETE: ("s",),
        lease._KEEP: (30, ["s"], [1]),
        tunnels._TAKE: ("t", True),
    }
    with psycopg.connect(server.conninfo(user, database)) as connection:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")
        for query, values in queries.items():
            rows = connection.execute(f"EXPLAIN {query}".encode(), values).fetchall()
            plan = "\n".join(row[0] for row in rows)
            assert re.search(r"Index Cond: .*owner = ", plan), plan
