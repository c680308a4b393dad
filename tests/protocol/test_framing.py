"""Bytes to frames: both framings, lenient in what they take, bounded in what they keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.protocol.framing import (
    BrokenStream,
    Decoder,
    Frame,
    HeaderDecoder,
    LineDecoder,
    Oversized,
    frame_with_header,
    frame_with_newline,
    is_line_framed,
)

SMALL_LIMIT = 100


def drain(decoder: Decoder) -> Iterator[Frame]:
    while (frame := decoder.next()) is not None:
        yield frame


def frames(decoder: Decoder, data: bytes, step: int) -> list[Frame]:
    """Feed *data* in pieces of *step* bytes."""
    found: list[Frame] = []
    for start in range(0, len(data), step):
        decoder.feed(data[start : start + step])
        found += drain(decoder)
    return found


def check(make: Callable[[], Decoder], data: bytes, expected: list[Frame]) -> None:
    """Whole, in halves or byte by byte: the frames are the same."""
    for step in (len(data), max(1, len(data) // 2), 7, 1):
        assert frames(make(), data, step) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"Content-Length: 2\r\n\r\n{}", [b"{}"], id="a header and a body"),
        pytest.param(b"content-length: 2\r\n\r\n{}", [b"{}"], id="lower-case header names"),
        pytest.param(b"CONTENT-LENGTH:2\r\n\r\n{}", [b"{}"], id="upper case, no space"),
        pytest.param(b"Content-Length: 2\n\n{}", [b"{}"], id="LF-only header lines"),
        pytest.param(
            b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}",
            [b"{}"],
            id="another header before",
        ),
        pytest.param(b"Content-Length: 2\r\nX-Y: z\r\n\r\n{}", [b"{}"], id="another header after"),
        pytest.param(b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", [b"{}"], id="said twice"),
        pytest.param(
            b"Content-Length: 2\r\n\r\n{}Content-Length: 2\r\n\r\n[]", [b"{}", b"[]"], id="two in a row"
        ),
        pytest.param(b"\r\n\nContent-Length: 2\r\n\r\n{}", [b"{}"], id="empty lines between messages"),
        pytest.param(b"Content-Length: 0\r\n\r\n", [b""], id="an empty body is a body"),
        pytest.param(b"Content-Length: 4\r\n\r\n\n\r\n\n", [b"\n\r\n\n"], id="line ends inside a body"),
        pytest.param(
            "Content-Length: 5\r\n\r\n\u2028\x0c\x0b".encode(), [b"\xe2\x80\xa8\x0c\x0b"], id="U+2028"
        ),
        pytest.param(b"Content-Length: 2\r\n\r\n{", [], id="half a body is none"),
    ],
)
def test_header_frames(data: bytes, expected: list[Frame]) -> None:
    check(HeaderDecoder, data, expected)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param(b"Content-Length: 18446744073709551616\r\n", "messageTooLarge", id="absurd"),
        pytest.param(b"Content-Length: 999999999\r\n", "messageTooLarge", id="a gigabyte"),
        pytest.param(
            b"Content-Length: " + b"9" * 10_000 + b"\r\n", "messageTooLarge", id="ten thousand digits"
        ),
        pytest.param(b"Content-Length: -1\r\n", "parse", id="negative"),
        pytest.param(b"Content-Length: 2.5\r\n", "parse", id="no integer"),
        pytest.param(b"Content-Length: \xd9\xa2\r\n", "parse", id="digits of another script"),
        pytest.param(b"Content-Length:\r\n", "parse", id="empty"),
        pytest.param(b"Content-Length: 2\r\nContent-Length: 3\r\n", "parse", id="contradiction"),
        pytest.param(b"Content-Type: x\r\n\r\n", "parse", id="no length at all"),
        pytest.param(b"x" * 17_000, "parse", id="a header without end"),
        pytest.param(b"a: b\r\n" * 3_000, "parse", id="headers without end"),
    ],
)
def test_unreadable_header_ends_the_stream(data: bytes, kind: str) -> None:
    more = b"\r\nContent-Length: 2\r\n\r\n{}"
    for step in (len(data + more), 1):
        found = frames(HeaderDecoder(), data + more, step)
        assert [type(frame) for frame in found] == [BrokenStream]
        assert [frame.kind for frame in found if isinstance(frame, BrokenStream)] == [kind]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"{}\n[]\n", [b"{}", b"[]"], id="two lines"),
        pytest.param(b"{}\r\n", [b"{}"], id="CR LF"),
        pytest.param(b"\n  \n{}\n\n", [b"{}"], id="empty lines are nothing"),
        pytest.param(
            '{"a":"\u2028\u0085\x0c"}\n'.encode(), ['{"a":"\u2028\u0085\x0c"}'.encode()], id="LF only"
        ),
        pytest.param(b'{"a":1}', [], id="no line before its end"),
    ],
)
def test_line_frames(data: bytes, expected: list[Frame]) -> None:
    check(LineDecoder, data, expected)


BIG = b'{"jsonrpc":"2.0","id":"q","method":"x","params":{"text":"' + b"a" * SMALL_LIMIT + b'"}}'


@pytest.mark.parametrize(
    ("make", "wrap"),
    [
        pytest.param(HeaderDecoder, frame_with_header, id="headers"),
        pytest.param(LineDecoder, frame_with_newline, id="lines"),
    ],
)
def test_oversized_body_is_skipped_and_the_stream_goes_on(
    make: Callable[[int], Decoder], wrap: Callable[[bytes], bytes]
) -> None:
    data = wrap(b"{}") + wrap(BIG) + wrap(b"[]")
    expected: list[Frame] = [b"{}", Oversized(len(BIG), "q", is_response=False), b"[]"]
    check(lambda: make(SMALL_LIMIT), data, expected)


@pytest.mark.parametrize("make", [HeaderDecoder, LineDecoder])
def test_body_at_the_limit_is_kept(make: Callable[[int], Decoder]) -> None:
    wrap = frame_with_header if make is HeaderDecoder else frame_with_newline
    check(lambda: make(SMALL_LIMIT), wrap(b"x" * SMALL_LIMIT), [b"x" * SMALL_LIMIT])


def test_oversized_body_is_not_kept_in_memory() -> None:
    decoder = HeaderDecoder(1_000)
    decoder.feed(b"Content-Length: 100000000\r\n\r\n")
    piece = b"a" * 100_000
    for _ in range(50):
        decoder.feed(piece)
        assert decoder.next() is None
    assert decoder._lines.waiting == 0
    assert len(decoder._lines._buffer) <= len(piece)


bodies = st.binary(max_size=60)


@given(st.lists(bodies, max_size=8), st.integers(1, 50))
def test_headers_round_trip_in_any_pieces(sent: list[bytes], step: int) -> None:
    data = b"".join(map(frame_with_header, sent))
    assert frames(HeaderDecoder(), data, step) == sent


@given(
    st.lists(bodies.map(lambda body: body.replace(b"\n", b" ").rstrip(b"\r")), max_size=8), st.integers(1, 50)
)
def test_lines_round_trip_in_any_pieces(sent: list[bytes], step: int) -> None:
    data = b"".join(map(frame_with_newline, sent))
    assert frames(LineDecoder(), data, step) == [body for body in sent if body.strip()]


@example(b"0123456789\r\n", 1)
@example(b"01234567890\r\n", 1)
@example(b"01234567890\r\r\n", 1)
@given(st.binary(max_size=300), st.integers(1, 20))
def test_garbage_never_raises_and_pieces_do_not_matter(data: bytes, step: int) -> None:
    for make in (HeaderDecoder, LineDecoder):
        assert frames(make(10), data, step) == frames(make(10), data, max(1, len(data)))


@pytest.mark.parametrize("make", [HeaderDecoder, LineDecoder])
def test_small_pieces_cost_no_more_than_their_bytes(make: Callable[[], Decoder]) -> None:
    """A rescan from the start of the body would cost its square, and this test minutes."""
    decoder = make()
    wrap = frame_with_header if make is HeaderDecoder else frame_with_newline
    data = wrap(b"a" * 2_000_000)
    assert frames(decoder, data, 16) == [b"a" * 2_000_000]


@pytest.mark.parametrize(
    ("first", "expected"),
    [(b"{", True), (b"\n [", True), (b"Content-Length", False), (b"content-length", False), (b"", False)],
)
def test_framing_is_told_by_the_first_byte(first: bytes, expected: bool) -> None:
    assert is_line_framed(first) is expected
