"""Work on a session of another machine: its shared daemon over SSH, with a real server on loopback."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shared_daemon import Stage, stage
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar_client import ConnectionLost, SidecarClient

if TYPE_CHECKING:
    from ssh_server import SshServer

__all__ = ["stage"]

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
