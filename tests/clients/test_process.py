"""Processes: a daemon that is started, misbehaves, dies, and is always ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from sidecar_client import ConnectionLost, ProtocolError, SidecarClient

pytestmark = pytest.mark.processes

PROGRAM = Path(__file__).with_name("fake_daemon.py")


def client_of(how: str = "plain", cwd: Path = PROGRAM.parent, **env: str) -> SidecarClient:
    return SidecarClient.spawn([sys.executable, "-I", "-S", str(PROGRAM), how], cwd=cwd, env=env)


async def test_a_daemon_runs_in_the_given_folder_and_ends_with_its_client(tmp_path: Path) -> None:
    async with client_of(cwd=tmp_path, EXTRA="yes") as client:
        assert await client.request("where") == [str(tmp_path), "yes"]
        assert client.exit_code is None
    assert client.exit_code == 0


async def test_the_introduction_names_the_process_to_watch_and_the_folder(tmp_path: Path) -> None:
    client = client_of(cwd=tmp_path)
    async with client:
        introduction = await client.request("introduction")
    assert introduction["processId"] == os.getpid()
    assert introduction["rootUri"] == tmp_path.as_uri()
    assert introduction["workspaceFolders"] == [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]


async def test_messages_may_be_large_and_come_in_pieces_both_ways() -> None:
    text = "é\u2028" * 200_000
    async with client_of() as client:
        assert await client.request("echo", {"text": text}) == {"text": text}
        assert await client.request("trickle") == "é" * 100_000


async def test_death_in_the_middle_of_an_answer_is_reported_with_code_and_stderr() -> None:
    async with client_of() as client:
        with pytest.raises(ConnectionLost, match="exit code 3") as caught:
            await client.request("crash")
    assert caught.value.exit_code == 3
    assert caught.value.stderr_tail.endswith("last words")
    assert "early words" not in caught.value.stderr_tail
    assert client.exit_code == 3


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals on Windows")
async def test_death_by_a_signal_names_it() -> None:
    async with client_of() as client:
        with pytest.raises(ConnectionLost, match=f"signal {int(signal.SIGTERM)}"):
            await client.request("killMe")


async def test_invalid_output_fails_the_request_and_the_process_is_ended() -> None:
    async with client_of() as client:
        with pytest.raises(ProtocolError, match="the header has no Content-Length"):
            await client.request("garbage")
    assert client.exit_code is not None


async def test_a_child_that_holds_the_pipes_hides_no_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar_client.links._LAST_WORDS_S", 0.01)
    async with client_of() as client:
        with pytest.raises(ConnectionLost, match="exit code 4"):
            await client.request("leaveChild")


async def test_a_daemon_that_listens_to_nothing_is_killed_in_bounded_time() -> None:
    client = await client_of("deaf").start()
    async with asyncio.timeout(10):
        await client.close(grace_s=0.05)
    assert client.exit_code is not None
    assert client.exit_code != 0


async def test_a_close_that_is_cancelled_still_ends_the_process() -> None:
    client = await client_of("deaf").start()
    closing = asyncio.create_task(client.close(grace_s=60))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert client.exit_code is not None


async def test_a_daemon_that_never_shakes_hands_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar_client.client._START_S", 0.2)
    client = client_of("silent")
    with pytest.raises(ConnectionLost, match="no answer to initialize"):
        await client.start()
    assert client.exit_code is not None


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ConnectionLost, match="cannot start 'no-such-program'"):
        await SidecarClient.spawn(["no-such-program"]).start()


async def test_many_clients_live_side_by_side() -> None:
    async with client_of() as one, client_of() as two:
        pids = [await client.request("pid") for client in (one, two)]
    assert len(set(pids)) == 2
