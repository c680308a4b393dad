"""The real thing in a process of its own, and the worst that clients and parents do to it.

Nothing here sleeps: a test waits for an answer, for the end of the output, or for the process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from sidecar.protocol.framing import HeaderDecoder, frame_with_header
from started_processes import Process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes and signals"),
]

PROGRAM = str(Path(__file__).parents[1] / "support" / "fake_daemon.py")
PATIENCE_S = 30.0
CAPABILITIES = {"experimental": {"sidecar": {"protocol": [1]}}}


class Daemon:
    """A daemon of the test's own, and the hands of its client."""

    def __init__(self, *arguments: str, process: subprocess.Popen[bytes] | None = None) -> None:
        self.process = process or subprocess.Popen(
            [sys.executable, PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._decoder = HeaderDecoder()
        self.messages: list[dict[str, Any]] = []

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def send(self, method: str, params: Any = None, request_id: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.send_bytes(
            frame_with_header(
                json.dumps(message if request_id is None else {**message, "id": request_id}).encode()
            )
        )

    def send_bytes(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.stdin.write(view) :]

    def read_some(self) -> bool:
        """Read the next bytes; return False at the end of the output."""
        ready, _, _ = select.select([self.stdout], [], [], PATIENCE_S)
        assert ready, "the daemon says nothing"
        data = os.read(self.stdout.fileno(), 1 << 20)
        self._decoder.feed(data)
        while (frame := self._decoder.next()) is not None:
            assert isinstance(frame, bytes), frame
            self.messages.append(json.loads(frame))
        return bool(data)

    def answer(self, request_id: int) -> dict[str, Any]:
        while not (found := [m for m in self.messages if m.get("id") == request_id and "method" not in m]):
            assert self.read_some(), "the output ended before the answer"
        return found[0]

    def request(self, request_id: int, method: str, params: Any = None) -> dict[str, Any]:
        self.send(method, params, request_id)
        return self.answer(request_id)

    def initialize(self, **params: Any) -> dict[str, Any]:
        return self.request(
            0, "initialize", {"processId": None, "rootUri": None, "capabilities": CAPABILITIES, **params}
        )

    def ended(self) -> int:
        """Read to the end of the output and return the exit code."""
        while self.read_some():
            pass
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    started = Daemon()
    yield started
    stop(started)


@pytest.fixture(scope="module")
def living() -> Iterator[Daemon]:
    """A daemon for the tests that it survives."""
    started = Daemon()
    started.initialize()
    yield started
    stop(started)


def stop(daemon: Daemon) -> None:
    daemon.process.kill()
    daemon.stdin.close()
    daemon.stdout.close()
    daemon.process.wait()


def test_exit_without_shutdown_ends_with_1(daemon: Daemon) -> None:
    daemon.initialize()
    daemon.send("exit")
    assert daemon.ended() == 1


def test_a_script_that_closes_its_end_gets_its_answers_first(daemon: Daemon) -> None:
    initialize = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": {}}}
    status = {"jsonrpc": "2.0", "id": 1, "method": "sidecar/status"}
    daemon.send_bytes(b"".join(frame_with_header(json.dumps(m).encode()) for m in (initialize, status)))
    daemon.stdin.close()
    assert daemon.ended() == 1
    assert [message["id"] for message in daemon.messages] == [0, 1]


def test_end_of_input_during_a_request_answers_it_and_ends(daemon: Daemon) -> None:
    """The service lets go of its requests when it closes: this one gets its result."""
    daemon.initialize()
    daemon.send("sidecar/fake/wait", "x", 1)
    daemon.stdin.close()
    assert daemon.ended() == 1
    assert daemon.answer(1)["result"] == "x"


def test_end_of_input_while_a_thread_is_stuck_ends_in_time(daemon: Daemon) -> None:
    daemon.initialize()
    daemon.send("sidecar/fake/stick", None, 1)
    daemon.request(2, "sidecar/status")
    daemon.stdin.close()
    assert daemon.ended() == 1
    assert daemon.answer(1)["error"]["code"] == -32800


def test_sigterm_settles_and_exits_0(daemon: Daemon) -> None:
    daemon.initialize()
    daemon.send("sidecar/fake/wait", "x", 1)
    daemon.request(2, "sidecar/status")
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.ended() == 0
    assert daemon.answer(1)["result"] == "x"
    (closing,) = [m for m in daemon.messages if m.get("method") == "sidecar/closing"]
    assert closing["params"]["reason"] == "SIGTERM"


def test_sigterm_while_a_handler_holds_the_event_loop_ends_in_time(daemon: Daemon) -> None:
    daemon.initialize()
    daemon.send("sidecar/fake/hang", None, 1)
    daemon.process.send_signal(signal.SIGTERM)
    daemon.ended()


MIDDLE = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=0, stdout=1)
child.wait()
"""


@pytest.mark.parametrize("state", ["idle", "in a request", "event loop held"])
def test_a_killed_parent_is_noticed_though_others_hold_stdin(state: str) -> None:
    """The editor is a process between; this one holds both of the daemon's pipes and goes on living."""
    editor = subprocess.Popen(
        [sys.executable, "-c", MIDDLE, sys.executable, PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    daemon = Daemon(process=editor)
    daemon.initialize()
    if state == "in a request":
        daemon.send("sidecar/fake/wait", None, 1)
    if state == "event loop held":
        daemon.send("sidecar/fake/hang", None, 1)
    else:
        daemon.request(2, "sidecar/status")
    editor.kill()
    daemon.ended()  # the output ends with its last holder, the daemon
    stop(daemon)


@pytest.mark.parametrize("how", ["initialize", "argument"])
def test_the_client_s_process_is_watched(how: str, sleeper: Process) -> None:
    daemon = Daemon(str(sleeper.pid)) if how == "argument" else Daemon()
    daemon.initialize(processId=sleeper.pid if how == "initialize" else None)
    assert daemon.request(1, "sidecar/status")["result"]["clients"] == 1
    sleeper.kill()
    assert daemon.ended() == 1
    stop(daemon)


def test_a_client_s_process_that_is_gone_already_ends_it(daemon: Daemon, sleeper: Process) -> None:
    sleeper.kill()
    sleeper.wait()
    daemon.initialize(processId=sleeper.pid)
    assert daemon.ended() == 1


def test_process_0_is_not_watched(daemon: Daemon) -> None:
    daemon.initialize(processId=0)
    assert "result" in daemon.request(1, "shutdown")
    daemon.send("exit")
    assert daemon.ended() == 0


def test_nothing_but_the_protocol_reaches_the_client(living: Daemon) -> None:
    for n in range(10, 15):
        assert living.request(n, "sidecar/fake/print")["result"] is None
    assert [message["id"] for message in living.messages if message.get("id", 0) >= 10] == [
        10,
        11,
        12,
        13,
        14,
    ]


@pytest.mark.parametrize(("request_id", "size"), [(1, 70 * 1024), (2, 10 * 1024 * 1024)])
def test_large_messages_pass_both_ways(request_id: int, size: int, living: Daemon) -> None:
    sender = threading.Thread(target=living.send, args=("sidecar/fake/echo", "x" * size, request_id))
    sender.start()
    assert len(living.answer(request_id)["result"]) == size
    sender.join()


def test_bytes_that_come_one_by_one_are_read(living: Daemon) -> None:
    body = b'{"jsonrpc":"2.0","id":3,"method":"sidecar/fake/echo","params":"slow"}'
    for byte in b"content-length: %d\n\n" % len(body) + body:
        living.send_bytes(bytes((byte,)))
    assert living.answer(3)["result"] == "slow"


def test_an_absurd_length_is_answered_and_ends_it_with_1(daemon: Daemon) -> None:
    daemon.initialize()
    daemon.send_bytes(b"Content-Length: 99999999999999\r\n\r\n")
    assert daemon.ended() == 1
    assert daemon.messages[-1]["error"]["data"]["kind"] == "messageTooLarge"


def rss_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        pytest.skip("no /proc to read the memory from")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1])


def test_a_client_that_does_not_read_stalls_no_other_and_costs_little() -> None:
    """The loop goes on, and the daemon stays small, through twenty megabytes of events that are not read."""
    command = [sys.executable, PROGRAM]
    pipe = subprocess.PIPE
    daemon = Daemon(process=subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0))
    assert daemon.process.stderr is not None
    daemon.initialize()
    sid = daemon.request(1, "sidecar/session/new")["result"]["sid"]
    before_kib = rss_kib(daemon.process.pid)
    daemon.send("sidecar/fake/flood", {"sid": sid, "count": 100_000, "size": 100}, 2)
    daemon.send("sidecar/fake/print", None, 3)
    lines = [daemon.process.stderr.readline() for _ in range(3)]
    # A thread writes what is printed, so the descriptor may come first.
    strays = {b"stray print\n", b"stray descriptor\n"}
    assert (set(lines[:2]), lines[2]) == (strays, b"flooded\n"), "the loop went on in the flood"
    assert rss_kib(daemon.process.pid) - before_kib < 40 * 1024

    seq = daemon.answer(2)["result"]["seq"]
    events = [m["params"] for m in daemon.messages if m.get("method") == "sidecar/event"]
    gaps = [m["params"] for m in daemon.messages if m.get("method") == "sidecar/gap"]
    missing = sum(gap["to"] - gap["from"] + 1 for gap in gaps)
    assert (events[-1]["seq"], len(events) + missing) == (seq, seq)
    assert daemon.messages.index(daemon.answer(3)) < daemon.messages.index(daemon.answer(2))
    daemon.process.stderr.close()
    stop(daemon)
