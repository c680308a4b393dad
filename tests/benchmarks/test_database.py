"""Sessions in PostgreSQL: the cost of a write, a lease and a list."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import scale
from postgres_fixtures import database, make_server, server
from sidecar.conductor.contract import SessionSummary
from sidecar.conductor.record.shelf import describe_stored
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.runtime.store import SessionPlace, SessionStore
from sidecar.runtime.store.place import SessionQuery

if TYPE_CHECKING:
    from postgres_server import PostgresServer
    from sidecar.runtime.store.postgres.store import PostgresStore

__all__ = ["database", "make_server", "server"]

pytestmark = [pytest.mark.postgres, pytest.mark.processes]
N_APPENDS = 100
N_SESSIONS = 1_000
N_DAEMONS = 4
N_LISTED = 100_000


@pytest.fixture
async def make_store(server: PostgresServer, database: str) -> AsyncIterator[Callable[[], PostgresStore]]:
    """Returns stores of one database, as other daemons would have."""
    from sidecar.runtime.store.postgres.store import PostgresStore

    made: list[PostgresStore] = []

    def make() -> PostgresStore:
        made.append(PostgresStore(server.conninfo("ann", database)))
        return made[-1]

    yield make
    for store in made:
        await store.aclose()


def entry(n: int) -> Entry:
    return Entry(UserTurn((TextBlock(f"turn {n} " + "some words of a conversation " * 60),)), "user")


async def append_to(place: SessionPlace, sid: str, n_appends: int) -> float:
    """Return the seconds of one append."""
    held = await place.hold(sid)
    journal = place.journal(sid)
    await journal.load()
    await journal.append([entry(0)])
    started = time.perf_counter()
    for n in range(1, n_appends):
        await journal.append([entry(n)])
    taken_s = (time.perf_counter() - started) / n_appends
    place.close(sid)
    held.release()
    await place.wait_free(sid)
    return taken_s


async def test_an_append_costs_a_few_of_a_file(
    make_store: Callable[[], PostgresStore], tmp_path: Path, times_are_judged: bool
) -> None:
    files, store = SessionStore(tmp_path), make_store()
    file_s = min([await append_to(files, f"f{n}", N_APPENDS) for n in range(3)])
    row_s = min([await append_to(store, f"r{n}", N_APPENDS) for n in range(3)])
    print(f"\nappend: {row_s * 1e3:.2f} ms in PostgreSQL, {file_s * 1e3:.2f} ms in a file")
    assert row_s / file_s <= 20 or not times_are_judged


async def test_an_append_costs_a_few_bare_inserts(
    make_store: Callable[[], PostgresStore], server: PostgresServer, database: str, times_are_judged: bool
) -> None:
    """By processor time of this process and of the server's."""
    import psycopg  # not above: it may not be installed

    store, table = (
        make_store(),
        "CREATE TABLE bare (session text, n bigint, body text, PRIMARY KEY (session, n))",
    )
    server.execute(f"{table}; GRANT ALL ON bare TO ann", database)
    words = entry(0).turn.blocks[0]
    assert isinstance(words, TextBlock)

    def used_s() -> float:
        """Return the processor time of this process and of the server's processes for clients."""
        pids = server.execute("SELECT pid FROM pg_stat_activity WHERE usename = 'ann'")
        files = [Path(f"/proc/{pid}/schedstat") for (pid,) in pids]
        return time.process_time() + sum(int(file.read_text().split()[0]) for file in files) / 1e9

    await append_to(store, "warm", 10)
    append_s, insert_s = [], []
    with psycopg.connect(server.conninfo("ann", database), autocommit=True) as connection:
        for n in range(5):
            began_s = used_s()
            await append_to(store, f"s{n}", N_APPENDS)
            between_s = used_s()
            for at in range(N_APPENDS):
                connection.execute("INSERT INTO bare VALUES (%s, %s, %s)", (f"s{n}", at, words.text))
            append_s.append(between_s - began_s)
            insert_s.append(used_s() - between_s)
    ratio = min(append_s) / min(insert_s)
    print(f"\nappend: {ratio:.1f}x of a bare insert ({min(append_s) / N_APPENDS * 1e3:.2f} ms)")
    assert ratio <= 20 or not times_are_judged


async def test_many_sessions_on_several_daemons(make_store: Callable[[], PostgresStore]) -> None:
    stores = [make_store() for _ in range(N_DAEMONS)]
    began = time.perf_counter()

    async def fill(store: PostgresStore, numbers: Sequence[int]) -> None:
        for number in numbers:
            await append_to(store, f"s{number}", 4)

    shares = [range(at, N_SESSIONS, N_DAEMONS) for at in range(N_DAEMONS)]
    await asyncio.gather(*(fill(store, share) for store, share in zip(stores, shares, strict=True)))
    taken_s = time.perf_counter() - began
    rate = N_SESSIONS * 4 / taken_s
    print(f"\n{N_SESSIONS} sessions by {N_DAEMONS} daemons, leases included: {rate:,.0f} appends a second")
    listed = await stores[0].summaries()
    assert len(listed) == N_SESSIONS


async def test_a_long_list(
    make_store: Callable[[], PostgresStore], server: PostgresServer, database: str, times_are_judged: bool
) -> None:
    store = make_store()
    await append_to(store, "first", 1)
    meta = '{"type":"meta","sid":"","cwd":"/p/%s","model":"m","engine":"none","created_at":0'
    meta += ',"parent":"p%s","kind":"subagent","updated_at":%s,"title":"title %s"}'
    server.execute(
        "INSERT INTO sidecar.sessions (owner, id, n_records, meta)"
        f" SELECT 'ann', 'l' || n, 1, format('{meta}', n % 1000, n % 1000, n * 7919 % {N_LISTED}, n)"
        f" FROM generate_series(0, {N_LISTED - 1}) AS n",
        database,
    )
    server.execute("VACUUM ANALYZE sidecar.sessions", database)
    read = store.lister(SessionSummary, describe_stored)

    async def measure(query: SessionQuery, n_expected: int) -> float:
        times = []
        for _ in range(5):
            started = time.perf_counter()
            n_listed = len(await read(query))
            times.append(time.perf_counter() - started)
            assert n_listed == n_expected
        return min(times)

    whole_s = await measure(SessionQuery(), N_LISTED)
    pages = {
        "first": (SessionQuery(limit=50), 50),
        "in the middle": (SessionQuery(limit=50, after=(N_LISTED // 2, "")), 50),
        "of a folder": (SessionQuery(limit=50, cwd="/p/7"), 50),
        "of a parent": (SessionQuery(parent="p7"), N_LISTED // 1000),
        "of a rare word": (SessionQuery(limit=50, words=(f"title {N_LISTED - 1}",)), 1),
    }
    times = {name: await measure(*given) for name, given in pages.items()}
    told = ", ".join(f"{name} {each * 1e3:.1f} ms" for name, each in times.items())
    print(f"\nlist of {N_LISTED:,}: {whole_s * 1e3:.0f} ms whole; a page of 50: {told}")
    assert max(times.values()) * 5 < whole_s or not times_are_judged


async def test_a_word_in_many_conversations(
    make_store: Callable[[], PostgresStore], server: PostgresServer, database: str, times_are_judged: bool
) -> None:
    store = make_store()
    await append_to(store, "s", 1)
    server.execute(
        "INSERT INTO sidecar.words (owner, word, session)"
        f" SELECT owner, word, 'l' || n FROM generate_series(0, {N_LISTED - 1}) AS n,"
        " unnest(ARRAY['ann', 'bob']) AS owner, unnest(ARRAY['usual', 'rare' || n]) AS word",
        database,
    )
    server.execute("VACUUM ANALYZE sidecar.words", database)
    times = {}
    for words, n_expected in ((("rare7",), 1), (("usual", "rare7"), 1), (("usual",), N_LISTED)):
        taken = []
        for _ in range(5):
            started = time.perf_counter()
            assert len(await store.search(words)) == n_expected
            taken.append(time.perf_counter() - started)
        times[" ".join(words)] = min(taken)
    told = ", ".join(f"{words}: {each * 1e3:.1f} ms" for words, each in times.items())
    print(f"\nwords in {N_LISTED:,} conversations: {told}")
    assert times["rare7"] * 10 < times["usual"] or not times_are_judged


async def test_a_lease(make_store: Callable[[], PostgresStore]) -> None:
    store = make_store()
    started = time.perf_counter()
    for n in range(50):
        held = await store.hold(f"lease{n}")
        held.release()
        await store.wait_free(f"lease{n}")
    print(f"\nlease taken and released: {(time.perf_counter() - started) / 50 * 1e3:.1f} ms")


async def test_the_model_of_scale_counts_what_is_stored(server: PostgresServer, database: str) -> None:
    measured = await scale.measure(server.conninfo("ann", database), 5, 20)
    assert measured.rows_a_node["nodes"] == 1
    assert measured.rows_a_node["records"] == pytest.approx(2.05)
    lines = scale.model(measured, scale.Habits())
    print("\n" + "\n".join(lines))
    assert lines[0] == "100,000 users with 20 sessions: 588 million nodes"
