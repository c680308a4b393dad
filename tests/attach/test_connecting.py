"""The shared daemon by its loopback port and token, as on Windows; nothing in it is of one system alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sidecar._internal.file_lock import FileLock
from sidecar.attach.connecting import (
    connect_or_start,
    connect_port,
    run_without_console,
    start_daemon,
)
from sidecar.attach.listening import bind_loopback, write_tcp_file
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.attach.shim import pump
from sidecar.protocol.framing import frame_with_header

DAEMON = (sys.executable, "-P", "-m", "sidecar", "serve", "--shared", "--daemon")


@pytest.fixture
def paths() -> Iterator[DaemonPaths]:
    home = Path(tempfile.mkdtemp(prefix="sc"))  # short: a socket's path has a limit
    made = DaemonPaths(home / "state")
    made.make()
    yield made
    shutil.rmtree(home)


@pytest.fixture
def held(paths: DaemonPaths) -> Iterator[DaemonPaths]:
    """The files of a daemon that is alive."""
    lock = FileLock(paths.lock)
    assert lock.try_take()
    yield paths
    lock.release()


def test_without_a_file_no_daemon_answers(paths: DaemonPaths) -> None:
    assert connect_port(paths) is None


@pytest.mark.processes
def test_the_file_of_a_dead_daemon_is_not_trusted(paths: DaemonPaths) -> None:
    """Its port may be somebody else's by now."""
    with bind_loopback("127.0.0.1:0") as port:
        port.listen()
        write_tcp_file(paths.tcp, port, "token")
        FileLock(paths.lock).release()
        assert connect_port(paths) is None


@pytest.mark.processes
def test_a_living_daemon_gets_its_token_first(held: DaemonPaths) -> None:
    with bind_loopback("127.0.0.1:0") as port:
        port.listen()
        write_tcp_file(held.tcp, port, "token")
        found = connect_port(held)
        assert found is not None
        there, _ = port.accept()
        with found, there:
            assert there.recv(100) == b"Authorization: Bearer token\n"


@pytest.mark.processes
def test_a_port_that_is_closed_is_no_daemon(held: DaemonPaths) -> None:
    with bind_loopback("127.0.0.1:0") as port:
        write_tcp_file(held.tcp, port, "token")
    assert connect_port(held) is None


@pytest.mark.parametrize("text", ["", "[]", '{"host": "127.0.0.1"}'])
def test_an_unreadable_file_is_an_error(held: DaemonPaths, text: str) -> None:
    held.tcp.write_text(text)
    with pytest.raises(AttachError, match="cannot be read"):
        connect_port(held)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param(("no-such-program",), "cannot run no-such-program", id="no program"),
        pytest.param((sys.executable, "-c", "raise SystemExit('why')"), "ends with:\nwhy", id="it ends"),
    ],
)
def test_a_daemon_that_does_not_start_is_reported_with_the_end_of_its_log(
    paths: DaemonPaths, command: tuple[str, ...], message: str
) -> None:
    with pytest.raises(AttachError, match=message):
        start_daemon(paths, command, run_without_console)


@pytest.mark.e2e
def test_an_editor_reaches_a_daemon_that_is_started_for_it(
    paths: DaemonPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDUSAGI_HOME", str(paths.home))
    command = (*DAEMON, "--listen", "127.0.0.1:0")
    daemon = connect_or_start(paths, command, connect_port, run_without_console)
    client_in, typed = os.pipe()
    seen, client_out = os.pipe()
    with daemon, ThreadPoolExecutor(1) as pool:
        code = pool.submit(pump, daemon, client_in, client_out)
        params: dict[str, object] = {"processId": None, "rootUri": None, "capabilities": {}}
        for message in (
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
            {"jsonrpc": "2.0", "id": 2, "method": "shutdown"},
            {"jsonrpc": "2.0", "method": "exit"},
        ):
            os.write(typed, frame_with_header(json.dumps(message).encode()))
        assert code.result(timeout=60) == 0
    for fd in (typed, client_in, client_out):
        os.close(fd)
    with os.fdopen(seen, "rb") as output:
        assert b'"capabilities"' in output.read()
    lock = FileLock(paths.lock)
    pid = lock.read_holder()
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    lock.take()
    lock.release()
