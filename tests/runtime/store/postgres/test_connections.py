"""What a network can do to a daemon: cut at any byte, slow down, fall silent without an end."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from postgres_proxy import PostgresProxy
from shared_database import begin, prompt, shown
from sidecar._internal.errors import LeaseLostError
from sidecar.runtime.store import SessionLockedError, StoreUnavailable
from sidecar.runtime.store.postgres import database as pool

if TYPE_CHECKING:
    from postgres_server import PostgresServer
    from sidecar.runtime.store.postgres.store import PostgresStore

pytestmark = [pytest.mark.postgres, pytest.mark.processes]
MakeStore = Callable[..., "PostgresStore"]


@pytest.mark.parametrize("is_made", [True, False], ids=["its answer is lost", "it never arrives"])
async def test_a_connection_that_is_cut_in_a_commit_stores_once(
    make_store: MakeStore, proxy: PostgresProxy, database: str, is_made: bool
) -> None:
    store = make_store(address=proxy.conninfo("ann", database))
    journal = await begin(store, "a")
    is_committing = threading.Event()

    def cut(data: bytes, is_answer: bool) -> bool:
        if b"new_records" in data and not is_answer:
            is_committing.set()
        return not is_committing.is_set() or (is_made and not is_answer)

    proxy.may_pass = cut
    with pytest.raises(StoreUnavailable, match="the database does not answer"):
        await journal.append([prompt("b")])
    assert await shown(make_store()) == (["a", "b"] if is_made else ["a"])
    proxy.may_pass = lambda data, is_answer: True
    await journal.append([prompt("c")])
    assert await shown(make_store()) == ["a", "b", "c"]


async def test_a_connection_may_be_cut_at_any_block(
    make_store: MakeStore, proxy: PostgresProxy, database: str
) -> None:
    """A session begins, is written twice and released, and the n-th block of bytes is the last of its way."""
    reader, n_cuts = make_store(), 0
    await reader.exists("s")  # the tables are there

    for last in range(1, 200):
        n_blocks = 0

        def cut(data: bytes, is_answer: bool, last: int = last) -> bool:
            nonlocal n_blocks
            n_blocks += 1
            return n_blocks != last

        proxy.may_pass = cut
        store, sid, n_failed = make_store(address=proxy.conninfo("ann", database)), f"s{last}", 0
        try:
            await store.hold(sid)
        except StoreUnavailable:
            n_failed += 1  # as a new session that is in memory for now
        journal = store.journal(sid)
        try:
            await journal.load()
        except StoreUnavailable:
            n_failed += 1
            await journal.load()
        for text in ("a", "b"):
            try:
                await journal.append([prompt(text)])
            except StoreUnavailable:
                n_failed += 1
        proxy.may_pass = lambda data, is_answer: True
        if n_failed:
            await journal.append([prompt("c")])
        assert await shown(reader, sid) == ["a", "b", "c"][: 3 if n_failed else 2]
        store.close(sid)
        await store.aclose()
        (await reader.hold(sid)).release()
        n_cuts += n_failed > 0
        if n_blocks < last:
            break
    assert n_cuts > 10


async def test_a_slow_connection_is_no_silent_one(
    make_store: MakeStore, proxy: PostgresProxy, database: str
) -> None:
    store = make_store(address=proxy.conninfo("ann", database))
    store.database.patience_s = 1.5
    journal = await begin(store, "a" * 100_000)
    proxy.piece, proxy.delay_s = 512, 0.02
    await journal.append([prompt("b")])
    started = time.monotonic()
    assert await shown(store) == ["a" * 100_000, "b"]
    assert time.monotonic() - started > store.database.patience_s


async def test_a_large_write_on_a_slow_connection_has_time(
    make_store: MakeStore, proxy: PostgresProxy, database: str
) -> None:
    """Nothing comes back while a write is on its way, and its bytes wait in buffers of the system."""
    store = make_store(address=proxy.conninfo("ann", database))
    store.database.patience_s = 0.5
    journal = await begin(store)
    content = random.Random(1).randbytes(60_000)
    store.find_content = lambda sid, name: content
    proxy.piece, proxy.delay_s = 1_000, 0.02
    started = time.monotonic()
    await journal.append([prompt("a" * 60_000)])
    await journal.append_records([{"type": "checkpoint", "content": "name"}])
    assert time.monotonic() - started > 4 * store.database.patience_s
    proxy.delay_s = 0
    assert await shown(store) == ["a" * 60_000]
    assert store.read_content("s", "name") == content


async def test_silence_stops_nothing_that_does_without_the_database(
    make_store: MakeStore, proxy: PostgresProxy, database: str
) -> None:
    store = make_store(address=proxy.conninfo("ann", database))
    await store.exists("s")
    proxy.fall_silent()
    asking = [asyncio.ensure_future(store.exists(f"s{n}")) for n in range(40)]
    n_done = 0
    while not any(each.done() for each in asking):
        await asyncio.to_thread(lambda: None)
        n_done += 1
    assert n_done > 100
    # The first found out, and the others do not wait as long for the same.
    started = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await store.exists("s")
    assert time.monotonic() - started < store.database.patience_s
    proxy.close()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_a_server_that_falls_silent_is_left_and_its_lease_runs_out(
    make_store: MakeStore, proxy: PostgresProxy, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_PATIENCE_WITH_IDLE_S", "_WAIT_S"):
        monkeypatch.setattr(pool, name, 0.5)
    store, other = make_store(address=proxy.conninfo("ann", database), lease_s=3.0), make_store()
    store.database.patience_s = 0.5
    journal = await begin(store, "a")
    lost = asyncio.Event()
    store.leases.on_lost = lambda sid, holder: lost.set()
    proxy.fall_silent()
    writing = asyncio.ensure_future(journal.append([prompt("b")]))
    n_ticks = 0
    async with asyncio.timeout(20):
        while not writing.done():  # the loop goes on meanwhile
            await asyncio.wait([writing], timeout=0.01)
            n_ticks += 1
    assert isinstance(writing.exception(), StoreUnavailable)
    assert n_ticks > 10
    async with asyncio.timeout(20):
        while True:
            try:
                await other.hold("s")
                break
            except SessionLockedError:
                await asyncio.wait([asyncio.ensure_future(lost.wait())], timeout=0.1)
    theirs = other.journal("s")
    await theirs.load()
    await theirs.append([prompt("theirs")])
    proxy.flow()
    async with asyncio.timeout(20):
        await lost.wait()
    with pytest.raises((LeaseLostError, StoreUnavailable)):
        await journal.append([prompt("late")])
    await theirs.append([prompt("two")])
    assert await shown(other) == ["a", "theirs", "two"]


async def test_one_silent_connection_costs_no_lease(
    make_store: MakeStore,
    proxy: PostgresProxy,
    server: PostgresServer,
    database: str,
    beats: asyncio.Queue[set[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "_PATIENCE_WITH_IDLE_S", 0.2)
    store = make_store(address=proxy.conninfo("ann", database), lease_s=6.0)
    await begin(store, "a")
    proxy.strand()  # a network that has forgotten them
    [(until,)] = server.execute("SELECT leased_until FROM sidecar.sessions", database)
    async with asyncio.timeout(20):
        assert await beats.get() == {"s"}
    [(kept,)] = server.execute("SELECT leased_until FROM sidecar.sessions", database)
    assert kept != until
