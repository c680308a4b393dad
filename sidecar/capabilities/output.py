"""Results of tools in bounds, with a marker at every cut.

Pure functions and one buffer; the wording of a tool, but for the markers, is its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from sidecar._internal.values import Value

LINE_CAP = 2000
"""Characters of one line that are shown."""

_GUTTER = 7


class NumberedLines(Value):
    """Numbered lines as one text, and their number."""

    text: str
    n_lines: int


def number_lines(lines: Iterable[str], *, first: int, cap_chars: int) -> NumberedLines:
    r"""Return *lines* (without their ends) numbered from *first*, as many as fit *cap_chars*, one at least.

    >>> number_lines(["a", "b"], first=9, cap_chars=100)
    NumberedLines(text='     9\ta\n    10\tb', n_lines=2)
    """
    shown: list[str] = []
    left = cap_chars
    for number, line in enumerate(lines, first):
        body = cut_line(line)
        left -= len(body) + _GUTTER + 1
        if left < 0 and shown:
            break
        shown.append(f"{number:>6}\t{body}")
    return NumberedLines("\n".join(shown), len(shown))


def cut_line(line: str, cap: int = LINE_CAP) -> str:
    """Return *line*, or its first *cap* characters and a marker.

    >>> cut_line("abcdef", 4)
    'abcd [cut: 4 of 6 characters]'
    """
    return line if len(line) <= cap else f"{line[:cap]} [cut: {cap} of {len(line)} characters]"


class HeadTail:
    """The beginning and the end of a stream of bytes of any length, in bounded memory."""

    def __init__(self, cap_bytes: int) -> None:
        cap_bytes = max(0, cap_bytes)
        self._head_cap = cap_bytes // 2
        self._tail_cap = cap_bytes - self._head_cap
        self._head = bytearray()
        self._tail = bytearray()
        self._n_dropped = 0

    def add(self, data: bytes) -> None:
        """Append *data*."""
        room = self._head_cap - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_cap:
            self._drop_middle()

    def text(self) -> str:
        """Return the kept bytes as text, with a marker where some are missing."""
        self._drop_middle()
        if not self._n_dropped:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        head, tail = self._head.decode("utf-8", "replace"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[cut: {self._n_dropped} bytes of output not shown here]\n{tail}"

    def _drop_middle(self) -> None:
        excess = max(0, len(self._tail) - self._tail_cap)
        del self._tail[:excess]
        self._n_dropped += excess
