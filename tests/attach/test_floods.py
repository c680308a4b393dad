"""A client that floods, never reads, or dies costs the others little, and memory no more than its limits."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import pytest

from sidecar.attach.paths import DaemonPaths
from sidecar.protocol.framing import HeaderDecoder, frame_with_header
from sidecar.transport.outbox import HIGH_WATER_BYTES

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FLOOD_BYTES = 20_000_000
N_TRIPS = 200
MOST_AT_ONCE_BYTES = 256_000
"""What is answered at a stretch before somebody looks whether it is read."""

MOST_BYTES = 64_000_000
"""What one client's queues and the message at hand may add to the daemon's memory."""


class Wire:
    """A client that blocks, and reads only when it asks."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self._decoder = HeaderDecoder()
        self._n_asked = 0
        self.heard: list[dict[str, Any]] = []
        capabilities: dict[str, Any] = {"experimental": {"sidecar": {}}}
        said = {"capabilities": capabilities, "initializationOptions": {"sidecar": options}}
        self.ask("initialize", {"processId": None, **said})
        self.socket.sendall(message("initialized", {}))

    def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """Return the result of a request; what comes before it is kept in *heard*."""
        self._n_asked += 1
        self.socket.sendall(message(method, params, self._n_asked))
        answer = self.read_until(lambda found: found.get("id") == self._n_asked and "method" not in found)
        return answer["result"]

    def read_until(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read on until a message is the one looked for."""
        while True:
            while (frame := self._decoder.next()) is not None:
                assert isinstance(frame, bytes)
                found: dict[str, Any] = msgspec.json.decode(frame)
                self.heard.append(found)
                if is_it(found):
                    return found
            data = self.socket.recv(1 << 20)
            assert data, "the daemon closed the connection"
            self._decoder.feed(data)

    def round_trips(self, n: int) -> list[float]:
        """Return how long each of *n* requests took, in seconds."""
        took = []
        for _ in range(n):
            started = time.perf_counter()
            self.ask("sidecar/status", {})
            took.append(time.perf_counter() - started)
        self.heard.clear()
        return took

    def rss_bytes(self) -> int:
        """Return the daemon's memory."""
        return int(self.ask("sidecar/status", {})["rssBytes"])

    def turn(self, sid: str) -> float:
        """Run one turn and return how long it took, in seconds."""
        started = time.perf_counter()
        self.ask("sidecar/turn/run", {"sid": sid, "input": [{"type": "text", "text": "go"}]})
        return time.perf_counter() - started


class Flood:
    """Sends bytes from a thread as fast as they are taken, until it is left; reads nothing."""

    def __init__(self, wire: Wire, data: bytes) -> None:
        self._wire = wire
        self._data = data
        self._thread = threading.Thread(target=self._send)
        self.n_sent = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wire.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._wire.socket.close()

    def _send(self) -> None:
        view = memoryview(self._data)
        with suppress(OSError):  # it was left
            while self.n_sent < len(view):
                self.n_sent += self._wire.socket.send(view[self.n_sent : self.n_sent + (1 << 16)])


def message(method: str, params: Mapping[str, Any], number: int | None = None) -> bytes:
    given = {} if number is None else {"id": number}
    return frame_with_header(
        msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params, **given})
    )


def repeated(method: str, params: Mapping[str, Any]) -> bytes:
    one = message(method, params)
    return one * (FLOOD_BYTES // len(one))


def unread_requests() -> bytes:
    one = len(message("sidecar/status", {}, 10**6))
    return b"".join(message("sidecar/status", {}, 10**6 + n) for n in range(FLOOD_BYTES // one))


def typing_without_end() -> bytes:
    document = {"uri": "file:///flood.py", "languageId": "python", "version": 1, "text": "x = 1\n" * 10_000}
    start = {"line": 0, "character": 0}
    change = {"range": {"start": start, "end": start}, "text": "x"}
    typed = {"textDocument": {"uri": "file:///flood.py", "version": 2}, "contentChanges": [change]}
    opened = message("textDocument/didOpen", {"textDocument": document})
    return opened + repeated("textDocument/didChange", typed)


@pytest.fixture(scope="module")
def paths() -> Iterator[DaemonPaths]:
    """The files of a daemon that runs as long as the module's tests."""
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as folder:
        command = [sys.executable, "-P", "-m", "sidecar", "serve", "--shared", "--daemon"]
        env = {**os.environ, "INDUSAGI_HOME": folder}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as daemon:
            assert daemon.stdout is not None
            try:
                assert daemon.stdout.readline().startswith(b"listening at ")
                yield DaemonPaths(Path(folder))
            finally:
                daemon.terminate()


@pytest.fixture
def calm(paths: DaemonPaths) -> Iterator[Wire]:
    """A client that behaves, warmed up."""
    wire = Wire(paths.socket)
    wire.round_trips(N_TRIPS // 4)
    yield wire
    wire.socket.close()


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(unread_requests, id="requests whose answers are not read"),
        pytest.param(lambda: repeated("$/nothing", {}), id="notifications"),
        pytest.param(lambda: repeated("no/such", {"x": [1, {"y": "z"}]}), id="unknown notifications"),
        pytest.param(typing_without_end, id="edits of a buffer"),
        pytest.param(lambda: b"\r\n\r\n{}" * (FLOOD_BYTES // 6), id="no protocol at all"),
    ],
)
def test_a_flood_leaves_others_their_turn_and_memory_its_bounds(
    paths: DaemonPaths, calm: Wire, flood: Callable[[], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    quiet, before = statistics.median(calm.round_trips(N_TRIPS)), calm.rss_bytes()
    with Flood(Wire(paths.socket), flood()) as flooding:
        loud = statistics.median(calm.round_trips(N_TRIPS))
        assert flooding.n_sent < FLOOD_BYTES, "a client that asks was answered only after the flood"
        grown = calm.rss_bytes() - before
    with capsys.disabled():
        say(f"{loud / quiet:.1f}x of {quiet * 1000:.2f} ms in the flood, {grown / 1e6:+.0f} MB")
    assert grown <= MOST_BYTES


N_STUCK = 40
UNREAD_BYTES = 900_000_000
"""The memory that a crowd may cost which reads nothing: the bound of 256 MiB, and what the allocator has not
given back yet of clients that were dropped. Without the bound it is 2.3 GB."""


def test_a_crowd_that_reads_nothing_has_one_bound(
    paths: DaemonPaths, calm: Wire, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each stays within the limit of one client. All of them held 1.5 GB."""
    before = calm.rss_bytes()
    crowd = [Wire(paths.socket) for _ in range(N_STUCK)]
    asked = b"".join(message("sidecar/schema", {}, 100 + n) for n in range(400))
    for wire in crowd:
        wire.socket.setblocking(False)
        with suppress(OSError):  # it was left
            wire.socket.send(asked)
    most = 0
    while queues(calm)["in"] > 1:
        most = max(most, calm.rss_bytes() - before)
    with capsys.disabled():
        say(f"{N_STUCK} clients that read nothing cost {most / 1e6:+.0f} MB")
    assert most <= UNREAD_BYTES
    assert len(calm.round_trips(N_TRIPS)) == N_TRIPS, "those who read are answered"
    for wire in crowd:
        wire.socket.close()


N_TURNS = 5
ANSWER = "word " * 800_000
TALKER = {"scripted": [[{"text": ANSWER, "deltas": 500}]] * (2 * N_TURNS), "contextWindow": 100_000_000}
"""Four megabytes a turn: the turns of one session are the flood, in more deltas than a log keeps."""


def test_a_client_that_never_reads_costs_a_session_nothing_and_gets_its_gap(
    paths: DaemonPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two sessions take turns; one of them is followed by a client that does not read."""
    owner = Wire(paths.socket, models={"talker": TALKER})
    new = {"cwd": str(paths.home), "model": "talker"}
    alone, watched = (owner.ask("sidecar/session/new", new)["sid"] for _ in range(2))
    stuck = Wire(paths.socket)
    stuck.ask("sidecar/session/load", {"sid": watched})
    took = []
    for _ in range(N_TURNS):
        took.append((owner.turn(alone), owner.turn(watched)))
        owner.heard.clear()
    ratio = statistics.median(with_it / without for without, with_it in took)
    waiting = owner.ask("sidecar/status", {})["queues"]["outBytes"]
    with capsys.disabled():
        say(f"a turn is {ratio:.2f}x as long beside one who does not read, for whom {waiting} bytes wait")
    assert waiting <= len(ANSWER) + HIGH_WATER_BYTES
    stuck.read_until(is_end_of_turn(owner.ask("sidecar/attach", {"sid": watched})["seq"]))
    events = [found["params"] for found in stuck.heard if found.get("method") == "sidecar/event"]
    said = [found["data"]["content"][0]["text"] for found in events if found["kind"] == "message"]
    assert said == [ANSWER] * N_TURNS, "only what a message says again may be missed"
    assert missed_in_silence(stuck.heard) == []
    assert "slowClient" in {gap["reason"] for gap in gaps(stuck.heard)}
    for wire in (owner, stuck):
        wire.socket.close()


def test_the_queue_of_a_client_that_does_not_read_is_shown_until_it_has_read(
    paths: DaemonPaths, calm: Wire
) -> None:
    first, n = 10**6, 30_000
    asked = b"".join(message("sidecar/status", {}, first + each) for each in range(n))
    stuck = Wire(paths.socket)
    with Flood(stuck, asked) as flood:
        while (waiting := queues(calm)["outBytes"]) < HIGH_WATER_BYTES:
            assert flood.n_sent < len(asked), "all was taken from a client that reads no answers"
        assert waiting <= HIGH_WATER_BYTES + MOST_AT_ONCE_BYTES
        stuck.read_until(lambda found: found.get("id") == first + n - 1)
        assert queues(calm) == {"in": 1, "outBytes": 0}
    answered = [found["id"] for found in stuck.heard if found.get("id", 0) >= first]
    assert answered == list(range(first, first + n))


def queues(wire: Wire) -> dict[str, int]:
    """Return what the daemon says is under way."""
    found: dict[str, int] = wire.ask("sidecar/status", {})["queues"]
    return found


def is_end_of_turn(seq: int) -> Callable[[dict[str, Any]], bool]:
    return lambda found: found.get("method") == "sidecar/event" and found["params"]["seq"] == seq


def gaps(heard: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [found["params"] for found in heard if found.get("method") == "sidecar/gap"]


def missed_in_silence(heard: list[dict[str, Any]]) -> list[int]:
    """Return the numbers of events before which some are missing, without a gap or a merged delta."""
    missed: list[int] = []
    seen = 0
    for found in heard:
        if found.get("method") == "sidecar/gap":
            seen = found["params"]["to"]
        elif found.get("method") == "sidecar/event":
            seq = found["params"]["seq"]
            if seen and seq > seen + 1 and found["params"]["kind"] != "textDelta":
                missed.append(seq)
            seen = seq
    return missed


def say(line: str) -> None:
    """Print the figure this test is for."""
    sys.stdout.write(f"\n{line} ")
