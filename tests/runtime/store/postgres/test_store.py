"""Sessions in PostgreSQL: what holds of rows, of several daemons and of several users."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import psycopg
import pytest

from sidecar._internal.errors import InvalidInput, LeaseLostError
from sidecar.conversation import Entry
from sidecar.runtime.store import SessionLockedError
from turns import texts, user

if TYPE_CHECKING:
    from postgres_server import PostgresServer
    from sidecar.runtime.store.postgres.store import PostgresStore

pytestmark = [pytest.mark.postgres, pytest.mark.processes]
MakeStore = Callable[..., "PostgresStore"]


async def test_forks_share_the_rows_of_their_nodes(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    store = make_store()
    for sid in ("s", "fork"):
        held = await store.hold(sid)
        if sid == "s":
            journal = store.journal("s")
            await journal.load()
            await journal.append([Entry(user("shared words"), "user")])
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
    old.leases.on_lost = lambda sid, who: lost.append((sid, who))
    await old.hold("s")
    journal = old.journal("s")
    await journal.load()
    await journal.append([Entry(user("mine"), "user")])
    with pytest.raises(SessionLockedError, match=r"in use by process \d+ on "):
        await new.hold("s")
    server.execute("UPDATE sidecar.sessions SET leased_until = now() - interval '1 s'", database)
    held = await new.hold("s")
    theirs = new.journal("s")
    await theirs.load()
    await theirs.append([Entry(user("theirs"), "user")])
    with pytest.raises(LeaseLostError, match="has taken session 's' over"):
        await journal.append([Entry(user("late"), "user")])
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
    store.leases.on_lost = lambda sid, who: lost.set()
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
        await journal.append([Entry(user(text), "user")])
        assert texts((await store.open("s")).graph.path_to(str(journal.head))) == [text]
        held.release()
    with psycopg.connect(server.conninfo("bob", database)) as connection:
        for table in ("sessions", "nodes", "records"):
            owners = connection.execute(f"SELECT DISTINCT owner FROM sidecar.{table}".encode()).fetchall()
            assert owners == [("bob",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("INSERT INTO sidecar.sessions (owner, id) VALUES ('ann', 'x')")


async def test_rows_are_found_by_the_indexes_of_their_owners(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    from sidecar.runtime.store.postgres import lease, records, store

    await make_store().exists("s")
    queries: dict[str, tuple[object, ...]] = {
        records.STANDS: ("s",),
        records._KEPT: (["s"],),
        store._READ: ("s",),
        records._DELETE: ("s",),
        lease._KEEP: (30, ["s"], [1]),
    }
    given = {"words": "a", "word0": "a", "limit": 50}
    with psycopg.connect(server.conninfo("ann", database)) as connection:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")

        def plan_of(query: str, values: object) -> str:
            rows = connection.execute(f"EXPLAIN {query}".encode(), values).fetchall()  # type: ignore[call-overload]  # values of any query
            return "\n".join(row[0] for row in rows)

        for query, values in queries.items():
            plan = plan_of(query, values)
            assert re.search(r"Index Cond: .*owner = ", plan), plan
        plan = plan_of(store._SEARCH, given)
        assert re.search(r"Index Cond: .*owner = .*word = ANY", plan), plan
        plan = plan_of(store._PAGE.format(store._TITLE.format("word0")), given)
        assert "Index Only Scan using sessions_titled" in plan, plan


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
async def test_sessions_are_found_by_whole_words(
    make_store: MakeStore, server: PostgresServer, database: str, locale: str
) -> None:
    options = f"TEMPLATE template0 LC_COLLATE '{locale}' LC_CTYPE '{locale}'"
    store = make_store(address=server.make_database(f"words{database}", options))
    long = "x" * 5_000
    text = f"see src/find_it.py:42, ÄPFEL & 日本 \0 {long} it's 'quoted' (a|b) https://a.example/path?q=1"
    held = await store.hold("s")
    journal = store.journal("s")
    await journal.load()
    await journal.append([Entry(user(text), "user"), Entry(user("word " * 100_000), "user")])
    held.release()
    for words in (
        ["find_it.py"], ["it"], ["SRC", "42"], ["äpfel"], ["Äpfel"], ["日本"], ["quoted", "!"], ["it's"],
        ["(a|b)"], ["a.example"], ["path"], ["word"], ["\ud83d", "see\0"],
    ):  # fmt: skip
        assert await store.search(words) == {"s"}, words
    for words in (["fin"], ["!"], ["<->", "'"], [""], [], ["see", "absent"], ["z:*"], ["日"]):
        assert await store.search(words) == set(), words


@pytest.mark.parametrize("sid", ["a\0b", "\ud800"])
async def test_an_id_that_a_database_cannot_hold_is_that_of_no_session(
    make_store: MakeStore, sid: str
) -> None:
    store = make_store()
    assert not await store.exists(sid)
    for ask in (store.hold, store.delete):
        with pytest.raises(InvalidInput, match="cannot hold the session id"):
            await ask(sid)
