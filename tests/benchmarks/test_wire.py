"""The wire against a bare asyncio and msgspec loop, in the same run: start, round trip, events, 10 MB in.

Both are processes spoken to over pipes by the same blocking client. Only ratios are asserted.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sidecar.protocol.framing import HeaderDecoder, frame_with_header

DAEMON = Path(__file__).parents[1] / "server" / "daemon_program.py"
ROUNDS = 5
N_ROUND_TRIPS = 1_000
N_PIPELINED = 2_000
N_EVENTS = 5_000
"""In one burst; a log may let go of older ones when there are many more."""
STRUCTURED = {
    "rows": [{"id": n, "name": f"row {n}", "tags": ["a", "b"], "at": n / 7} for n in range(155_000)]
}

BARE = """
import asyncio, sys
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
        params = message.get("params") or {}
        if message["method"] == "sidecar/fake/events":
            for n in range(params["count"]):
                data = {"toolCallId": "t", "content": "x" * params["size"]}
                event = {"sid": params["sid"], "seq": n, "at": 0, "kind": "toolProgress", "data": data}
                send({"jsonrpc": "2.0", "method": "sidecar/event", "params": event})
                await writer.drain()
        queues = {"requests": 1, "outBytes": 0}
        result = {"pid": 1, "clients": 1, "queues": queues, "sid": "s", "seq": len(params)}
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        await writer.drain()

asyncio.run(main())
"""


class Server:
    """A started program and a client that blocks."""

    def __init__(self, program: Path) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, str(program)], stdin=pipe, stdout=pipe, bufsize=0)
        self._decoder = HeaderDecoder()
        self._ids = iter(range(1, 10**9))
        capabilities: dict[str, Any] = {"experimental": {"sidecar": {}}}
        self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities})
        self.sid = self.ask("sidecar/session/new", {})["result"]["sid"]

    def ask(self, method: str, params: Any) -> Any:
        """Send one request and return the first answer."""
        self.send(self.body(method, params))
        return self.until_answer()[0]

    def body(self, method: str, params: Any) -> bytes:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        return frame_with_header(msgspec.json.encode(message))

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
def bare_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bare") / "bare.py"
    path.write_text(BARE)
    return path


@pytest.fixture(scope="module")
def servers(bare_program: Path) -> Iterator[tuple[Server, Server]]:
    """The bare loop and the daemon, both started."""
    both = (Server(bare_program), Server(DAEMON))
    yield both
    for server in both:
        server.stop()


def round_trips(server: Server) -> None:
    for _ in range(N_ROUND_TRIPS):
        server.ask("sidecar/status", {})


def pipelined(server: Server) -> None:
    server.send(b"".join(server.body("sidecar/status", {}) for _ in range(N_PIPELINED)))
    server.until_answer(N_PIPELINED)


def events(server: Server) -> None:
    params = {"sid": server.sid, "count": N_EVENTS, "size": 100}
    for _ in range(4):
        server.send(server.body("sidecar/fake/events", params))
        _, n_events = server.until_answer()
        assert n_events >= N_EVENTS


def ten_megabytes(server: Server) -> None:
    server.ask("sidecar/fake/size", STRUCTURED)


def seconds(work: Callable[[Server], None], server: Server) -> float:
    started = time.perf_counter()
    work(server)
    return time.perf_counter() - started


@pytest.mark.parametrize(
    ("work", "at_most"),
    [
        pytest.param(round_trips, 2.0, id="status round trip"),
        pytest.param(pipelined, 5.0, id="pipelined status"),
        pytest.param(events, 4.0, id="100-byte events"),
        pytest.param(ten_megabytes, 1.5, id="10 MB structured in"),
    ],
)
def test_wire_ratio(
    work: Callable[[Server], None], at_most: float, servers: tuple[Server, Server], benchmark: Any
) -> None:
    bare, daemon = servers
    pairs = [(seconds(work, bare), seconds(work, daemon)) for _ in range(ROUNDS)]
    benchmark.pedantic(work, args=(daemon,), rounds=1)
    report(work.__name__, pairs, at_most)


def test_start_ratio(bare_program: Path, benchmark: Any) -> None:
    def start(program: Path) -> float:
        started = time.perf_counter()
        server = Server(program)
        took = time.perf_counter() - started
        server.stop()
        return took

    start(DAEMON)
    pairs = [(start(bare_program), start(DAEMON)) for _ in range(ROUNDS)]
    benchmark.pedantic(start, args=(DAEMON,), rounds=1)
    report("start", pairs, 8.0)


def report(name: str, pairs: list[tuple[float, float]], at_most: float) -> None:
    """Print and judge the median of the ratios, each of two neighbours in time."""
    ratio = statistics.median(daemon / bare for bare, daemon in pairs)
    best = (min(bare for bare, _ in pairs) * 1000, min(daemon for _, daemon in pairs) * 1000)
    print(  # what a benchmark is for
        f"\n{name}: {ratio:.2f}x of bare (at most {at_most}x); best {best[0]:.1f} ms and {best[1]:.1f} ms"
    )
    assert ratio <= at_most
