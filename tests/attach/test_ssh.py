"""Work on a session of another machine, and move one there: over SSH, with a real server on loopback."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from scripted_sessions import DONE, call, open_session, project
from shared_daemon import PATIENCE_S, SIDECAR, Stage, stage
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar_client import ConnectionLost, SidecarClient

if TYPE_CHECKING:
    from ssh_server import SshServer

__all__ = ["open_session", "project", "stage"]

pytestmark = [pytest.mark.e2e, pytest.mark.processes, pytest.mark.slow]
WRITE = {"name": "write", "input": {"path": "new.txt", "content": "hello"}}
SCRIPT = {"fake-1": {"scripted": [[{"toolCall": WRITE}], [{"text": "done"}]]}}


@pytest.fixture(scope="module")
def server() -> Iterator[SshServer]:
    """A running SSH server."""
    from ssh_server import SshServer, find_sshd

    sshd = find_sshd()
    if sshd is None:
        pytest.skip("there is no SSH server here; with apt: openssh-server")
    with tempfile.TemporaryDirectory() as folder:
        made = SshServer(Path(folder) / "ssh", sshd)
        yield made
        made.stop()


@pytest.fixture
def remote(server: SshServer, stage: Stage) -> Any:
    """Returns clients by SSH of the shared daemon of a state directory."""

    def connect(*arguments: str, **setup: Any) -> SidecarClient:
        variables = [f"{name}={value}" for name, value in stage.environment.items()]
        shim = ("env", *variables, sys.executable, "-P", "-m", "sidecar", "shim", *arguments)
        return SidecarClient.spawn(server.command(*shim), cwd=stage.paths.home, **setup)

    return connect


async def test_a_client_on_another_machine_follows_prompts_and_answers(remote: Any, stage: Stage) -> None:
    asked: list[str] = []

    async def answer(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request.title)
        return PermissionAnswer("selected", request.options[0].option_id)

    async with stage.shim(options={"models": SCRIPT}) as here:
        session = await here.start_session(stage.paths.home, model="fake-1")
        await here.detach(session.sid)  # it cannot answer
        async with remote(permission=answer) as afar:
            attached = await afar.attach(session.sid)
            assert attached.snapshot.sid == session.sid
            ran = await afar.turn_run(session.sid, ({"type": "text", "text": "write it"},))
            assert (ran.stop_reason, len(asked)) == ("end_turn", 1)
            assert (stage.paths.home / "new.txt").read_text() == "hello"
            assert (await afar.status()).pid == stage.daemon_pid
        assert (await here.session_read(session.sid)).nodes[-1].role == "assistant"


async def test_a_turn_goes_on_when_the_connection_breaks_off_and_no_event_is_missed(
    remote: Any, server: SshServer, stage: Stage
) -> None:
    hanging = {"fake-1": {"scripted": [[{"text": "half"}, {"hang": True}], [{"text": "whole"}]]}}
    client = remote(options={"models": hanging})
    await client.start()
    session = await client.start_session(stage.paths.home, model="fake-1")
    await client.turn_start(session.sid, ({"type": "text", "text": "go"},))
    async for event in client.events(session.sid, 0):
        if event.kind == "textDelta":
            break
    server.cut()
    with pytest.raises(ConnectionLost):
        await client.status()
    await client.close()
    async with remote() as again:
        attached = await again.attach(session.sid, from_seq=0)
        assert (attached.gap, attached.snapshot.turn_id is None) == (None, False)
        seqs = []
        async for seen in again.events(session.sid, 0):
            seqs.append(seen.seq)
            if seen.kind == "textDelta":
                await again.turn_interrupt(session.sid)
            if seen.kind == "settled":
                break
        assert seqs == [*range(1, len(seqs) + 1)]


async def test_a_client_on_another_machine_joins_the_daemon_of_an_editor(remote: Any, stage: Stage) -> None:
    async with SidecarClient.spawn(cwd=stage.paths.home, env=stage.environment) as owner:
        session = await owner.start_session(model="offline-1")
        async with remote("--join", str((await owner.status()).pid)) as guest:
            assert (await guest.load_session(session.sid)).sid == session.sid


async def test_the_shared_daemon_is_joined_by_its_process_id_too(remote: Any, stage: Stage) -> None:
    async with remote() as first:
        pid = (await first.status()).pid
        async with remote("--join", str(pid)) as second:
            assert (await second.status()).pid == pid


_PASS = """\
import os, sys
left = int(sys.argv[1])
while left and (data := os.read(0, left)):
    left -= os.write(1, data)
open(sys.argv[2], "rb").read()
"""
"""A program that passes so many bytes on, and then waits until its gate was opened and closed."""


class Mover:
    """The command that moves sessions to another state directory and back.

    Attributes:
        there: the state directory on the other side.
    """

    def __init__(self, server: SshServer, folder: Path) -> None:
        self.there = folder / "there"
        self._folder = folder / "bin"
        self._folder.mkdir()
        self._ssh = shlex.join([str(shutil.which("ssh")), *server.command()[1:-1]])
        self.gate = folder / "gate"
        os.mkfifo(self.gate)
        self.pass_bytes()

    def pass_bytes(self, n_bytes: int | None = None) -> None:
        """Let the next commands send *n_bytes*, and then nothing until the gate is opened and closed."""
        limit = (
            "" if n_bytes is None else shlex.join([sys.executable, "-c", _PASS, str(n_bytes), str(self.gate)])
        )
        limit = limit and f"{limit} | "
        program = self._folder / "ssh"
        program.write_text(f'#!/bin/sh\nshift 2\n{limit}{self._ssh} "$@"\n')
        program.chmod(0o755)

    def start(self, verb: str, *sid: str) -> subprocess.Popen[str]:
        program = shlex.join(["env", f"INDUSAGI_HOME={self.there}", *SIDECAR])
        return subprocess.Popen(
            [*SIDECAR, "sessions", verb, "box", *sid, "--sidecar", program],
            env={**os.environ, "PATH": f"{self._folder}:{os.environ['PATH']}"},
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Return the exit code and the words of *process* at its end."""
        said = process.communicate(timeout=PATIENCE_S)[1]
        return process.returncode, " ".join(said.split())

    def stored(self) -> list[str]:
        return [path.stem for path in (self.there / "sessions").glob("*.jsonl")]


@pytest.fixture
def mover(server: SshServer, tmp_path: Path, project: Path) -> Mover:
    """Commands that move sessions of *project*."""
    return Mover(server, tmp_path)


async def test_a_session_goes_on_over_there_with_its_checkpoints_and_comes_back(
    mover: Mover, project: Path, open_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.txt").write_text("before\n")
    write = call("write", path="a.txt", content="after\n")
    session = await open_session(call("read", path="a.txt"), write, DONE)
    await session.run("write it")
    pushed = mover.end(mover.start("push", session.sid[:8]))
    assert pushed[0] == 0
    assert f"go on with: ssh -t box sidecar chat --resume {session.sid[:8]}" in pushed[1]
    await session.client.close()
    here = os.environ["INDUSAGI_HOME"]
    monkeypatch.setenv("INDUSAGI_HOME", str(mover.there))
    afar = await open_session(DONE, sid=session.sid)
    assert "a.txt: restored" in (await afar.run("/checkpoint restore c1")).text
    assert (project / "a.txt").read_text() == "before\n"
    await afar.run("go on")
    await afar.client.close()
    monkeypatch.setenv("INDUSAGI_HOME", here)
    refused = mover.end(mover.start("push"))
    assert (refused[0], "the session on box is newer" in refused[1]) == (1, True)
    assert mover.end(mover.start("pull", session.sid[:8]))[0] == 0
    back = await open_session(sid=session.sid)
    assert "go on" in str((await back.client.session_export(session.sid, view="full")).text)


async def test_its_sub_agents_go_along_and_are_listed_on_wish(
    mover: Mover, open_session: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    task = call("task", title="Look around", prompt="What is there?")
    session = await open_session(task, [{"text": "nothing"}], DONE)
    await session.run("delegate it")
    (child,) = (await session.client.session_list(parent=session.sid)).sessions
    await session.client.close()
    assert mover.end(mover.start("push"))[0] == 0
    monkeypatch.setenv("INDUSAGI_HOME", str(mover.there))

    def listed(*options: str) -> list[list[str]]:
        subprocess.run([*SIDECAR, "sessions", *options], check=True, timeout=PATIENCE_S)
        return [line.split("\t") for line in capfd.readouterr().out.splitlines()]

    assert [line[0] for line in await asyncio.to_thread(listed)] == [session.sid]
    both = await asyncio.to_thread(listed, "--children")
    assert [(line[0], line[4]) for line in both] == [
        (session.sid, "delegate it"),
        (child.sid, "- Look around"),
    ]
    afar = await open_session(sid=child.sid)
    assert "nothing" in str((await afar.client.session_export(child.sid, view="full")).text)


def kill_here(_mover: Mover, process: subprocess.Popen[str]) -> None:
    """End the command."""
    process.kill()


def kill_there(mover: Mover, _process: subprocess.Popen[str]) -> None:
    """End the program on the other side, not the SSH server."""
    for found in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            is_taker = found.cmdline()[-3:] == ["sessions", "pull", "-"]
            if is_taker and found.environ().get("INDUSAGI_HOME") == str(mover.there):
                found.kill()


def leave_open(_mover: Mover, _process: subprocess.Popen[str]) -> None:
    """Do nothing: the connection itself ends."""


@pytest.mark.parametrize("n_bytes", [10, 700, 3_000_000])
@pytest.mark.parametrize("end", [kill_here, kill_there, leave_open])
async def test_a_move_that_is_broken_off_leaves_nothing_half_there(
    mover: Mover,
    project: Path,
    open_session: Any,
    n_bytes: int,
    end: Callable[[Mover, subprocess.Popen[str]], None],
) -> None:
    session = await open_session([{"text": "x" * 4_000_000}])
    await session.run("long")
    await session.client.close()
    mover.pass_bytes(n_bytes)
    process = mover.start("push")
    gate = await asyncio.to_thread(mover.gate.open, "wb")  # waits until as many bytes have gone
    end(mover, process)
    gate.close()
    code, said = await asyncio.to_thread(mover.end, process)
    assert code != 0
    assert end is kill_here or "answers from" in said or "the same command goes on" in said
    assert mover.stored() == []
    mover.pass_bytes()
    assert (await asyncio.to_thread(mover.end, mover.start("push")))[0] == 0
    assert mover.stored() == [session.sid]
    assert [*(mover.there / "incoming").iterdir()] == []
