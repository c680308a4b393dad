"""The scrollback: a transcript as text for the summarising model.

Each message is flattened once, and lines are joined into blocks of 32 KiB in UTF-8, so that showing a whole
transcript copies a few large strings. A long transcript is held once here, without an object for each line. A
scrollback is a value like ``PrefixMeter``: versions share one append-only buffer, extending the newest costs
only the new messages, extending an older one copies its part first.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from sidecar.window_budget.message import Message
from sidecar.window_budget.prompt import flatten_message

BLOCK_BYTES = 32_768
"""How much flattened text is joined into one block as it arrives."""


class Scrollback:
    """The flattened messages of a transcript.

    >>> from sidecar.window_budget.message import UserMessage
    >>> Scrollback().extend([UserMessage("a"), UserMessage("b")]).text(0, 2)
    ['» you: a', '» you: b']
    """

    __slots__ = ("_buffer", "_count")

    def __init__(self) -> None:
        self._buffer = _Buffer()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, messages: Iterable[Message]) -> Scrollback:
        """Return the scrollback of this transcript followed by *messages*."""
        buffer = self._buffer
        if len(buffer) != self._count:
            buffer = buffer.copy_first(self._count)
        for message in messages:
            buffer.append(message)
        longer: Scrollback = object.__new__(Scrollback)
        longer._buffer, longer._count = buffer, len(buffer)
        return longer

    def first(self, count: int) -> Scrollback:
        """Return the scrollback of the first *count* messages."""
        shorter = Scrollback()
        shorter._buffer, shorter._count = self._buffer, count
        return shorter

    def n_bytes(self, start: int, end: int) -> int:
        """Return the bytes that ``messages[start:end]`` take as the summariser reads them."""
        return self._buffer.ends[end] - self._buffer.ends[start]

    def end_within(self, start: int, end: int, max_bytes: int) -> int:
        """Return where a chunk of text that begins at *start* must end.

        Args:
            start: index of the first message.
            end: the greatest result, ``start`` or more.
            max_bytes: the size of the text in UTF-8 bytes.

        Returns:
            An index in start..end; *start* when even one message is too large.
        """
        ends = self._buffer.ends
        return max(start, bisect_left(ends, ends[start] + max_bytes + 1, start, end + 1) - 1)

    def text(self, start: int, end: int) -> list[str]:
        """Return ``messages[start:end]`` as the summariser reads them, to be joined by newlines."""
        return list(filter(None, self._buffer.parts(start, end)))


class _Buffer:
    """The shared buffer: lists that only grow, in the order of the messages.

    Block k holds the lines from ``block_ends[k]`` to ``block_ends[k + 1]``, and ``newest`` those behind the
    last block. ``ends`` counts the bytes up to each line, each but an empty one with a newline behind it.
    """

    __slots__ = ("block_ends", "blocks", "ends", "newest")

    def __init__(self) -> None:
        self.newest: list[str] = []
        self.ends = array("q", [0])
        self.blocks: list[bytes] = []
        self.block_ends = [0]

    def __len__(self) -> int:
        return len(self.ends) - 1

    def append(self, message: Message) -> None:
        """Add one message, and join the newest lines once there are enough of them."""
        line = flatten_message(message)
        self.newest.append(line)
        # Of most lines only the mark at the beginning is not ASCII, and such a text is measured at once.
        n_bytes = _count_bytes(line[:1]) + _count_bytes(line[1:]) + 1 if line else 0
        self.ends.append(self.ends[-1] + n_bytes)
        if self.ends[-1] - self.ends[self.block_ends[-1]] >= BLOCK_BYTES:
            joined = "".join(f"{line}\n" for line in self.newest if line)
            self.blocks.append(joined.encode("utf-8", "surrogatepass"))
            self.block_ends.append(len(self))
            self.newest = []

    def parts(self, start: int, end: int) -> Iterator[str]:
        """Yield the lines from *start* to *end*; the lines of one block come as one piece."""
        first, ends = bisect_right(self.block_ends, start) - 1, self.ends
        for block, begin, stop in zip(
            self.blocks[first:], self.block_ends[first:], self.block_ends[first + 1 :], strict=False
        ):
            if begin >= end:
                return
            piece = block[ends[max(start, begin)] - ends[begin] : ends[min(end, stop)] - ends[begin]]
            yield piece[:-1].decode("utf-8", "surrogatepass")
        n_joined = self.block_ends[-1]
        yield from self.newest[max(0, start - n_joined) : max(0, end - n_joined)]

    def copy_first(self, count: int) -> _Buffer:
        """Return a copy of the part that *count* messages made."""
        copy = _Buffer()
        copy.ends = self.ends[: count + 1]
        copy.block_ends = self.block_ends[: bisect_right(self.block_ends, count)]
        copy.blocks = self.blocks[: len(copy.block_ends) - 1]
        copy.newest = ["".join(self.parts(at, at + 1)) for at in range(copy.block_ends[-1], count)]
        return copy


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
