"""Two daemons on one database: one writes a session, the other waits its turn, and neither merges."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from postgres_daemons import spawn, texts
from sidecar.protocol.messages import PermissionAnswer, PermissionRequest
from sidecar_client import SidecarClient, SidecarClientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from postgres_server import PostgresServer
    from sidecar.runtime.store.postgres.store import PostgresStore

pytestmark = [pytest.mark.postgres, pytest.mark.processes, pytest.mark.e2e]
WRITE = {"name": "write", "input": {"path": "new.txt", "content": "hello"}}
WRITES = [[{"toolCall": WRITE}], [{"text": "done"}]]
READ_AND_WRITE = [[{"toolCall": {"name": "read", "input": {"path": "new.txt"}}}], *WRITES]


async def test_a_session_moves_from_machine_to_machine(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)
    async with spawn(tmp_path, "a", address) as first, spawn(tmp_path, "b", address) as second:
        session = await first.start_session(tmp_path, model="fake-1")
        assert (await session.run("one")).stop_reason == "end_turn"
        [listed] = (await second.session_list()).sessions
        assert listed.sid == session.sid
        assert listed.lease is not None  # until then, by the clock of the database
        assert (listed.host, listed.pid) == (platform.node(), (await first.status()).pid)
        assert await texts(second, session.sid) == ["one", "answer 0"]
        with pytest.raises(SidecarClientError, match=r"in use by process \d+ on"):
            await second.load_session(session.sid)
        await first.session_close(session.sid)
        theirs = await second.load_session(session.sid)
        assert (await theirs.run("two")).stop_reason == "end_turn"
        assert await texts(first, session.sid) == ["one", "answer 0", "two", "answer 0"]


async def test_a_daemon_that_lost_its_lease_refuses_the_turn_and_says_so(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)
    async with spawn(tmp_path, "a", address) as first, spawn(tmp_path, "b", address) as second:
        ours = await first.start_session(tmp_path, model="fake-1")
        await ours.run("one")
        # As after a pause of the first daemon that was longer than its lease.
        server.execute("UPDATE sidecar.sessions SET leased_until = '-infinity'", database)
        theirs = await second.load_session(ours.sid)
        await theirs.run("theirs")
        events = first.events(ours.sid)
        async with asyncio.timeout(20):
            with pytest.raises(SidecarClientError, match=r"has taken session .* over \[leaseLost, -32803\]"):
                await ours.run("late")
            async for event in events:
                if "has taken this session over" in str(event.data):
                    break
            while ours.sid in {
                each.sid for each in (await first.session_list()).sessions if each.host is None
            }:
                await first.status()
        with pytest.raises(SidecarClientError, match="leaseLost"):
            await ours.run("later")
        await theirs.run("two")
        assert await texts(second, ours.sid) == [
            "one", "answer 0", "theirs", "answer 0", "two", "answer 1",
        ]  # fmt: skip


async def test_a_client_follows_steers_and_answers_for_a_session_of_another_daemon(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)
    asked: list[str] = []

    async def answer(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request.title)
        return PermissionAnswer("selected", request.options[0].option_id)

    first = spawn(tmp_path, "a", address, script=WRITES)
    second = spawn(tmp_path, "b", address, permission=answer)
    async with first, second:
        session = await first.start_session(tmp_path, model="fake-1")
        await first.detach(session.sid)  # it cannot answer
        attached = await second.attach(session.sid)
        assert attached.snapshot.sid == session.sid
        events = second.events(session.sid, 0)
        ran = await second.turn_run(session.sid, ({"type": "text", "text": "write it"},))
        assert ran.stop_reason == "end_turn"
        assert (tmp_path / "new.txt").read_text() == "hello"
        assert len(asked) == 1
        kinds = []
        async with asyncio.timeout(20):
            async for event in events:
                kinds.append(event.kind)
                if event.kind == "settled":
                    break
        assert {"userMessage", "toolStarted", "toolFinished", "message", "settled"} <= {*kinds}
        assert "gap" not in kinds
        with pytest.raises(SidecarClientError, match="decided on the machine"):
            await second.request(
                "sidecar/session/setConfigOption",
                {"sid": session.sid, "configId": "permissions", "value": "allowAll"},
            )
        with pytest.raises(SidecarClientError, match="decided on the machine"):
            await second.turn_run(session.sid, ({"type": "text", "text": "x"},), allow=("git push",))
        with pytest.raises(SidecarClientError, match="no session"):
            await second.attach("nobody-has-it")
        with pytest.raises(SidecarClientError, match="no session"):
            await second.attach("\ud800\0")
        await second.detach(session.sid)
        # From now on it is a session like every other: the lease of its daemon is free.
        await first.session_close(session.sid)
        theirs = await second.load_session(session.sid)
        assert theirs.sid == session.sid


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_a_client_learns_that_the_daemon_it_followed_is_gone(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)
    first, second = spawn(tmp_path, "a", address), spawn(tmp_path, "b", address)
    async with second:
        await first.start()
        session = await first.start_session(tmp_path, model="fake-1")
        await session.run("one")
        await second.attach(session.sid)
        os.kill((await first.status()).pid, signal.SIGKILL)
        await first.close()
        # As the heartbeat does, half a minute after the last sign of life.
        server.execute("DELETE FROM sidecar.tunnels", database)
        async with asyncio.timeout(30):
            with pytest.raises(SidecarClientError, match=r"has gone|no session"):
                await second.turn_run(session.sid, ({"type": "text", "text": "two"},))
        theirs = await second.load_session(session.sid)
        assert (await theirs.run("two")).stop_reason == "end_turn"


async def test_a_client_whose_way_to_the_other_daemon_breaks_off_misses_nothing(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)
    async with spawn(tmp_path, "a", address) as first, spawn(tmp_path, "b", address) as second:
        session = await first.start_session(tmp_path, model="fake-1")
        await second.attach(session.sid)
        events = second.events(session.sid, 0)
        seqs: list[int] = []

        async def wait_for_end() -> None:
            async for event in events:
                assert event.kind != "gap"
                seqs.append(event.seq)
                if event.kind == "settled":
                    return

        async with asyncio.timeout(30):
            await session.run("one")
            await wait_for_end()
            server.execute("DELETE FROM sidecar.tunnels", database)  # as a crash of the server does
            await session.run("two")
            await wait_for_end()
            ran = await second.turn_run(session.sid, ({"type": "text", "text": "three"},))
            assert ran.stop_reason == "end_turn"
            await wait_for_end()
        assert seqs == sorted({*seqs})
        assert seqs == [*range(seqs[0], seqs[-1] + 1)]


async def test_a_lease_lost_in_a_turn_stops_it_before_its_next_change(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)
    async with spawn(tmp_path, "b", address) as second:

        async def lose(request: PermissionRequest) -> PermissionAnswer:
            # While the user thinks, this machine sleeps for longer than its lease.
            server.execute("UPDATE sidecar.sessions SET leased_until = '-infinity'", database)
            theirs = await second.load_session(sid)
            await theirs.run("theirs")
            return PermissionAnswer("selected", request.options[0].option_id)

        async with spawn(tmp_path, "a", address, script=WRITES, permission=lose) as first:
            ours = await first.start_session(tmp_path, model="fake-1")
            sid = ours.sid
            with pytest.raises(SidecarClientError, match="leaseLost"):
                await ours.run("write it")
        assert not (tmp_path / "new.txt").exists()
        assert (await texts(second, sid))[-2:] == ["theirs", "answer 0"]


async def test_a_prompt_that_waits_when_the_lease_is_lost_is_refused(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)
    async with spawn(tmp_path, "b", address) as second:

        async def lose(request: PermissionRequest) -> PermissionAnswer:
            late.append(asyncio.ensure_future(ours.run("late")))
            while len((await first.queue_list(ours.sid)).items) == 0:
                await first.status()
            server.execute("UPDATE sidecar.sessions SET leased_until = '-infinity'", database)
            await second.load_session(ours.sid)
            return PermissionAnswer("selected", request.options[0].option_id)

        late: list[asyncio.Future[object]] = []
        async with spawn(tmp_path, "a", address, script=WRITES, permission=lose) as first:
            ours = await first.start_session(tmp_path, model="fake-1")
            with pytest.raises(SidecarClientError, match="leaseLost"):
                await ours.run("write it")
            async with asyncio.timeout(20):
                with pytest.raises(SidecarClientError, match="leaseLost"):
                    await late[0]


async def test_a_session_begins_while_the_database_is_away(
    tmp_path: Path, make_server: Callable[..., PostgresServer]
) -> None:
    server = make_server()
    server.start()
    server.make_database("d")
    address = server.conninfo("ann", "d")
    async with spawn(tmp_path, "a", address) as first, spawn(tmp_path, "b", address) as second:
        server.stop()
        session = await first.start_session(tmp_path, model="fake-1")
        assert (await session.run("one")).stop_reason == "end_turn"
        server.start()
        assert (await session.run("two")).stop_reason == "end_turn"
        assert await texts(second, session.sid) == ["one", "answer 0", "two", "answer 1"]


async def test_leases_go_by_the_clock_of_the_server_alone(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)

    def spawn_with_clock(name: str, shift_s: int) -> SidecarClient:
        folder = tmp_path / f"clock-{name}"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(
            f"import time\nreal, real_ns = time.time, time.time_ns\ntime.time = lambda: real() + {shift_s}\n"
            f"time.time_ns = lambda: real_ns() + {shift_s} * 10**9\n"
        )
        return spawn(tmp_path, name, address, environment={"PYTHONPATH": str(folder)})

    async with spawn_with_clock("ahead", 3600) as ahead, spawn_with_clock("behind", -3600) as behind:
        for writer, other in ((behind, ahead), (ahead, behind)):
            session = await writer.start_session(tmp_path, model="fake-1")
            await session.run("one")
            lasts = "SELECT leased_until - clock_timestamp() FROM sidecar.sessions WHERE id = '{}'"
            [(left,)] = server.execute(lasts.format(session.sid), database)
            assert isinstance(left, timedelta)
            assert timedelta(0) < left < timedelta(seconds=30)
            with pytest.raises(SidecarClientError, match=r"in use by process \d+ on"):
                await other.load_session(session.sid)
            await writer.session_close(session.sid)
            theirs = await other.load_session(session.sid)
            await theirs.run("two")
            [listed] = [each for each in (await writer.session_list()).sessions if each.sid == session.sid]
            assert listed.lease is not None
            assert (listed.host, listed.pid) == (platform.node(), (await other.status()).pid)
        newest = (await behind.session_read(session.sid, view="full")).nodes
        hours = {round((node.created_at - newest[-1].created_at) / 3_600_000) for node in newest}
        assert hours == {0, 2}  # the clocks were shifted indeed


@pytest.mark.parametrize("are_stored", [True, False], ids=["stored", "local"])
async def test_files_are_taken_back_on_another_machine_where_the_user_lets_their_contents_be_stored(
    tmp_path: Path, server: PostgresServer, database: str, are_stored: bool
) -> None:
    address, file = server.conninfo("ann", database), tmp_path / "new.txt"
    settings = "store_checkpoints = true\n" if are_stored else ""
    before = "before é\r\n".encode("utf-16")
    file.write_bytes(before)

    async def allow(request: PermissionRequest) -> PermissionAnswer:
        return PermissionAnswer("selected", request.options[0].option_id)

    async with spawn(tmp_path, "a", address, READ_AND_WRITE, allow, settings=settings) as first:
        session = await first.start_session(tmp_path, model="fake-1")
        await session.run("write it")
        assert file.read_bytes() != before
        fork = await first.session_fork(session.sid)
    contents = server.execute("SELECT octet_length(body) FROM sidecar.contents", database)
    assert contents == ([(len(before),)] if are_stored else [])
    async with spawn(tmp_path, "b", address) as second:
        for sid in (fork.snapshot.sid, session.sid):
            changed = file.read_bytes()
            theirs = await second.load_session(sid)
            params = {"sid": theirs.sid, "checkpointId": "c1"}
            [restored] = (await second.request("sidecar/checkpoint/restore", params))["files"]
            assert restored["outcome"] == ("restored" if are_stored else "notKept")
            assert file.read_bytes() == (before if are_stored else changed)
            file.write_bytes(changed)
        for sid in (session.sid, fork.snapshot.sid):
            await second.session_delete(sid)
    assert server.execute("SELECT count(*) FROM sidecar.contents", database) == [(0,)]


async def test_a_tunnel_of_which_both_ends_died_is_removed(
    make_store: Callable[..., PostgresStore], server: PostgresServer, database: str
) -> None:
    from sidecar.attach.tunnels import Tunnels

    writer, reader = make_store(), make_store()
    await writer.hold("s")
    host, guest = Tunnels(writer, "w"), Tunnels(reader, "w")
    try:
        assert await guest.open("s", "reader") is not None
        for tunnel, seen in (("dead", "1 h"), ("host dead", "0 s")):
            server.execute(
                "INSERT INTO sidecar.tunnels"
                f" VALUES ('ann', '{tunnel}', 'x', 'y', '', '', now() - '1 h'::interval,"
                f" now() - '{seen}'::interval)",
                database,
            )
        server.execute("INSERT INTO sidecar.chunks VALUES ('ann', 'dead', true, 1, 'x')", database)
        assert guest.keep_alive([]) == set()
        left = server.execute("SELECT id FROM sidecar.tunnels WHERE id LIKE '%dead'", database)
        assert left == [("host dead",)]
        assert server.execute("SELECT count(*) FROM sidecar.chunks", database) == [(0,)]
    finally:
        await guest.aclose()
        await host.aclose()


async def test_a_notice_before_the_row_of_a_tunnel_does_not_end_it(
    make_store: Callable[..., PostgresStore],
) -> None:
    """The connection of a listener may stand at any time, and asks for everything that it missed."""
    from sidecar.attach.tunnels import Tunnels

    writer, reader = make_store(), make_store()
    await writer.hold("s")
    host, guest = Tunnels(writer, "w"), Tunnels(reader, "w")
    execute = guest.execute

    async def execute_late(*statements: tuple[str, tuple[object, ...]]) -> None:
        guest._on_notice("")
        await asyncio.gather(*(each._taking for each in guest._streams.values() if each._taking))
        await execute(*statements)

    setattr(guest, "execute", execute_late)  # noqa: B010
    try:
        stream = await guest.open("s", "reader")
        assert stream is not None
        assert stream.has_room
    finally:
        await guest.aclose()
        await host.aclose()
