"""The body of a stream is cut into events; none of them fills the memory or holds the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sidecar.llmgateway.providers import body
from sidecar.llmgateway.providers.body import EventBody, ReportedFailureError


class Response:
    """A response whose body comes in *pieces*."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        return None


async def test_other_tasks_have_their_turn_within_a_piece_of_many_events() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    events = [event async for event in EventBody(Response(b'data: {"n": 1}\n\n' * 64)).events()]
    counting.cancel()
    assert len(events) == 64
    assert turns >= 4


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b'data: {"x": "', *[b"a" * 40] * 4], id="a line"),
        pytest.param([b"data: aaaaaaaaaa\n"] * 12, id="many lines"),
    ],
)
async def test_an_event_without_an_end_is_a_failure(
    pieces: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "MAX_EVENT_BYTES", 100)
    with pytest.raises(ReportedFailureError, match="without the end of an event"):
        _ = [event async for event in EventBody(Response(*pieces)).events()]
