"""Two daemons on one database: one writes a session, the other waits its turn, and neither merges."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.protocol.messages import PermissionAnswer, PermissionRequest
from sidecar_client import SidecarClient, SidecarClientError

if TYPE_CHECKING:
    from postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.processes, pytest.mark.e2e]
ANSWERS = [[{"text": f"answer {n}"}] for n in range(9)]
WRITE = {"name": "write", "input": {"path": "new.txt", "content": "hello"}}
WRITES = [[{"toolCall": WRITE}], [{"text": "done"}]]


def spawn(
    tmp_path: Path, name: str, address: str, script: Any = ANSWERS, permission: Any = None
) -> SidecarClient:
    """Return the client of a daemon with a state directory of its own, as on another machine."""
    home = tmp_path / name
    setup: Any = {} if permission is None else {"permission": permission}
    home.mkdir()
    (home / "config.toml").write_text(f'store = "{address}"\n')
    environment, options = {"INDUSAGI_HOME": str(home)}, {"models": {"fake-1": {"scripted": script}}}
    return SidecarClient.spawn(cwd=tmp_path, env=environment, options=options, **setup)


async def texts(client: SidecarClient, sid: str) -> list[str]:
    page = await client.session_read(sid, view="full")
    return [block["text"] for node in page.nodes for block in node.blocks if "text" in block]


async def test_a_session_moves_from_machine_to_machine(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    address = server.conninfo("ann", database)
    async with spawn(tmp_path, "a", address) as first, spawn(tmp_path, "b", address) as second:
        session = await first.start_session(tmp_path, model="fake-1")
        assert (await session.run("one")).stop_reason == "end_turn"
        [listed] = (await second.session_list()).sessions
        assert listed.sid == session.sid
        assert listed.writer == f"process {(await first.status()).pid} on {platform.node()}"
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
            with pytest.raises(SidecarClientError, match="in use by process"):
                await ours.run("late")
            async for event in events:
                if "has taken this session over" in str(event.data):
                    break
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
