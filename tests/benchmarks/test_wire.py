"""The wire against a bare asyncio and msgspec loop, in the same run: start, requests, notifications, 10 MB.

Both are processes spoken to over pipes by the same blocking client, in turns, and both answer the same: of a
``sidecar/status`` as much as the daemon does, of an echo the params. Only ratios are asserted. Where nothing
but the wire is to be measured, the daemon is one over a fake service. What a server does with many messages
is measured by its processor time, so that neither the client nor a busy machine counts.

A round trip is a single request to a server that waits for it. Its time is that of the client, of two
wake-ups of a process, and of the server, whose caches are cold. The servers take turns at each trip. The
lower quartile is judged, because a program beside them adds to most trips on a busy machine; and the first
trips are not, because a daemon loads in its first seconds what a session may need. The bare loop uses the
streams of asyncio, which make seven system calls for a request; the daemon makes three.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from sidecar.protocol.framing import HeaderDecoder, frame_with_header

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Starts

pytestmark = pytest.mark.processes

REAL = ["-P", "-m", "sidecar"]
FAKE = [str(Path(__file__).parents[1] / "support" / "fake_daemon.py")]
SHIM = ["-P", "-m", "sidecar", "serve", "--shared", "--stdio"]
ROUNDS = 7
MOST_OF_ROUND_TRIP = 1.5
N_ROUND_TRIPS = 4_000
N_FIRST_TRIPS = 1_000
"""Trips that are not judged."""
N_PIPELINED = 2_000
N_STATUSES = 1_000
N_NOTIFICATIONS = 10_000
N_KEYSTROKES = 4_000
N_EVENTS = 5_000
"""In one burst; a log may let go of older ones when there are many more."""
STRUCTURED = {
    "rows": [{"id": n, "name": f"row {n}", "tags": ["a", "b"], "at": n / 7} for n in range(155_000)]
}

ECHO = {"sid": "s", "path": "src/a/module.py", "text": "some words " * 24}
"""Flat: the fake service keeps the params of each call, and the collector would search nested ones."""
BARE = """
import asyncio, os, sys, time
import msgspec

encode, decode = msgspec.json.encode, msgspec.json.decode

async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)

    def send(message):
        body = encode(message)
        writer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)

    while header := await reader.readline():
        await reader.readline()
        message = decode(await reader.readexactly(int(header[16:])))
        if "id" not in message:
            continue
        params = message.get("params") or {}
        if message["method"] == "sidecar/fake/events":
            for n in range(params["count"]):
                data = {"toolCallId": "t", "content": "x" * params["size"]}
                event = {"sid": params["sid"], "seq": n, "at": 0, "kind": "toolProgress", "data": data}
                send({"jsonrpc": "2.0", "method": "sidecar/event", "params": event})
                await writer.drain()
        if message["method"] == "sidecar/status":
            result = {
                "pid": os.getpid(),
                "version": "1.0.0",
                "uptimeMs": time.monotonic_ns() // 10**6,
                "clients": [{"id": "c1", "name": "a client", "face": "lsp"}],
                "sessions": {"loaded": 1, "running": 0},
                "queues": {"in": 1, "outBytes": 0},
                "rssBytes": 10**8,
                "watch": {"backend": "watchfiles", "roots": 1, "dropped": 0},
                "children": [],
                "lastErrors": [],
            }
        elif message["method"] == "sidecar/fake/echo":
            result = params
        else:
            result = {"sid": "s", "seq": 0}
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        await writer.drain()

asyncio.run(main())
"""


class Server:
    """A started program and a client that blocks."""

    def __init__(self, arguments: Sequence[str], env: dict[str, str], idle_s: float = 0.0) -> None:
        self._home = env["INDUSAGI_HOME"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, *arguments], stdin=pipe, stdout=pipe, env=env, bufsize=0
        )
        self._decoder = HeaderDecoder()
        self._ids = iter(range(1, 10**9))
        capabilities: dict[str, Any] = {"experimental": {"sidecar": {}}}
        self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities})
        time.sleep(idle_s)
        self.sid, self.first_session_s = self.open_session()

    def open_session(self) -> tuple[str, float]:
        """Return the id of a new session, and how long it took to open, in seconds."""
        began = time.perf_counter()
        sid = str(self.ask("sidecar/session/new", {"cwd": self._home})["result"]["sid"])
        return sid, time.perf_counter() - began

    def ask(self, method: str, params: Any) -> Any:
        """Send one request and return the first answer."""
        self.send(self.body(method, params))
        return self.until_answer()[0]

    def body(self, method: str, params: Any) -> bytes:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        return frame_with_header(msgspec.json.encode(message))

    def notification(self, method: str, params: Any) -> bytes:
        return frame_with_header(msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params}))

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def until_answer(self, n: int = 1) -> tuple[Any, int]:
        """Read until *n* answers are there; return the last, and how many notifications came before it."""
        assert self.process.stdout is not None
        n_notifications = 0
        while True:
            while (frame := self._decoder.next()) is not None:
                assert isinstance(frame, bytes)
                if frame.startswith(b'{"jsonrpc":"2.0","method"'):
                    n_notifications += 1
                    continue
                n -= 1
                if n == 0:
                    return msgspec.json.decode(frame), n_notifications
            self._decoder.feed(os.read(self.process.stdout.fileno(), 1 << 20))

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def bare(starts: Starts) -> Iterator[Server]:
    yield from served(["-P", "-c", BARE], starts)


@pytest.fixture(scope="module")
def real(starts: Starts) -> Iterator[Server]:
    yield from served(REAL, starts)


@pytest.fixture(scope="module")
def fake(starts: Starts) -> Iterator[Server]:
    yield from served(FAKE, starts)


def served(arguments: Sequence[str], starts: Starts) -> Iterator[Server]:
    server = Server(arguments, starts.env)
    yield server
    server.stop()


def pipelined(server: Server) -> None:
    server.send(b"".join(server.body("sidecar/fake/echo", ECHO) for _ in range(N_PIPELINED)))
    server.until_answer(N_PIPELINED)


def notifications(server: Server) -> None:
    """Send them, and wait until they were all taken."""
    server.send(server.notification("no/such", {"uri": "file:///a", "n": 1}) * N_NOTIFICATIONS)
    server.ask("sidecar/status", {})


def keystrokes(server: Server) -> None:
    """Type into the middle of a document of 10,000 lines."""
    uri = "file:///typed.py"
    text = "".join(f"def function_{n}(argument, other): return argument + {n}\n" for n in range(10_000))
    document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    server.send(server.notification("textDocument/didOpen", {"textDocument": document}))
    server.ask("sidecar/status", {})
    typed = []
    for n in range(N_KEYSTROKES):
        at = {"line": 5_000 + n // 80, "character": n % 80}
        edit = {"range": {"start": at, "end": at}, "text": "x"}
        params = {"textDocument": {"uri": uri, "version": n + 2}, "contentChanges": [edit]}
        typed.append(server.notification("textDocument/didChange", params))
    server.send(b"".join(typed))
    server.ask("sidecar/status", {})


def events(server: Server) -> None:
    params = {"sid": server.sid, "count": N_EVENTS, "size": 100}
    for _ in range(4):
        server.send(server.body("sidecar/fake/events", params))
        _, n_events = server.until_answer()
        assert n_events >= N_EVENTS


def ten_megabytes(server: Server) -> None:
    server.ask("sidecar/status", STRUCTURED)


def one_string(server: Server) -> None:
    for _ in range(5):
        server.ask("sidecar/status", {"text": "x" * 10_000_000})


def statuses(server: Server) -> None:
    for _ in range(N_STATUSES):
        server.ask("sidecar/status", {})


def seconds(work: Callable[[Server], object], server: Server) -> float:
    started = time.perf_counter()
    work(server)
    return time.perf_counter() - started


def processor_seconds(work: Callable[[Server], object], server: Server) -> float:
    """Return the processor time of all threads of *server* in *work*; elsewhere than on Linux the time."""
    threads = Path(f"/proc/{server.process.pid}/task")

    def used_ns() -> int:
        if not threads.exists():
            return time.perf_counter_ns()
        total_ns = 0
        for each in threads.glob("*/schedstat"):
            with suppress(FileNotFoundError):  # the thread has ended meanwhile
                total_ns += int(each.read_text().split()[0])
        return total_ns

    started = used_ns()
    work(server)
    return (used_ns() - started) / 1e9


@pytest.mark.parametrize(
    ("work", "at_most"),
    [
        pytest.param(notifications, 2.0, id="notifications in"),
        pytest.param(keystrokes, 4.0, id="keystrokes in"),
        pytest.param(ten_megabytes, 1.2, id="10 MB structured in"),
        pytest.param(one_string, 2.0, id="10 MB in one string"),
        pytest.param(statuses, 3.0, id="status requests"),
    ],
)
def test_the_daemon(
    work: Callable[[Server], None], at_most: float, bare: Server, real: Server, benchmark: Any
) -> None:
    benchmark.pedantic(compare, args=(work, bare, real, at_most), rounds=1)


@pytest.mark.parametrize(
    ("work", "at_most"),
    [
        pytest.param(pipelined, 1.7, id="pipelined requests"),
        pytest.param(events, 2.0, id="100-byte events"),
    ],
)
def test_the_wire_alone(
    work: Callable[[Server], None], at_most: float, bare: Server, fake: Server, benchmark: Any
) -> None:
    benchmark.pedantic(compare, args=(work, bare, fake, at_most), rounds=1)


def compare(work: Callable[[Server], None], bare: Server, ours: Server, at_most: float) -> None:
    """Print and judge the median of the ratios, each of two neighbours in time."""
    pairs = [(processor_seconds(work, bare), processor_seconds(work, ours)) for _ in range(ROUNDS)]
    ratio = statistics.median(own / theirs for theirs, own in pairs)
    best = [1e3 * min(times) for times in zip(*pairs, strict=True)]
    print(
        f"\n{work.__name__}: {ratio:.2f}x of bare (at most {at_most}x); "
        f"best {best[1]:.1f} ms and {best[0]:.1f} ms"
    )
    assert ratio <= at_most


def test_a_round_trip(bare: Server, real: Server, benchmark: Any) -> None:
    """The daemon looks up its state for a status, and the bare loop does not."""
    benchmark.pedantic(compare_trips, args=("sidecar/status", {}, bare, real), rounds=1)


def test_a_round_trip_of_the_wire_alone(bare: Server, fake: Server, benchmark: Any) -> None:
    benchmark.pedantic(compare_trips, args=("sidecar/fake/echo", ECHO, bare, fake), rounds=1)


@contextmanager
def on_one_core(*servers: Server) -> Iterator[None]:
    """Keep the client and *servers* on one core where the system can: to wake another takes 20 or 50 us."""
    if sys.platform != "linux":
        yield
        return
    cores = os.sched_getaffinity(0)
    pids = [0, *(server.process.pid for server in servers)]
    for pid in pids:
        os.sched_setaffinity(pid, {min(cores)})
    try:
        yield
    finally:
        for pid in pids:
            os.sched_setaffinity(pid, cores)


def compare_trips(method: str, params: Any, bare: Server, ours: Server) -> None:
    """Print and judge the lower quartile of single round trips."""
    trips: dict[Server, list[float]] = {bare: [], ours: []}
    with on_one_core(bare, ours):
        for _ in range(N_ROUND_TRIPS):
            for server, times in trips.items():
                times.append(seconds(lambda server: server.ask(method, params), server))
    theirs, own = (statistics.quantiles(times[N_FIRST_TRIPS:], n=4)[0] for times in trips.values())
    print(
        f"\nround trip of {method}: {own / theirs:.2f}x of bare; {1e6 * own:.0f} us and {1e6 * theirs:.0f} us"
    )
    assert own <= MOST_OF_ROUND_TRIP * theirs


CAPABILITIES: dict[str, Any] = {"experimental": {"sidecar": {}}}
ASKED = frame_with_header(
    msgspec.json.encode(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"processId": None, "rootUri": None, "capabilities": CAPABILITIES},
        }
    )
)
BARE_COMMAND = ["-P", "-c", BARE]


def test_start_to_initialize(starts: Starts, benchmark: Any) -> None:
    """An editor waits for this with its window open, so pygls and the daemon are loaded afterwards."""

    def measure() -> None:
        assert starts.ratio("lsp start", BARE_COMMAND, REAL, ASKED) <= 1.8

    benchmark.pedantic(measure, rounds=1)


@pytest.mark.parametrize(
    ("idle_s", "at_most"),
    [pytest.param(0.0, 80.0, id="at once"), pytest.param(3.0, 6.0, id="three seconds later")],
)
def test_the_first_session(idle_s: float, at_most: float, starts: Starts, benchmark: Any) -> None:
    """Against the second one: at once it waits for the daemon to load, later for next to nothing."""

    def measure() -> None:
        pairs = []
        for _ in range(ROUNDS):
            server = Server(REAL, starts.env, idle_s)
            pairs.append((server.first_session_s, server.open_session()[1]))
            server.stop()
        best = [1e3 * min(times) for times in zip(*pairs, strict=True)]
        ratio, first, second = best[0] / best[1], f"{best[0]:.0f} ms", f"{best[1]:.0f} ms"
        print(f"\nfirst session after {idle_s:.0f} s: {ratio:.1f}x of the second; {first} and {second}")
        assert ratio <= at_most

    benchmark.pedantic(measure, rounds=1)


@pytest.fixture
def shared_daemon(starts: Starts) -> Iterator[None]:
    """A daemon that runs already."""
    command = [sys.executable, *REAL, "serve", "--shared", "--daemon"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=starts.env) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline().startswith(b"listening at ")
        yield
        daemon.terminate()


@pytest.mark.skipif(sys.platform == "win32", reason="there the shim is another")
@pytest.mark.usefixtures("shared_daemon")
def test_attach_through_the_shim(starts: Starts, benchmark: Any) -> None:
    """To join a daemon that runs costs half of the start of a program that can do nothing."""

    def measure() -> None:
        assert starts.ratio("attach", BARE_COMMAND, SHIM, ASKED) <= 0.5

    benchmark.pedantic(measure, rounds=1)
