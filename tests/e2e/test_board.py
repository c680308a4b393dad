"""``sidecar sessions --watch``: the sessions of two daemons on one board, in a terminal and in a pipe."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar_client import DAEMON, Session, SidecarClient

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="drives a POSIX terminal"),
]

if os.name != "nt":
    from terminals import Screened

WATCH = (sys.executable, "-P", "-m", "sidecar", "sessions", "--watch")
SCRIPT = [[{"toolCall": {"name": "bash", "input": {"command": "touch b.txt"}}}], [{"text": "done"}]]


@pytest.fixture
def env() -> Iterator[Mapping[str, str]]:
    """A state directory with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as home:
        yield {"INDUSAGI_HOME": str(Path(home).resolve()), "HOME": home, "TERM": "xterm-256color"}


@pytest.fixture
async def daemons(env: Mapping[str, str], tmp_path: Path) -> AsyncIterator[tuple[Session, Session]]:
    """A session of a daemon of its own that waits for a permission, and an idle one of the shared daemon."""

    async def never(request: PermissionRequest) -> PermissionAnswer:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # never set

    options: dict[str, Any] = {"models": {"fake-1": {"scripted": SCRIPT}}}
    shared = (*DAEMON[:-1], "--shared", "--idle-exit", "0.01")
    async with (
        SidecarClient.spawn(cwd=tmp_path, env=env, permission=never, options=options) as own,
        SidecarClient.spawn(shared, cwd=tmp_path, env=env) as other,
    ):
        waiting = await own.start_session(tmp_path, model="fake-1", title="Make the file")
        idle = await other.start_session(tmp_path, model="offline-1", title="Look around")
        await waiting.prompt("touch it")
        yield waiting, idle


async def test_a_waiting_session_is_opened_from_the_board(
    daemons: tuple[Session, Session], env: Mapping[str, str], tmp_path: Path
) -> None:
    board = Screened(tmp_path, env, "sessions", "--watch")

    def is_drawn() -> bool:
        lines = [line for line in board.shown.splitlines() if line]
        return (
            len(lines) > 2
            and lines[1].startswith("waits for you")
            and "Make the file" in lines[1]
            and lines[2].startswith("idle")
            and "Look around" in lines[2]
        )

    def look() -> None:
        board.wait_for("1 of 2 sessions wait for you")
        board.wait_for("Run touch b.txt")
        board.wait_for(is_drawn)
        board.type("\r")
        board.wait_for("[y]es")
        board.type("y")
        board.wait_for("done")
        board.type("\x04")
        board.wait_for("0 of 2 sessions wait for you")
        board.type("q")
        assert board.end() == 0

    await asyncio.to_thread(look)
    assert (tmp_path / "b.txt").exists()


async def test_in_a_pipe_each_change_is_a_line(
    daemons: tuple[Session, Session], env: Mapping[str, str], tmp_path: Path
) -> None:
    waiting, idle = daemons
    process = await asyncio.create_subprocess_exec(
        *WATCH, "--json", stdout=subprocess.PIPE, env={**os.environ, **env}
    )
    assert process.stdout is not None
    lines: list[dict[str, Any]] = []

    async def read_until(sid: str, state: str) -> dict[str, Any]:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            while not lines or (lines[-1]["sid"], lines[-1].get("state")) != (sid, state):
                lines.append(json.loads(await process.stdout.readline()))
        return lines[-1]

    try:
        line = await read_until(waiting.sid, "waiting")
        assert (line["waitingFor"], line["text"]) == ("permission", "Run touch b.txt")
        lines.clear()
        await idle.prompt("hello")
        await read_until(idle.sid, "idle")
        await waiting.interrupt()
        await read_until(waiting.sid, "idle")
        assert [each.get("state") for each in lines if each["sid"] == idle.sid][-2:] == ["working", "idle"]
        await idle.client.session_delete(idle.sid)
    finally:
        process.terminate()
        await process.wait()
