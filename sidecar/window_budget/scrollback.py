"""The scrollback: a transcript as text for the summarising model, and the digests that stand in it.

Each message is flattened once, when it arrives, and lines are joined into blocks of 32 KiB, so that showing a
whole transcript copies a few large strings. A scrollback is a value like ``PrefixMeter``: versions share one
append-only buffer, extending the newest costs only the new messages, extending an older one copies its part
first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from sidecar.window_budget.message import BranchSummaryMessage, Message, branch_text, digest_text
from sidecar.window_budget.prompt import flatten_message
from sidecar.window_budget.text import byte_length

BLOCK_BYTES = 32_768
"""How much flattened text is joined into one block as it arrives."""


@dataclass(frozen=True, slots=True)
class DigestText:
    """The digest in the message at *index*, without its header."""

    index: int
    text: str


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
        if len(buffer.lines) != self._count:
            buffer = buffer.copy_first(self._count)
        for message in messages:
            buffer.append(message)
        longer: Scrollback = object.__new__(Scrollback)
        longer._buffer, longer._count = buffer, len(buffer.lines)
        return longer

    def first(self, count: int) -> Scrollback:
        """Return the scrollback of the first *count* messages."""
        shorter = Scrollback()
        shorter._buffer, shorter._count = self._buffer, count
        return shorter

    def digests(self, before: int) -> list[DigestText]:
        """Return the session digests before the message at *before*, oldest first."""
        return _before(self._buffer.digests, before)

    def branches(self, before: int) -> list[DigestText]:
        """Return the digests of abandoned branches before the message at *before*, oldest first."""
        return _before(self._buffer.branches, before)

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
        lines, ends = self._buffer.lines, self._buffer.block_ends
        first, last = bisect_left(ends, start), bisect_right(ends, end) - 1
        if first >= last:
            return list(filter(None, lines[start:end]))
        blocks = self._buffer.blocks[first:last]
        return list(filter(None, [*lines[start : ends[first]], *blocks, *lines[ends[last] : end]]))


class _Buffer:
    """The shared buffer: lists that only grow, in the order of the messages.

    Block k holds the lines from ``block_ends[k]`` to ``block_ends[k + 1]``.
    """

    __slots__ = ("block_ends", "blocks", "branches", "digests", "ends", "lines")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ends = [0]
        self.blocks: list[str] = []
        self.block_ends = [0]
        self.digests: list[DigestText] = []
        self.branches: list[DigestText] = []

    def append(self, message: Message) -> None:
        """Add one message, and join the newest lines once there are enough of them."""
        index, line = len(self.lines), flatten_message(message)
        branch = message.summary if isinstance(message, BranchSummaryMessage) else branch_text(message)
        if (digest := digest_text(message)) is not None:
            self.digests.append(DigestText(index, digest))
        elif branch is not None:
            self.branches.append(DigestText(index, branch))
        self.lines.append(line)
        # Of most lines only the mark at the beginning is not ASCII, and such a text is measured at once.
        n_bytes = byte_length(line[:1]) + byte_length(line[1:]) + 1 if line else 0
        self.ends.append(self.ends[-1] + n_bytes)
        if self.ends[-1] - self.ends[self.block_ends[-1]] >= BLOCK_BYTES:
            self.blocks.append("\n".join(filter(None, self.lines[self.block_ends[-1] :])))
            self.block_ends.append(len(self.lines))

    def copy_first(self, count: int) -> _Buffer:
        """Return a copy of the part that *count* messages made."""
        copy = _Buffer()
        copy.lines = self.lines[:count]
        copy.ends = self.ends[: count + 1]
        copy.block_ends = self.block_ends[: bisect_right(self.block_ends, count)]
        copy.blocks = self.blocks[: len(copy.block_ends) - 1]
        copy.digests = _before(self.digests, count)
        copy.branches = _before(self.branches, count)
        return copy


def _before(digests: list[DigestText], before: int) -> list[DigestText]:
    return digests[: bisect_left(digests, before, key=lambda digest: digest.index)]
