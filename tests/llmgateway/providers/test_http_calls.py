"""The body of a stream is cut into events, alike for any cut of its bytes; none of them fills the memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.providers import http_calls
from sidecar.llmgateway.providers.http_calls import END_MARK, EventBody, ReportedFailureError


class Response:
    """A response whose body comes in *pieces*."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.is_closed = False

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        self.is_closed = True


async def test_other_tasks_have_their_turn_within_a_piece_of_many_events() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    events = [together async for together in EventBody(Response(b'data: {"n": 1}\n\n' * 64)).events()]
    counting.cancel()
    assert sum(map(len, events)) == 64
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
    monkeypatch.setattr(http_calls, "MAX_EVENT_BYTES", 100)
    with pytest.raises(ReportedFailureError, match="without the end of an event"):
        _ = [event async for event in EventBody(Response(*pieces)).events()]


EVENTS = [{"text": "a", "type": "delta"}, {"text": "\u65e5\u672c \U0001f642"}, {"text": "\u2028"}, {"n": 1}]
LINES = [
    b": a comment",
    b"",
    b"event: delta",
    b'data: {"text": "a"}',
    b"",
    b'data: {"text":',
    'data:"\u65e5\u672c \U0001f642"}'.encode(),
    b"",
    b"",
    'data:{"text": "\u2028"}'.encode(),
    b"id: 7",
    b"",
    b'data: {"n": 1}',
    b"",
]
FAILURE = [b'data: {"error": {"message": "too busy"}}', b"", b'data: {"n": 2}', b"", b""]
MARK = [b"data: [DONE]", b""]
NEWLINES = st.sampled_from([b"\n", b"\r\n", b"\r"])
CUTS = st.lists(st.integers(0, 400), max_size=12)


def read(lines: Sequence[bytes], newline: bytes, cuts: Sequence[int]) -> tuple[list[Any], str | None]:
    """Return the events of *lines*, and the failure behind them."""
    sent = newline.join(lines)
    places = [0, *sorted(place % (len(sent) + 1) for place in cuts), len(sent)]
    response = Response(*(sent[start:end] for start, end in pairwise(places)))
    stream = EventBody(response)
    events: list[Any] = []

    async def read_all() -> str | None:
        try:
            async for together in stream.events():
                assert together
                events.extend(together)
        except ReportedFailureError as error:
            return error.failure.message
        return None

    failure = asyncio.run(read_all())
    assert response.is_closed
    return events, failure


@given(NEWLINES, CUTS, st.booleans())
def test_events_are_the_same_wherever_their_bytes_are_cut(
    newline: bytes, cuts: list[int], has_mark: bool
) -> None:
    """The last event may end with the stream in place of an empty line."""
    lines = [*LINES, *MARK] if has_mark else LINES[:-1]
    assert read(lines, newline, cuts) == ([*EVENTS, *[{"type": END_MARK}] * has_mark], None)


def test_a_piece_may_end_with_the_return_of_a_line_and_the_next_have_no_end() -> None:
    assert read([b'data: {"n": 1}', b"", b'data: {"n": 2}'], b"\r", [len(b'data: {"n": 1}') + 2]) == (
        [{"n": 1}, {"n": 2}],
        None,
    )


@given(NEWLINES, CUTS)
def test_a_failure_comes_behind_the_events_before_it(newline: bytes, cuts: list[int]) -> None:
    assert read([*LINES, *FAILURE], newline, cuts) == (EVENTS, "too busy")
