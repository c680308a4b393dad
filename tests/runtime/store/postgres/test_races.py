"""Processes that race for one session, and writers that are killed: one writes, and nothing told is lost."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from postgres_proxy import PostgresProxy
from shared_database import begin, shown

if TYPE_CHECKING:
    from postgres_server import PostgresServer
    from sidecar.runtime.store.postgres.store import PostgresStore

pytestmark = [pytest.mark.postgres, pytest.mark.processes]
MakeStore = Callable[..., "PostgresStore"]
ROOT = Path(__file__).parents[4]
N_TAKINGS = 1_000

RACER = """
import asyncio, sys
from sidecar.runtime.store import SessionLockedError
from sidecar.runtime.store.postgres.store import PostgresStore

async def race(address, name, n_takings):
    store, n_won, n_lost = PostgresStore(address), 0, 0
    while True:
        try:
            held = await store.hold("s")
        except SessionLockedError:
            n_lost += 1
            continue
        n_stored = held.n_records
        if n_stored < n_takings:
            line = b'{"type":"note","by":"%s","n":%d}\\n' % (name.encode(), n_stored)
            await store.write_raw("s", line)
            n_won += 1
        store.close("s")
        await store.settle()
        if n_stored >= n_takings:
            break
    await store.aclose()
    print(n_won, n_lost)

asyncio.run(race(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""
WRITER = """
import asyncio, sys
from shared_database import begin, prompt
from sidecar.runtime.store.postgres.store import PostgresStore

async def write(address):
    journal = await begin(PostgresStore(address))
    for n in range(4):
        await journal.append([prompt(f"p{n}")])
        print(n, flush=True)

asyncio.run(write(sys.argv[1]))
"""


def start(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", script, *arguments]
    path = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}"}
    return subprocess.Popen(command, cwd=ROOT, env=path, stdout=subprocess.PIPE)


async def test_two_processes_that_race_for_a_session_write_it_in_turns(
    make_store: MakeStore, server: PostgresServer, database: str
) -> None:
    store = make_store()
    await store.exists("s")  # the tables are there
    names, address = ("a", "b"), server.conninfo("ann", database)
    racers = [start(RACER, address, name, str(N_TAKINGS)) for name in names]
    told = [await asyncio.to_thread(racer.communicate, timeout=120) for racer in racers]
    counts = [[int(each) for each in out.split()] for out, _ in told]
    records = (await store.open("s")).records
    assert [record["n"] for record in records] == [*range(N_TAKINGS)]
    assert [n_won for n_won, _ in counts] == [
        sum(record["by"] == name for record in records) for name in names
    ]
    assert all(n_won > 0 and n_lost > 0 for n_won, n_lost in counts)


async def write_until_killed(proxy: PostgresProxy, database: str, last: int) -> tuple[list[str], bool]:
    """Return the prompts told by a writer that is killed at its block *last*, and whether it ended well."""
    n_blocks = 0

    def kill(data: bytes, is_answer: bool) -> bool:
        nonlocal n_blocks
        n_blocks += 1
        if n_blocks == last:
            process.send_signal(signal.SIGKILL)
        return True

    proxy.may_pass = kill
    process = start(WRITER, proxy.conninfo("ann", database))
    out, _ = await asyncio.to_thread(process.communicate, timeout=60)
    return [f"p{n}" for n in range(len(out.split()))], process.returncode == 0


async def test_a_writer_that_is_killed_at_any_block_loses_nothing_that_it_told(
    make_store: MakeStore, proxy: PostgresProxy, database: str
) -> None:
    store = make_store()
    await store.exists("s")  # the tables are there
    n_told = set[int]()
    for last in range(6, 200, 3):
        told, has_ended = await write_until_killed(proxy, database, last)
        n_told.add(len(told))
        # The process is known to be dead on this machine: its lease is free at once.
        await begin(store, "theirs")
        assert await shown(store) in ([*told, "theirs"], [*told, f"p{len(told)}", "theirs"])
        store.close("s")
        await store.delete("s")
        if has_ended:
            break
    assert n_told == {0, 1, 2, 3, 4}
