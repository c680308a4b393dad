"""The start of an agent against a bare asyncio and msgspec program, in the same run. Only ratios count."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.acp.updates import UpdateMapperV1
from sidecar.conductor.events import Event, TextDelta
from sidecar.protocol.codec import event_to_wire
from sidecar.protocol.jsonrpc import encode_notification

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Starts

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


@pytest.mark.processes
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["-P", "-m", "sidecar", "acp"], id="told to be an agent"),
        pytest.param(["-P", "-m", "sidecar"], id="finding out by the first byte"),
    ],
)
def test_start_to_initialize(arguments: list[str], starts: Starts, benchmark: Any) -> None:
    """An agent panel waits for this with its window open."""

    def measure() -> None:
        assert starts.ratio("acp start", ["-P", "-c", BARE], arguments, ASKED) <= MOST_OF_BARE

    benchmark.pedantic(measure, rounds=1)


def told(events: Sequence[Event]) -> Iterator[bytes]:
    teller = UpdateMapperV1(notices=False, compactions=False)
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
