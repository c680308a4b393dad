"""Two daemons on one database: one writes a session, the other waits its turn, and neither merges."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sidecar_client import SidecarClient, SidecarClientError

if TYPE_CHECKING:
    from postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.processes, pytest.mark.e2e]
MODELS = {"fake-1": {"scripted": [[{"text": f"answer {n}"}] for n in range(9)]}}


def spawn(tmp_path: Path, name: str, address: str) -> SidecarClient:
    """Return the client of a daemon with a state directory of its own, as on another machine."""
    home = tmp_path / name
    home.mkdir()
    (home / "config.toml").write_text(f'store = "{address}"\n')
    environment = {"INDUSAGI_HOME": str(home)}
    return SidecarClient.spawn(cwd=tmp_path, env=environment, options={"models": MODELS})


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
        assert [each.sid for each in (await second.session_list()).sessions] == [session.sid]
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
