"""Framing: bytes to message bodies and back, with Content-Length headers or one body a line. Does no I/O.

A connection feeds the bytes that it received and takes frames until :meth:`Decoder.next` returns None. Three
rules:

- Nothing is raised. A body over the limit is skipped and reported as :class:`Oversized`, and the stream goes
  on. A header that cannot be read is reported as :class:`BrokenStream`, and nothing comes after it, because
  the place where the next message begins is lost.
- Each byte is looked at once. The search for a line's end goes on where the last one stopped, and the buffer
  is cut once for each feed: a message that comes in a thousand pieces costs as much as in one.
- At most the two ends of a body over the limit are held in memory.

Example: after ``Content-Length: 2`` and an empty line, ``{}`` is the body; the decoder of lines takes ``{}``
and LF.
"""

from __future__ import annotations

import re
from typing import Final, Protocol, TypeAlias

from sidecar._internal.values import Value
from sidecar.protocol.jsonrpc import HEAD_BYTES, TAIL_BYTES, Id, read_envelope

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_MAX_HEADER_BYTES: Final = 16 * 1024
_SHORT_BYTES: Final = 4 * 1024
"""The most bytes of an incomplete message that are copied when more of it comes."""

_ABSURD_BYTES: Final = 512 * 1024 * 1024
"""A Content-Length above this is a mistake; to wait for so many bytes would look like a hang."""

_PLAIN_HEADER: Final = re.compile(rb"Content-Length: (\d{1,8})\r\n\r\n")
"""The header as nearly every client sends it; any other is read line by line."""


class Oversized(Value):
    """A body over the limit; it was skipped and the stream goes on.

    *id* is None when its two ends do not show it. *is_response* is True when the id is one of ours.
    """

    size: int
    id: Id | None
    is_response: bool


class BrokenStream(Value):
    """The beginning of the next message is lost; no frame comes after this one.

    *kind* is that of the error: ``parse`` or ``messageTooLarge``.
    """

    kind: str
    reason: str


Frame: TypeAlias = bytes | Oversized | BrokenStream
"""A body, or the reason that there is none."""


class Decoder(Protocol):
    """One direction of one connection."""

    @property
    def waiting(self) -> int:
        """The number of bytes that are no whole frame yet, or a frame that was not taken."""
        ...

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
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
    """Return whether a stream with these *first* bytes has one message a line; no header begins blank.

    >>> is_line_framed(b'{"jsonrpc"'), is_line_framed(b"content-length: 2"), is_line_framed(b"\\n")
    (True, False, True)
    """
    return first[:1] in (b"{", b"[") or first[:1].isspace()


class HeaderDecoder:
    """Decoder of frames with headers, as lenient as HTTP: any case, LF or CR LF, other headers ignored."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._max_body_bytes = max_body_bytes
        self._lines = _Lines()
        self._header_bytes = 0
        self._is_in_header = False
        self._declared: int | None = None
        self._body_bytes: int | None = None
        self._skipped: _Skipped | None = None
        self._is_broken = False

    @property
    def waiting(self) -> int:
        """The number of bytes that wait; see :class:`Decoder`."""
        return self._lines.waiting

    def feed(self, data: bytes) -> None:
        """Add received bytes; after a BrokenStream they are dropped."""
        if not self._is_broken:
            self._lines.feed(data)

    def next(self) -> Frame | None:
        """Return the next frame, or None until more bytes are fed."""
        if self._body_bytes is None:
            if not self._lines.waiting:
                return None
            broken = self._read_header()
            if broken is not None:
                self._is_broken = True
                self._lines = _Lines()
                return broken
            if self._body_bytes is None:
                return None
        n_waiting = self._lines.waiting
        if self._body_bytes > self._max_body_bytes:
            self._skipped = skipped = self._skipped or _Skipped()
            skipped.add(self._lines.take(min(n_waiting, self._body_bytes - skipped.size)))
            if skipped.size < self._body_bytes:
                return None
            self._body_bytes = self._skipped = None
            return skipped.frame()
        if n_waiting < self._body_bytes:
            return None
        body = self._lines.take(self._body_bytes)
        self._body_bytes = None
        return body

    def _read_header(self) -> BrokenStream | None:
        """Set the length of the body once its header is complete; return a BrokenStream if there is none."""
        if not self._is_in_header and (plain := self._lines.take_match(_PLAIN_HEADER)) is not None:
            self._body_bytes, self._header_bytes = int(plain), 0
            return None
        while (line := self._lines.next()) is not None:
            self._header_bytes += len(line) + 1
            if self._header_bytes > _MAX_HEADER_BYTES:
                break
            if line.strip():
                if (broken := self._read_line(line)) is not None:
                    return broken
            elif self._declared is not None:
                self._body_bytes, self._declared = self._declared, None
                self._header_bytes, self._is_in_header = 0, False
                return None
            elif self._is_in_header:
                return BrokenStream("parse", "the header has no Content-Length")
            else:  # an empty line between two messages
                self._header_bytes = 0
        if self._header_bytes + self._lines.waiting > _MAX_HEADER_BYTES:
            return BrokenStream("parse", f"the header is longer than {_MAX_HEADER_BYTES} bytes")
        return None

    def _read_line(self, line: bytes) -> BrokenStream | None:
        self._is_in_header = True
        name, _, value = line.partition(b":")
        if name.strip().lower() != b"content-length":
            return None
        digits = value.strip()
        if not digits.isdigit():
            return BrokenStream("parse", "the Content-Length is not a number")
        # Twenty digits are absurd already, and converting a million of them would take seconds.
        length = int(digits) if len(digits) < 20 else _ABSURD_BYTES + 1
        if length > max(_ABSURD_BYTES, self._max_body_bytes):
            return BrokenStream("messageTooLarge", "the Content-Length is absurdly large")
        if self._declared not in (None, length):
            return BrokenStream("parse", "the header has two different Content-Lengths")
        self._declared = length
        return None


class LineDecoder:
    """Decoder of one body a line; a line ends with LF alone, and empty lines are ignored."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._max_body_bytes = max_body_bytes
        self._lines = _Lines()
        self._skipped: _Skipped | None = None

    @property
    def waiting(self) -> int:
        """The number of bytes that wait; see :class:`Decoder`."""
        return self._lines.waiting

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._lines.feed(data)

    def next(self) -> Frame | None:
        """Return the next frame, or None until more bytes are fed."""
        while (line := self._lines.next()) is not None:
            if self._skipped is not None or len(line) > self._max_body_bytes:
                skipped, self._skipped = self._skipped or _Skipped(), None
                skipped.add(line)
                return skipped.frame()
            if line.strip():
                return line
        if self._skipped is not None or self._lines.unended > self._max_body_bytes:
            self._skipped = self._skipped or _Skipped()
            self._skipped.add(self._lines.take(self._lines.unended))
        return None


class _Lines:
    """A buffer of bytes, taken by line or by number; the search for a line's end never starts over.

    The buffer is the received bytes themselves, which are not copied and quick to cut. Only a message that is
    longer than one read grows in an array of its own.
    """

    def __init__(self) -> None:
        self._buffer: bytes | bytearray = b""
        self._start = 0
        self._searched = 0

    @property
    def waiting(self) -> int:
        """Number of bytes in the buffer."""
        return len(self._buffer) - self._start

    @property
    def unended(self) -> int:
        """Number of bytes of an incomplete line; a last CR may belong to its end and does not count."""
        return self.waiting - (self.waiting > 0 and self._buffer.endswith(b"\r"))

    def feed(self, data: bytes) -> None:
        if self.waiting < _SHORT_BYTES:
            self._buffer = bytes(self._buffer[self._start :]) + data
        else:
            if isinstance(self._buffer, bytes):
                self._buffer = bytearray(self._buffer)
            del self._buffer[: self._start]
            self._buffer += data
        self._searched = max(0, self._searched - self._start)
        self._start = 0

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
        """Take a match of *pattern* at the front of the buffer and return its first group, else None."""
        found = pattern.match(self._buffer, self._start)
        if found is None:
            return None
        self._start = found.end()
        return found[1]

    def take(self, count: int) -> bytes:
        """Return the next *count* bytes."""
        start, self._start = self._start, self._start + count
        if isinstance(self._buffer, bytes):
            return self._buffer[start : self._start]
        with memoryview(self._buffer) as view:
            return bytes(view[start : self._start])


class _Skipped:
    """The size and the two ends of a body that is not kept."""

    def __init__(self) -> None:
        self.size = 0
        self._head = b""
        self._tail = b""

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self._head += data[: HEAD_BYTES - len(self._head)]
        self._tail = (self._tail + data)[-TAIL_BYTES:]

    def frame(self) -> Oversized:
        found = read_envelope(self._head, self._tail)
        return Oversized(self.size, found.id, found.is_response)
