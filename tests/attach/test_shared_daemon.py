"""Real shims and a real daemon: one for all, that outlives each of them and leaves when nobody needs it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from shared_daemon import PATIENCE_S, SIDECAR, Stage, running, stage
from sidecar.attach.connecting import is_answering
from sidecar.attach.paths import DaemonPaths
from sidecar.commands.arguments import parse
from sidecar.commands.doctor import check_shared
from sidecar_client import ConnectionLost, SidecarClient, SidecarRequestError, allow

__all__ = ["running", "stage"]

pytestmark = pytest.mark.e2e

HANGING = {"fake-1": {"scripted": [[{"text": "half"}, {"hang": True}]]}}


def framed(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


HELLO = framed({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": {}}})
PARENT = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"


async def test_eight_shims_at_once_start_one_daemon(stage: Stage) -> None:
    shims = [stage.shim() for _ in range(8)]
    await asyncio.gather(*(shim.start() for shim in shims))
    statuses = [await shim.status() for shim in shims]
    assert {status.pid for status in statuses} == {stage.daemon_pid}
    assert len(statuses[-1].clients) == 8
    assert {shim.server["socket"] for shim in shims} == {str(stage.paths.socket)}
    await asyncio.gather(*(shim.close() for shim in shims))
    assert [shim.exit_code for shim in shims] == [0] * 8


async def test_a_daemon_outlives_its_starter_and_its_sessions_stay_loaded(stage: Stage) -> None:
    async with stage.shim() as first:
        pid = (await first.status()).pid
        session = await first.start_session(stage.paths.home)
    async with stage.shim() as second:
        status = await second.status()
        assert (status.pid, status.sessions.loaded, len(status.clients)) == (pid, 1, 1)
        assert (await second.load_session(session.sid)).sid == session.sid


async def test_the_death_of_a_shim_is_its_own(running: Stage) -> None:
    async with running.shim() as stays:
        with running.start(*SIDECAR, "serve", "--shared", stdin=subprocess.PIPE) as dies:
            assert dies.stdin is not None
            assert dies.stdout is not None
            dies.stdin.write(HELLO)
            dies.stdin.flush()
            await asyncio.to_thread(dies.stdout.read, 1)
            dies.kill()
        while len((await stays.status()).clients) > 1:
            pass
        assert running.daemon_pid == (await stays.status()).pid


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        pytest.param([{"id": 1, "method": "shutdown"}, {"method": "exit"}], 0, id="shutdown and exit"),
        pytest.param([{"method": "exit"}], 1, id="exit alone"),
        pytest.param([], 1, id="the end of the input"),
    ],
)
async def test_a_shim_ends_as_its_client_has_ended_it(
    running: Stage, typed: list[dict[str, Any]], code: int
) -> None:
    text = HELLO + b"".join(framed({"jsonrpc": "2.0", **message}) for message in typed)
    ran = await asyncio.to_thread(running.run, "serve", "--shared", typed=text.decode())
    assert (ran.returncode, ran.stderr) == (code, "")
    assert "\0" not in ran.stdout
    assert '"id":0,"result"' in ran.stdout


async def test_both_faces_are_served_by_one_daemon(running: Stage) -> None:
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    async with running.shim() as editor:
        panel = await asyncio.to_thread(running.run, "serve", "--shared", typed=json.dumps(hello) + "\n")
        assert (panel.returncode, panel.stderr) == (0, "")
        described = json.loads(panel.stdout)["result"]["agentCapabilities"]["_meta"]["sidecar"]
        assert described["socket"] == editor.server["socket"]


async def test_a_daemon_without_clients_and_work_leaves_nothing_behind(stage: Stage) -> None:
    async with stage.shim("--idle-exit", "0.01"):
        pass
    await stage.wait_until_gone()
    assert not stage.paths.socket.exists()
    assert stage.paths.log.read_text() == ""


async def test_a_running_turn_keeps_the_daemon_and_is_sent_to_a_returning_client(stage: Stage) -> None:
    script = {"fake-1": {"scripted": [[{"text": "half"}, {"hang": True}], [{"text": "whole"}]]}}
    async with stage.shim("--idle-exit", "0.01", options={"models": script}) as first:
        session = await first.start_session(stage.paths.home, model="fake-1")
        await session.prompt("1")
        await session.wait_for("textDelta", timeout_s=PATIENCE_S)
        pid = (await first.status()).pid
    async with stage.shim() as second:
        again = await second.load_session(session.sid)
        assert (await second.status()).pid == pid
        await again.interrupt()
        assert (await again.wait_for("settled", timeout_s=PATIENCE_S)).data["stopReason"] == "cancelled"
    await stage.wait_until_gone()


async def test_sigterm_settles_stores_and_notifies_every_client(stage: Stage) -> None:
    one, two = stage.shim(options={"models": HANGING}), stage.shim()
    await asyncio.gather(one.start(), two.start())
    session = await one.start_session(stage.paths.home, model="fake-1")
    await session.prompt("1")
    await session.wait_for("textDelta", timeout_s=PATIENCE_S)
    closing = two.notifications()
    await stage.end(signal.SIGTERM)
    told = [notification.method async for notification in until_lost(closing)]
    assert told[0] == "sidecar/closing"
    await assert_daemon_gone(stage, one, two)
    assert not stage.paths.socket.exists()
    async with stage.shim() as later:
        stored = await later.session_read(session.sid)
        assert [node.role for node in stored.nodes] == ["user", "assistant"]


async def test_after_kill_9_the_next_shim_takes_the_place_over(stage: Stage) -> None:
    first = await stage.shim().start()
    session = await first.start_session(stage.paths.home)
    await session.run("hello")
    before = await first.session_read(session.sid)
    old = stage.daemon_pid
    await stage.end(signal.SIGKILL)
    await assert_daemon_gone(stage, first)
    assert stage.paths.socket.exists()
    assert not is_answering(stage.paths)
    async with stage.shim() as second:
        assert (await second.status()).pid != old
        assert await second.session_read(session.sid) == before


async def test_a_shim_leaves_with_its_parent_though_somebody_holds_its_input(running: Stage) -> None:
    read_fd, held = os.pipe()
    async with running.shim() as other:
        with running.start(
            sys.executable, "-c", PARENT, *SIDECAR, "serve", "--shared", stdin=read_fd
        ) as parent:
            os.close(read_fd)
            assert parent.stdout is not None
            os.write(held, HELLO)
            assert (await asyncio.to_thread(parent.stdout.readline)).startswith(b"Content-Length")
            parent.kill()
            # The shim was the other one who could write there.
            await asyncio.wait_for(asyncio.to_thread(parent.stdout.read), PATIENCE_S)
        os.close(held)
        assert (await other.status()).pid == running.daemon_pid


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"lifetime": "client"}, "without --shared", id="a daemon of its own"),
        pytest.param({"idleExitSeconds": -1}, "idleExitSeconds must be", id="no time"),
        pytest.param({"idleExitSeconds": "1"}, "idleExitSeconds must be", id="no number"),
    ],
)
async def test_a_client_that_wants_another_lifetime_is_refused(
    running: Stage, options: dict[str, Any], message: str
) -> None:
    async with running.shim(options={"lifetime": "shared", "idleExitSeconds": 1}):
        with pytest.raises(SidecarRequestError) as caught:
            await running.shim(options=options).start()
        assert caught.value.kind == "invalidParams"
        assert message in f"{caught.value.message} {caught.value.hint}"


async def test_a_daemon_of_one_client_cannot_become_shared(stage: Stage) -> None:
    with pytest.raises(SidecarRequestError) as caught:
        await SidecarClient.spawn(env=stage.environment, options={"lifetime": "shared"}).start()
    assert caught.value.hint == 'for a shared daemon start "sidecar serve --shared"'


async def test_a_second_daemon_finds_that_there_is_one(running: Stage) -> None:
    async with running.shim() as client:
        second = await asyncio.to_thread(running.run, "serve", "--shared", "--daemon")
        assert (second.returncode, second.stderr) == (0, "")
        assert second.stdout == f"listening at {running.paths.socket}\n"
        assert (await client.status()).pid == running.daemon_pid


async def test_a_client_without_a_shim_comes_by_the_socket(running: Stage) -> None:
    async with running.shim() as editor, SidecarClient.connect(editor.server["socket"]) as script:
        assert (await script.status()).pid == (await editor.status()).pid
        assert script.server["socket"] == editor.server["socket"]


async def test_a_port_is_for_those_with_the_token(stage: Stage) -> None:
    port = ("--listen", "127.0.0.1:0")
    with stage.start(*SIDECAR, "serve", "--shared", "--daemon", *port) as daemon:
        assert daemon.stdout is not None
        assert (await asyncio.to_thread(daemon.stdout.readline)).startswith(b"listening at ")
        address = json.loads(stage.paths.tcp.read_text())
        token = f"Authorization: Bearer {address['token']}\r\n".encode()
        assert b'"id":0,"result"' in await asyncio.to_thread(ask_port, address, token + HELLO)
        assert b'"kind":"authRequired"' in await asyncio.to_thread(ask_port, address, HELLO)
        daemon.terminate()
    assert daemon.returncode == 0
    assert not stage.paths.tcp.exists()


def ask_port(address: dict[str, Any], data: bytes) -> bytes:
    """Send *data* to the port and return everything it says."""
    with socket.create_connection((address["host"], address["port"]), timeout=PATIENCE_S) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        heard = bytearray()
        while more := connection.recv(65536):
            heard += more
    return bytes(heard)


async def test_doctor_reports_the_shared_daemon(running: Stage) -> None:
    async with running.shim():
        found = await asyncio.to_thread(check_shared, running.paths)
        assert found.text.startswith(f"process {running.daemon_pid} at {running.paths.socket}, version")
        assert found.text.endswith(", clients: 1")


def test_doctor_reports_a_killed_daemon_and_a_trap(paths: DaemonPaths) -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(paths.socket))
    assert check_shared(paths).text.startswith("none answers")
    paths.folder.chmod(0o755)
    trapped = check_shared(paths)
    assert (trapped.is_well, "chmod 700" in trapped.text) == (False, True)


def test_a_folder_that_others_can_enter_is_not_used(stage: Stage) -> None:
    stage.paths.folder.mkdir()
    stage.paths.folder.chmod(0o755)
    ran = stage.run("serve", "--shared")
    assert ran.returncode == 1
    assert "chmod 700" in ran.stderr


async def test_two_editors_follow_one_session_and_one_of_them_has_the_buffers(running: Stage) -> None:
    project = running.paths.home
    (project / "a.py").write_text("on_disk = 1\n")
    async with running.shim() as writer, running.shim() as reader:
        uri = (project / "a.py").as_uri()
        await writer.did_open(uri, "in_buffer = 2\n")
        mine = await writer.start_session(project)
        theirs = await reader.load_session(mine.sid)
        both_follow = theirs.seq
        done = await theirs.run("what is in a.py?")
        assert "in_buffer = 2" in done.text
        seen = [await collect(client, mine.sid, both_follow) for client in (writer, reader)]
        assert seen[0][-1] == "settled"
        assert seen[0] == seen[1]
        assert [(file.source, file.stale) for file in await reader_files(reader, mine.sid)] == [
            ("buffer", False)
        ]
    async with running.shim() as later:
        session = await later.load_session(mine.sid)
        done = await session.run("what is in a.py?")
        assert "on_disk = 1" in done.text


async def reader_files(client: SidecarClient, sid: str) -> tuple[Any, ...]:
    return (await client.context_files(sid)).files


async def collect(client: SidecarClient, sid: str, after_seq: int) -> list[str]:
    """Return the kinds of the events of a session up to the one that settles it."""
    kinds: list[str] = []
    async for event in client.events(sid, after_seq):
        kinds.append(event.kind)
        if event.kind == "settled":
            break
    return kinds


async def until_lost(notifications: AsyncIterator[Any]) -> AsyncIterator[Any]:
    try:
        async for notification in notifications:
            yield notification
    except ConnectionLost:
        return


async def assert_daemon_gone(stage: Stage, *shims: SidecarClient) -> None:
    for shim in shims:
        with suppress(ConnectionLost):
            async for _ in shim.notifications():
                pass
        await shim.close()
        assert shim.exit_code == 1
        assert shim.stderr_tail == f"sidecar: the shared daemon is gone; {stage.paths.log} may say why"


async def test_a_shared_daemon_has_the_environment_of_its_starter(stage: Stage) -> None:
    environment = {**stage.environment, "QUINCE": "of the first"}
    command = (*SIDECAR, "serve", "--shared")
    first = SidecarClient.spawn(command, cwd=stage.paths.home, env=environment)
    async with first, stage.shim(permission=allow) as second:
        session = await second.start_session(stage.paths.home)
        assert "of the first" in (await session.run("run `printenv QUINCE`")).text
    assert stage.paths.log.relative_to(stage.paths.home).as_posix() == "run/daemon.log"
    assert stage.paths.log.exists()


async def test_the_longest_idle_time_that_anybody_wants_counts(stage: Stage) -> None:
    """README's ten minutes are those of a daemon for which nobody wants another time."""
    assert parse(["serve", "--shared"]).idle_exit == 600
    async with stage.shim("--idle-exit", "0.01", options={"idleExitSeconds": 60}):
        pid = stage.daemon_pid
    async with stage.shim(options={"idleExitSeconds": 0}) as later:
        assert (await later.status()).pid == pid
    async with stage.shim() as still:
        assert (await still.status()).pid == pid
