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

from shared_database import spawn, texts
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar_client import SidecarClientError, SidecarRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.processes, pytest.mark.e2e]
WRITE = {"name": "write", "input": {"path": "new.txt", "content": "hello"}}
WRITES = [[{"toolCall": WRITE}], [{"text": "done"}]]
READ_AND_WRITE = [[{"toolCall": {"name": "read", "input": {"path": "new.txt"}}}], *WRITES]


async def test_an_idle_session_moves_from_machine_to_machine(
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
        with pytest.raises(SidecarClientError, match=r"in use by process \d+ on .*sidecar shim"):
            await second.attach(session.sid)
        events = first.events(session.sid)
        theirs = await second.load_session(session.sid)
        assert (await theirs.run("two")).stop_reason == "end_turn"
        async with asyncio.timeout(20):
            async for event in events:
                if "This session goes on in process" in str(event.data):
                    break
        with pytest.raises(SidecarClientError, match=r"has taken session .* over.* once it is idle there"):
            await session.run("late")
        back = await first.load_session(session.sid)
        assert (await back.run("three")).stop_reason == "end_turn"
        assert await texts(second, session.sid) == ["one", "answer 0", "two", "answer 0", "three", "answer 1"]
        with pytest.raises(SidecarClientError, match="no session"):
            await second.attach("nobody-has-it")


async def test_a_session_at_work_is_read_and_stays_where_it_is(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)
    refused: list[SidecarClientError] = []

    async def ask(request: PermissionRequest) -> PermissionAnswer:
        """While the question is open, the session is at work."""
        for use in (second.load_session, second.session_delete):
            with pytest.raises(SidecarClientError, match=r"in use by process \d+ on") as error:
                await use(session.sid)
            refused.append(error.value)
        seen.extend(await texts(second, session.sid))
        fork = await second.session_fork(session.sid)
        assert fork.snapshot.messages == 1
        exported = await second.request("sidecar/session/export", {"sid": session.sid})
        assert "write it" in exported["text"]
        return PermissionAnswer("selected", request.options[0].option_id)

    seen: list[str] = []
    first, second = (
        spawn(tmp_path, "a", address, script=WRITES, permission=ask),
        spawn(tmp_path, "b", address),
    )
    async with first, second:
        session = await first.start_session(tmp_path, model="fake-1")
        assert (await session.run("write it")).stop_reason == "end_turn"
    assert len(refused) == 2
    assert seen == ["write it"]
    assert (tmp_path / "new.txt").read_text() == "hello"


async def test_a_session_of_a_living_daemon_of_this_machine_is_joined_there(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)
    first = spawn(tmp_path, "a", address, machine="one")
    second = spawn(tmp_path, "b", address, machine="one")
    async with first, second:
        session = await first.start_session(tmp_path, model="fake-1")
        await session.run("one")
        with pytest.raises(SidecarClientError, match="in use by process") as refused:
            await second.load_session(session.sid)
        assert isinstance(refused.value, SidecarRequestError)
        assert refused.value.data["details"]["pid"] == (await first.status()).pid
        assert (await session.run("two")).stop_reason == "end_turn"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_the_session_of_a_dead_machine_is_free_after_its_lease(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)
    first, second = spawn(tmp_path, "a", address), spawn(tmp_path, "b", address)
    async with second:
        await first.start()
        session = await first.start_session(tmp_path, model="fake-1")
        await session.run("one")
        os.kill((await first.status()).pid, signal.SIGKILL)
        await first.close()
        server.execute("UPDATE sidecar.sessions SET leased_until = leased_until - interval '28 s'", database)
        async with asyncio.timeout(20):
            theirs = await second.load_session(session.sid)
        assert (await theirs.run("two")).stop_reason == "end_turn"


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

    ahead = spawn(tmp_path, "ahead", address, clock_s=3600)
    behind = spawn(tmp_path, "behind", address, clock_s=-3600)
    async with ahead, behind:
        for writer, other in ((behind, ahead), (ahead, behind)):
            session = await writer.start_session(tmp_path, model="fake-1")
            await session.run("one")
            lasts = "SELECT leased_until - clock_timestamp() FROM sidecar.sessions WHERE id = '{}'"
            [(left,)] = server.execute(lasts.format(session.sid), database)
            assert isinstance(left, timedelta)
            assert timedelta(0) < left < timedelta(seconds=30)
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
