"""Bytes to message bodies and back, for both faces: Content-Length headers, or one body a line. Sans-IO.

Feed what came, then take frames until there is none. Bytes are looked at once, a body over the limit is
skipped and not kept, and nothing is ever raised: what cannot be read is a frame too. Never looks into a body
that it delivers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from sidecar.protocol.jsonrpc import Id
from sidecar.protocol.partial import HEAD_BYTES, TAIL_BYTES, salvage

__all__ = [
    "MAX_BODY_BYTES",
    "Broken",
    "Decoder",
    "Frame",
    "HeaderDecoder",
    "LineDecoder",
    "Oversized",
    "frame_with_header",
    "frame_with_newline",
    "is_line_framed",
]

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_MAX_HEADER_BYTES: Final = 16 * 1024
_ABSURD_BYTES: Final = 512 * 1024 * 1024
"""A Content-Length nobody means: waiting for so much would only look like a hang."""

_PLAIN_HEADER: Final = re.compile(rb"Content-Length: (\d{1,8})\r\n\r\n")
"""The header that every client sends; whatever else may stand in one is read line by line."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """A body over the limit; it was skipped and the stream goes on.

    *id* is what a look at its two ends found. *is_response* says that the id is one of ours.
    """

    size: int
    id: Id | None
    is_response: bool


@dataclass(frozen=True, slots=True)
class Broken:
    """Nobody knows where the next message begins; nothing more comes out of this stream.

    *kind* is the error's: ``parse`` or ``messageTooLarge``.
    """

    kind: str
    reason: str


Frame: TypeAlias = bytes | Oversized | Broken
"""A body, or why there is none."""


class Decoder(Protocol):
    """One direction of one connection."""

    def feed(self, data: bytes) -> None:
        """Add bytes as they came."""
        ...

    def next(self) -> Frame | None:
        """Return the next frame, or None until more bytes are fed."""
        ...


def frame_with_header(body: bytes) -> bytes:
    """Return *body* with its Content-Length header.

    >>> frame_with_header(b"{}")
    b'Content-Length: 2\\r\\n\\r\\n{}'
    """
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def frame_with_newline(body: bytes) -> bytes:
    """Return *body* as one line; JSON as we write it holds no newline."""
    return body + b"\n"


def is_line_framed(first: bytes) -> bool:
    """Whether a client whose *first* bytes these are sends one message a line; headers never begin blank.

    >>> is_line_framed(b'{"jsonrpc"'), is_line_framed(b"content-length: 2"), is_line_framed(b"\\n")
    (True, False, True)
    """
    return first[:1] in (b"{", b"[") or first[:1].isspace()


class HeaderDecoder:
    """Frames with header lines, as lenient as HTTP: any case, LF or CR LF, other headers ignored."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._max_body_bytes = max_body_bytes
        self._lines = _Lines()
        self._header_bytes = 0
        self._is_in_header = False
        self._declared: int | None = None
        self._body_bytes: int | None = None
        self._skipped: _Skipped | None = None
        self._is_broken = False

    def feed(self, data: bytes) -> None:
        """Add bytes as they came; after a Broken they are dropped."""
        if not self._is_broken:
            self._lines.feed(data)

    def next(self) -> Frame | None:
        """Return the next frame, or None until more bytes are fed."""
        if self._body_bytes is None and not self._is_broken:
            broken = self._read_header()
            if broken is not None:
                self._is_broken = True
                self._lines = _Lines()
                return broken
        if self._body_bytes is None:
            return None
        return self._skip() if self._body_bytes > self._max_body_bytes else self._take()

    def _read_header(self) -> Broken | None:
        """Set the length of the body once its header is whole; Broken when it has none."""
        if not self._is_in_header and (plain := self._lines.take_match(_PLAIN_HEADER)) is not None:
            self._body_bytes, self._header_bytes = int(plain), 0
            return None
        while (line := self._lines.next()) is not None:
            self._header_bytes += len(line) + 1
            if self._header_bytes > _MAX_HEADER_BYTES:
                break
            broken = self._read_line(line) if line.strip() else self._end_header()
            if broken is not None or self._body_bytes is not None:
                return broken
        if self._header_bytes + self._lines.waiting > _MAX_HEADER_BYTES:
            return Broken("parse", f"a header of more than {_MAX_HEADER_BYTES} bytes")
        return None

    def _end_header(self) -> Broken | None:
        """Take the empty line; between two messages it means nothing."""
        if self._declared is None and self._is_in_header:
            return Broken("parse", "a header without Content-Length")
        self._body_bytes, self._declared = self._declared, None
        self._header_bytes, self._is_in_header = 0, False
        return None

    def _read_line(self, line: bytes) -> Broken | None:
        self._is_in_header = True
        name, _, value = line.partition(b":")
        if name.strip().lower() != b"content-length":
            return None
        digits = value.strip()
        if not digits.isdigit():
            return Broken("parse", "a Content-Length that is no number")
        # Twenty digits are absurd already, and converting a million of them would take seconds.
        length = int(digits) if len(digits) < 20 else _ABSURD_BYTES + 1
        if length > max(_ABSURD_BYTES, self._max_body_bytes):
            return Broken("messageTooLarge", "an absurd Content-Length")
        if self._declared not in (None, length):
            return Broken("parse", "two different Content-Lengths")
        self._declared = length
        return None

    def _take(self) -> bytes | None:
        assert self._body_bytes is not None
        if self._lines.waiting < self._body_bytes:
            return None
        body = self._lines.take(self._body_bytes)
        self._body_bytes = None
        return body

    def _skip(self) -> Oversized | None:
        assert self._body_bytes is not None
        self._skipped = skipped = self._skipped or _Skipped()
        skipped.add(self._lines.take(min(self._lines.waiting, self._body_bytes - skipped.size)))
        if skipped.size < self._body_bytes:
            return None
        self._body_bytes = self._skipped = None
        return skipped.frame()


class LineDecoder:
    """One body a line, lines ended by LF alone; empty lines are nothing."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._max_body_bytes = max_body_bytes
        self._lines = _Lines()
        self._skipped: _Skipped | None = None

    def feed(self, data: bytes) -> None:
        """Add bytes as they came."""
        self._lines.feed(data)

    def next(self) -> Frame | None:
        """Return the next frame, or None until more bytes are fed."""
        while (line := self._lines.next()) is not None:
            if self._skipped is not None or len(line) > self._max_body_bytes:
                return self._end_of_skipped(line)
            if line.strip():
                return line
        if self._skipped is not None or self._lines.unended > self._max_body_bytes:
            self._skipped = self._skipped or _Skipped()
            self._skipped.add(self._lines.take(self._lines.unended))
        return None

    def _end_of_skipped(self, line: bytes) -> Oversized:
        skipped = self._skipped or _Skipped()
        skipped.add(line)
        self._skipped = None
        return skipped.frame()


class _Lines:
    """Bytes that wait, taken by line or by number; the search for a line's end never starts over."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._start = 0
        self._searched = 0

    @property
    def waiting(self) -> int:
        """How many bytes there are."""
        return len(self._buffer) - self._start

    @property
    def unended(self) -> int:
        """How many bytes there are of a line whose end has not come; a last CR may be part of that end."""
        return self.waiting - (self.waiting > 0 and self._buffer.endswith(b"\r"))

    def feed(self, data: bytes) -> None:
        if self._start:
            del self._buffer[: self._start]
            self._searched = max(0, self._searched - self._start)
            self._start = 0
        self._buffer += data

    def next(self) -> bytes | None:
        """Return the next whole line without its end, or None."""
        end = self._buffer.find(b"\n", max(self._searched, self._start))
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = self.take(end - self._start)
        self._start += 1
        return line[:-1] if line.endswith(b"\r") else line

    def take_match(self, pattern: re.Pattern[bytes]) -> bytes | None:
        """Return the first group of *pattern* if what waits begins with it, and take all of that."""
        found = pattern.match(self._buffer, self._start)
        if found is None:
            return None
        self._start = found.end()
        return found[1]

    def take(self, count: int) -> bytes:
        """Return the next *count* bytes."""
        with memoryview(self._buffer) as view:
            data = bytes(view[self._start : self._start + count])
        self._start += count
        return data


class _Skipped:
    """The two ends of a body that is not kept."""

    def __init__(self) -> None:
        self.size = 0
        self._head = b""
        self._tail = b""

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self._head += data[: HEAD_BYTES - len(self._head)]
        self._tail = (self._tail + data)[-TAIL_BYTES:]

    def frame(self) -> Oversized:
        found = salvage(self._head, self._tail)
        return Oversized(self.size, found.id, found.is_response)
