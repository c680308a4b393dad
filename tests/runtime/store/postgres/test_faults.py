"""What a database can do to a daemon: restart, cut, stand by. Nothing is lost and nothing doubled."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
import pytest

from shared_database import begin, prompt, shown
from sidecar.runtime.store import SessionLockedError, StoreUnavailable
from sidecar.runtime.store.postgres import store as store_module
from sidecar.runtime.store.postgres.connection import DatabaseError, PatientConnection
from sidecar.runtime.store.postgres.database import Database
from sidecar.runtime.store.postgres.records import Batch, insert_rows, rows_of

if TYPE_CHECKING:
    from postgres_server import PostgresServer
    from sidecar.runtime.store.postgres.store import PostgresStore

pytestmark = [pytest.mark.postgres, pytest.mark.processes]
MakeStore = Callable[..., "PostgresStore"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restart", "crash"])
async def test_turns_wait_while_the_server_is_away(
    make_store: MakeStore, server: PostgresServer, how: signal.Signals
) -> None:
    store = make_store()
    journal = await begin(store, "before")
    server.stop(how)
    try:
        with pytest.raises(StoreUnavailable, match="the database does not answer"):
            await journal.append([prompt("during")])
    finally:
        server.start()
    await journal.append([prompt("after")])
    assert await shown(store) == ["before", "during", "after"]


async def test_a_session_that_begins_while_the_server_is_away_is_stored_later(
    make_store: MakeStore, server: PostgresServer, database: str, beats: asyncio.Queue[set[str]]
) -> None:
    store, other = make_store(lease_s=3.0), make_store()
    server.stop()
    try:
        with pytest.raises(StoreUnavailable):
            await store.hold("s")
    finally:
        server.start()
    journal = store.journal("s")
    await journal.load()
    await journal.append([prompt("a")])
    assert await shown(store) == ["a"]
    # The lease that the write took is kept like every other, and released with the session.
    until = "SELECT leased_until FROM sidecar.sessions"
    [(taken,)] = server.execute(until, database)
    async with asyncio.timeout(20):
        assert await beats.get() == {"s"}
    assert server.execute(until, database) != [(taken,)]
    with pytest.raises(SessionLockedError):
        await other.hold("s")
    store.close("s")
    await store.wait_free("s")
    await other.hold("s")


@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_commit_whose_answer_is_lost_is_made_once(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    store = make_store()
    journal = await begin(store, "a")
    run = Database.run

    def cut(self: Database, work: Callable[[object], object], patience_s: float | None = None) -> object:
        if is_committed:
            run(self, work)
        raise DatabaseError("the database does not answer")

    def refuse(self: Database, work: Callable[[object], object], patience_s: float | None = None) -> object:
        raise DatabaseError("the database does not answer")

    for fault, text in ((cut, "b"), (refuse, "c")):
        with monkeypatch.context() as patch:
            patch.setattr(Database, "run", fault)
            with pytest.raises(StoreUnavailable):
                await journal.append([prompt(text)])
    await journal.append([prompt("d")])
    assert await shown(store) == ["a", "b", "c", "d"]
    assert (await store.open("s")).integrity.ok


async def test_a_killed_connection_is_replaced(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    store = make_store()
    journal = await begin(store, "a")
    server.execute(
        f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{database}'"
    )
    await journal.append([prompt("b")])
    assert await shown(store) == ["a", "b"]


async def test_a_database_that_takes_no_changes_is_told(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    store = make_store()
    journal = await begin(store)
    server.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    server.execute(
        f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{database}'"
    )
    with pytest.raises(StoreUnavailable, match="takes no changes"):
        await journal.append([prompt("a")])
    assert await shown(store) == []
    server.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
    server.execute(
        f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{database}'"
    )
    await journal.append([prompt("b")])
    assert await shown(store) == ["a", "b"]


async def test_what_waits_for_a_session_that_another_daemon_has_written_since_is_not_merged(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    ours, other = make_store(lease_s=3600), make_store()
    journal = await begin(ours, "a")
    server.stop()
    try:
        with pytest.raises(StoreUnavailable):
            await journal.append([prompt("b")])
        ours.close("s")
        await ours.leases.settle()
    finally:
        server.start()
    server.execute("UPDATE sidecar.sessions SET leased_until = '-infinity'", database)
    await begin(other, "c")
    other.close("s")
    await other.settle()
    await ours.settle()
    assert await shown(other) == ["a", "c"]


def test_a_password_is_never_told() -> None:
    with pytest.raises(DatabaseError) as told:
        Database("postgresql://ann:hunter2@127.0.0.1:9/x").run(lambda connection: None)
    assert "hunter2" not in str(told.value)
    assert isinstance(told.value.__cause__, psycopg.Error)


async def test_tables_of_a_newer_version_are_told(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    await make_store().exists("s")
    server.execute("INSERT INTO sidecar.migrations (version) VALUES (99)", database)
    with pytest.raises(StoreUnavailable, match="install a newer one"):
        await make_store().exists("s")


async def test_a_write_that_ends_after_it_was_given_up_is_made_once(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    store = make_store()
    journal = await begin(store, "a")
    store.database.patience_s = 1.0
    with psycopg.connect(server.conninfo(database=database)) as other:
        other.execute("SELECT FROM sidecar.sessions FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="the database does not answer"):
            await journal.append([prompt("b")])
        store.database.patience_s = 20.0
        # The first try goes on at the server, and the second one waits behind it.
        again = asyncio.ensure_future(journal.append([prompt("c")]))
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        async with asyncio.timeout(20):
            while server.execute(waiting) != [(2,)]:
                await asyncio.wait([again], timeout=0.05)
    await again
    assert await shown(store) == ["a", "b", "c"]


async def test_what_a_session_begins_to_share_is_not_deleted_with_another(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    store = make_store()
    await begin(store, "a", "b")
    store.close("s")
    held = await store.hold("fork")
    rows = rows_of(await store.read_raw("s"))
    with PatientConnection.connect(server.conninfo("ann", database)) as other:
        insert_rows(other, held, Batch(rows), 0, set())
        deleting = asyncio.ensure_future(store.delete("s"))
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        async with asyncio.timeout(20):
            while server.execute(waiting) != [(1,)]:
                await asyncio.wait([deleting], timeout=0.05)
    assert await deleting
    assert await shown(store, "fork") == ["a", "b"]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        pytest.param("postgresql://ann@{host}/nowhere", "refuses: database does not exist", id="no database"),
        pytest.param("postgresql://eve@{host}/{database}", "refuses: role does not exist", id="no role"),
        pytest.param(
            "postgresql://bob@{host}/closed{database}", "does not have CONNECT privilege", id="no rights"
        ),
        pytest.param("postgresql://ann@{host}/{database}?x=1", "address .* is not valid", id="typo"),
        pytest.param("postgresql://ann@127.0.0.1:9/{database}", "does not answer", id="no server"),
        pytest.param("postgresql://ann@host.invalid/{database}", "name of .* is not known", id="no host"),
        pytest.param(
            "postgresql://ann@{host}/{database}?sslmode=require", "cannot be encrypted", id="no TLS"
        ),
        pytest.param("postgresql://ann@{host}/latin{database}", "encoding .* is LATIN1", id="no UTF-8"),
    ],
)
async def test_what_a_database_refuses_is_told(
    make_store: MakeStore, server: PostgresServer, database: str, address: str, reason: str
) -> None:
    options = "OWNER ann ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    server.execute(f"CREATE DATABASE latin{database} {options}")
    server.execute(f"CREATE DATABASE closed{database}")
    server.execute(f"REVOKE CONNECT ON DATABASE closed{database} FROM PUBLIC")
    store = make_store(address=address.format(host=f"127.0.0.1:{server.port}", database=database))
    with pytest.raises(StoreUnavailable, match=reason) as told:
        await store.exists("s")
    for part in ("ann", "bob", "eve", "127.0.0.1"):
        assert not re.search(rf"\b{part}\b", str(told.value))


async def test_a_password_that_is_wrong_is_told(
    make_store: MakeStore, make_server: Callable[..., PostgresServer]
) -> None:
    server = make_server()
    server.start()
    server.execute("CREATE ROLE ann LOGIN PASSWORD 'right'")
    (server.folder / "data" / "pg_hba.conf").write_text(
        "host all tests 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    )
    server.execute("SELECT pg_reload_conf()")
    address = f"127.0.0.1:{server.port}/postgres"
    for given, reason in (("ann:hunter2", "password authentication failed"), ("ann", "asks for a password")):
        with pytest.raises(StoreUnavailable, match=reason) as told:
            await make_store(address=f"postgresql://{given}@{address}").exists("s")
        assert "hunter2" not in str(told.value)


def test_a_server_that_is_too_old_is_told(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", 110_022)
    found = Database(server.conninfo("ann", database))
    with pytest.raises(DatabaseError, match="PostgreSQL 11 is too old; 12 or newer is needed"):
        found.run(lambda connection: None)


async def test_what_waits_is_written_without_a_further_write(
    make_store: MakeStore, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_AGAIN_S", 0.1)
    store, other = make_store(), make_store()
    journal = await begin(store, "before")
    closed = await begin(store, "of another", sid="closed")
    server.stop()
    try:
        for each in (journal, closed):
            with pytest.raises(StoreUnavailable):
                await each.append([prompt("during")])
        assert journal.is_behind
        store.close("closed")
    finally:
        server.start()
    async with asyncio.timeout(20):
        while await shown(other) != ["before", "during"] or len(await shown(other, "closed")) < 2:
            await store.exists("s")
    assert await shown(other, "closed") == ["of another", "during"]
    assert not journal.is_behind
