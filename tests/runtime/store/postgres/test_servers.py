"""What a server can meet: a full disk, a role as standby, a promotion."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shared_database import begin, prompt, shown, spawn, texts
from sidecar.boot import check_database
from sidecar.runtime.store import SessionJournal, StoreUnavailable
from sidecar_client import SidecarClientError

if TYPE_CHECKING:
    from postgres_server import PostgresServer
    from sidecar.runtime.store.postgres.store import PostgresStore

pytestmark = [pytest.mark.postgres, pytest.mark.processes]
MakeStore = Callable[..., "PostgresStore"]
MakeServer = Callable[..., "PostgresServer"]
FULL = ("the disk of the database is full", "the database does not answer")
"""What is told of a full disk of tables, and of a server that a full disk of its log has stopped."""


async def fill_store(journal: SessionJournal) -> list[str]:
    """Append until the store fails, and return the prompts, of which the last one waits."""
    texts: list[str] = []
    for _ in range(1_000):
        texts.append(secrets.token_hex(20_000))
        try:
            await journal.append([prompt(texts[-1])])
        except StoreUnavailable as error:
            if error.reason in FULL:
                return texts
            raise
    raise AssertionError("the disk has room for everything")


class SmallDisk:
    """A disk of a few megabytes at *folder*."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder.with_name(f"{folder.name}-ballast")

    def fill(self) -> None:
        """Leave no room."""
        n_free = shutil.disk_usage(self.folder).free
        with self._ballast.open("wb") as file:
            file.write(bytes(n_free))

    def empty(self) -> None:
        """Leave all of the room again."""
        self._ballast.unlink()


@pytest.fixture
def small_disk(make_server: MakeServer) -> Iterator[SmallDisk]:
    """A disk of 24 megabytes for a server; mounting one is for root."""
    from postgres_server import user_that_may_run_it

    user = user_that_may_run_it()
    if sys.platform != "linux" or user is None:
        pytest.skip("only root may mount a small disk")
    with tempfile.TemporaryDirectory() as place:
        command = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=0755", "tmpfs", place]
        if (found := subprocess.run(command, capture_output=True)).returncode != 0:
            pytest.skip(f"a small disk cannot be mounted here: {found.stderr.decode()}")
        try:
            folder = Path(place) / "data"
            folder.mkdir()
            shutil.chown(folder, user)
            yield SmallDisk(folder)
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def address_on_small_disk(make_server: MakeServer, small_disk: SmallDisk) -> str:
    """The address of a database whose tables are on the small disk."""
    server = make_server()
    server.start()
    server.execute(f"CREATE TABLESPACE small LOCATION '{small_disk.folder}'")
    server.make_database("d", "TABLESPACE small")
    return server.conninfo("ann", "d")


async def test_a_full_disk_refuses_a_turn_and_takes_it_once_there_is_room(
    make_store: MakeStore, address_on_small_disk: str, small_disk: SmallDisk
) -> None:
    store, reader = make_store(address=address_on_small_disk), make_store(address=address_on_small_disk)
    journal = await begin(store, "first")
    small_disk.fill()
    written = await fill_store(journal)
    assert await shown(reader) == ["first", *written[:-1]]
    small_disk.empty()
    await journal.append([prompt("last")])
    assert await shown(reader) == ["first", *written, "last"]


async def test_a_full_disk_of_the_log_stops_a_server_and_loses_nothing(
    make_store: MakeStore, make_server: MakeServer, small_disk: SmallDisk
) -> None:
    server = make_server(wal=small_disk.folder)
    server.start("min_wal_size=2MB", "max_wal_size=2MB")
    server.make_database("d")
    store = make_store(address=server.conninfo("ann", "d"))
    journal = await begin(store, "first")
    small_disk.fill()
    written = await fill_store(journal)
    small_disk.empty()
    server.stop(signal.SIGQUIT)
    server.start()
    await journal.append([prompt("last")])
    assert await shown(store) == ["first", *written, "last"]


@pytest.mark.e2e
async def test_a_daemon_tells_that_a_full_disk_keeps_its_turns_from_being_stored(
    tmp_path: Path, address_on_small_disk: str, small_disk: SmallDisk
) -> None:
    answer = secrets.token_hex(10_000)
    async with spawn(tmp_path, "a", address_on_small_disk, script=[[{"text": answer}]] * 9) as client:
        session = await client.start_session(tmp_path, model="fake-1")
        events = client.events(session.sid)
        small_disk.fill()
        ran = await session.run("one")
        async with asyncio.timeout(20):
            async for event in events:
                if "disk of the database is full" in str(event.data):
                    break
        assert ran.stop_reason == "end_turn"
        small_disk.empty()
        await session.run("two")
    async with spawn(tmp_path, "b", address_on_small_disk) as client:
        assert await texts(client, session.sid) == ["one", answer, "two", answer]


@pytest.mark.e2e
async def test_a_daemon_at_a_standby_reads_and_one_of_two_servers_goes_on_after_a_promotion(
    tmp_path: Path, make_server: MakeServer
) -> None:
    leader = make_server()
    leader.start()
    leader.make_database("d")
    standby = make_server(leader=leader)
    standby.start()
    # From now on a commit is told once the standby shows it.
    leader.execute("ALTER SYSTEM SET synchronous_commit = remote_apply")
    leader.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    leader.execute("SELECT pg_reload_conf()")
    alone = standby.conninfo("ann", "d")
    either = (
        f"postgresql://ann@127.0.0.1:{leader.port},127.0.0.1:{standby.port}/d?target_session_attrs=read-write"
    )
    async with spawn(tmp_path, "a", either) as first, spawn(tmp_path, "b", alone) as second:
        session = await first.start_session(tmp_path, model="fake-1")
        await session.run("one")
        [listed] = (await second.session_list()).sessions
        assert listed.sid == session.sid
        assert await texts(second, session.sid) == ["one", "answer 0"]
        assert "takes no changes" in check_database(alone)
        started = await second.start_session(tmp_path, model="fake-1")
        assert (await started.run("in memory")).stop_reason == "end_turn"
        leader.stop(signal.SIGQUIT)
        with pytest.raises(SidecarClientError, match="takes no changes now, as a standby does not"):
            await second.load_session(session.sid)
        standby.execute("ALTER SYSTEM RESET synchronous_standby_names")
        standby.execute("SELECT pg_promote()")
        assert "takes no changes" not in check_database(alone)
        await session.run("two")
        assert await texts(second, session.sid) == ["one", "answer 0", "two", "answer 1"]
        await started.run("stored")
        assert await texts(first, started.sid) == ["in memory", "answer 0", "stored", "answer 1"]
