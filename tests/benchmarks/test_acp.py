"""The start of an agent against a bare asyncio and msgspec program, in the same run. Only ratios count."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sidecar.acp.updates import Teller
from sidecar.conductor.events import Event, TextDelta
from sidecar.protocol.codec import event_to_wire
from sidecar.protocol.jsonrpc import encode_notification

ROUNDS = 15
MOST_OF_BARE = 1.6
MOST_OF_EVENT = 4.0
N_EVENTS = 5_000
ASKED = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'

BARE = """
import asyncio, os, sys
import msgspec

async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    message = msgspec.json.decode(await reader.readline())
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"protocolVersion": 1}}
    os.write(1, msgspec.json.encode(answer) + b"\\n")
    await reader.read()

asyncio.run(main())
"""


def start_s(command: Sequence[str], home: Path) -> float:
    """Return the seconds from the start of a process to its answer to ``initialize``."""
    env = {**os.environ, "INDUSAGI_HOME": str(home)}
    pipe = subprocess.PIPE
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, *command], stdin=pipe, stdout=pipe, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(ASKED)
        process.stdin.flush()
        answer = process.stdout.readline()
        took = time.perf_counter() - began
        process.stdin.close()
        process.wait(30)
    assert b'"protocolVersion":1' in answer
    return took


def test_start_to_initialize(benchmark: Any, tmp_path: Path) -> None:
    """An agent panel waits for this with its window open."""

    def pair() -> tuple[float, float]:
        return start_s(["-c", BARE], tmp_path), start_s(["-m", "sidecar", "acp"], tmp_path)

    def measure() -> None:
        pair()  # compiles what was never run
        pairs = [pair() for _ in range(ROUNDS)]
        ratio = statistics.median(ours / bare for bare, ours in pairs)
        best = [1e3 * min(times) for times in zip(*pairs, strict=True)]
        print(f"\nacp start: {ratio:.2f} of a bare program; best {best[1]:.0f} ms and {best[0]:.0f} ms")
        assert ratio <= MOST_OF_BARE

    benchmark.pedantic(measure, rounds=1)


def told(events: Sequence[Event]) -> Iterator[bytes]:
    teller = Teller(notices=False, compactions=False)
    for event in events:
        for update in teller.updates(event_to_wire(event)):
            yield encode_notification("session/update", {"sessionId": event.sid, "update": update})


def plain(events: Sequence[Event]) -> Iterator[bytes]:
    return (encode_notification("sidecar/event", event_to_wire(event)) for event in events)


def best_s(work: Callable[[Sequence[Event]], Iterator[bytes]], events: Sequence[Event]) -> float:
    times = []
    for _ in range(20):
        began = time.perf_counter()
        assert len(list(work(events))) == len(events)
        times.append(time.perf_counter() - began)
    return min(times)


def test_telling_a_delta(benchmark: Any) -> None:
    """To tell a delta in this protocol's words costs little more than to tell it in our own."""
    events = [Event("s", n, 0, TextDelta("m", "some words "), "t") for n in range(1, N_EVENTS)]

    def measure() -> None:
        theirs, ours = best_s(plain, events), best_s(told, events)
        print(f"\nacp delta: {ours / theirs:.2f} of a plain event ({1e6 * ours / len(events):.1f} us)")
        assert ours <= MOST_OF_EVENT * theirs

    benchmark.pedantic(measure, rounds=1)
