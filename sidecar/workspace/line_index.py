"""A text as editors edit it: lines, positions in the negotiated encoding, changes.

The problem: an editor sends each keystroke as a range of lines and characters, in units of UTF-8, UTF-16 or
UTF-32, and a file may have a hundred thousand lines.

- Lines end at LF, CR LF or CR and nowhere else. U+2028, U+0085, form feeds and the like are plain characters,
  unlike in ``str.splitlines``.
- The text is kept in blocks of whole lines of about 4,096 characters. A block that was never edited is one
  string. One that was is a list of its lines, and a keystroke splices one of them: it costs its line, neither
  its block nor the file. The numbers of the first lines of the blocks are added up again when a change has
  moved lines. The whole text is joined on demand, and kept.
- Invariant: no block ends between CR and LF. A change that puts an LF after a CR takes the block before
  along.
- Editors that count in UTF-16 may send the two halves of a character one after the other, or delete one of
  them. A lone half is kept as it came; halves that meet become their character. A change that begins or ends
  inside a character takes it apart first.

Example: in ``"one\\ntwo\\n"`` the range from line 1, character 0 to line 1, character 3 is the text ``two``.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from sidecar._internal.surrogates import join_halves
from sidecar.workspace.contract import PositionEncoding, TextChange

_BLOCK_CHARS = 4_096
_LINE_END = re.compile(r"\r\n|\r|\n")


def split_lines(text: str) -> list[str]:
    """Return the lines of *text* with their ends; an empty rest after the last end is not a line.

    >>> split_lines("a\\r\\nb\\rc\\u2028d\\n")
    ['a\\r\\n', 'b\\r', 'c\\u2028d\\n']
    """
    # The text layer's own splitter knows exactly these three ends, and runs in C.
    return io.StringIO(text, newline="").readlines()


def index_in_line(line: str, character: int, encoding: PositionEncoding) -> int:
    """Return the index in *line* of the position *character*, counted in units of *encoding*.

    A position past the end of the line is its end, before the line end; one inside a character is its start.

    >>> index_in_line("a\\U0001f600b\\n", 3, "utf-16"), index_in_line("a\\U0001f600b\\n", 2, "utf-16")
    (2, 1)
    """
    body = line.rstrip("\r\n")
    if character <= 0:
        return 0
    if encoding == "utf-32" or body.isascii():
        return min(character, len(body))
    if encoding == "utf-8":
        raw = body.encode("utf-8", "surrogatepass")
        cut = min(character, len(raw))
        while cut < len(raw) and raw[cut] & 0xC0 == 0x80:  # inside of a character
            cut -= 1
        return len(raw[:cut].decode("utf-8", "surrogatepass"))
    raw = body.encode("utf-16-le", "surrogatepass")
    cut = min(2 * character, len(raw))
    if (
        cut < len(raw) and raw[cut - 1] & 0xFC == 0xD8 and raw[cut + 1] & 0xFC == 0xDC
    ):  # inside of a character
        cut -= 2
    return len(raw[:cut].decode("utf-16-le", "surrogatepass"))


_CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
_UNIT_BYTES = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


def count_units(text: str, encoding: PositionEncoding) -> int:
    """Return the length of *text* in units of *encoding*.

    >>> count_units("a\U0001f600", "utf-16"), count_units("a\U0001f600", "utf-8")
    (3, 5)
    """
    return len(text.encode(_CODECS[encoding], "surrogatepass")) // _UNIT_BYTES[encoding]


class LineText:
    """A text that is edited in place, and read by lines.

    >>> from sidecar.workspace.contract import TextRange
    >>> text = LineText("one\\ntwo\\n")
    >>> text.apply(TextChange("2", TextRange(1, 0, 1, 3)), "utf-16")
    >>> text.text
    'one\\n2\\n'
    """

    __slots__ = ("_block_chars", "_blocks", "_n_ends", "_sums", "_text")

    def __init__(self, text: str, *, block_chars: int = _BLOCK_CHARS) -> None:
        self._block_chars = block_chars
        self._text: str | None = join_halves(text)
        self._blocks: list[str | list[str]] = []
        self._n_ends: list[int] = []
        self._sums: list[int] = []

    @property
    def text(self) -> str:
        """The whole text."""
        if self._text is None:
            self._text = "".join([each if isinstance(each, str) else "".join(each) for each in self._blocks])
        return self._text

    @property
    def n_lines(self) -> int:
        """The number of lines; an empty rest after the last line end is not a line."""
        self._cut()
        return sum(self._n_ends) + (self.text != "" and not self.text.endswith(("\n", "\r")))

    def lines(self, first: int, n_lines: int) -> list[str]:
        """Return at most *n_lines* lines from the line *first* on (counted from 0), with their ends."""
        self._cut()
        block, skipped = self._find_block(first)
        found: list[str] = []
        while block < len(self._blocks) and len(found) < skipped + n_lines:
            text = self._blocks[block]
            found += split_lines(text) if isinstance(text, str) else text
            block += 1
        return found[skipped : skipped + n_lines]

    def apply(self, change: TextChange, encoding: PositionEncoding) -> None:
        """Apply one change of the editor's; positions out of range are moved to the nearest that exists."""
        if change.range is None:
            self._text, self._blocks, self._n_ends, self._sums = join_halves(change.text), [], [], []
            return
        at = change.range
        self._cut()
        start, end = (at.start_line, at.start_character), (at.end_line, at.end_character)
        first, first_line, before, after = self._split_at(*min(start, end), encoding)
        last, last_line = first, first_line
        if start != end:
            last, last_line, _, after = self._split_at(*max(start, end), encoding)
        chunk = join_halves(before + change.text + after)
        if first_line == 0 < first and chunk.startswith("\n"):
            # What follows the block before may become part of its last line end, CR: take the block along.
            first, first_line = first - 1, len(self._lines_of(first - 1))
        lines = self._lines_of(first)
        if first_line > 0 and chunk.startswith("\n") and lines[first_line - 1].endswith("\r"):
            first_line -= 1
            chunk = lines[first_line] + chunk
        self._text = None
        new = split_lines(chunk)
        if first == last:
            old = lines[first_line : last_line + 1]
            if len(new) == len(old) and _is_ended(new) == _is_ended(old):
                lines[first_line : last_line + 1] = new
                return
        rest = self._lines_of(last)[last_line + 1 :]
        self._replace(first, last + 1, "".join((*lines[:first_line], *new, *rest)))

    def _replace(self, first: int, stop: int, text: str) -> None:
        """Put *text* in the place of the blocks from *first* up to *stop*, as one block or more."""
        blocks: list[str] = []
        start = 0
        while start < len(text) or not blocks:
            end = _LINE_END.search(text, start + self._block_chars)
            at = len(text) if end is None else end.end()
            blocks.append(text[start:at])
            start = at
        self._blocks[first:stop] = blocks
        n_ends = [block.count("\n") for block in blocks]
        if "\r" in text:
            n_ends = [
                n + each.count("\r") - each.count("\r\n") for n, each in zip(n_ends, blocks, strict=True)
            ]
        if n_ends != self._n_ends[first:stop]:
            self._n_ends[first:stop] = n_ends
            self._sums = []

    def _cut(self) -> None:
        """Have blocks, one at least."""
        if not self._blocks:
            self._replace(0, 0, self.text)

    def _lines_of(self, block: int) -> list[str]:
        """Return the lines of a block, to be edited."""
        lines = self._blocks[block]
        if isinstance(lines, str):
            lines = self._blocks[block] = split_lines(lines)
        return lines

    def _find_block(self, line: int) -> tuple[int, int]:
        """Return the block that holds *line* and its number there; past the end is in the last one."""
        if not self._sums:
            self._sums = [0, *accumulate(self._n_ends[:-1])]
        block = bisect_right(self._sums, line) - 1
        return block, line - self._sums[block]

    def _split_at(self, line: int, character: int, encoding: PositionEncoding) -> tuple[int, int, str, str]:
        """Return the block of a position, the line in it, and the text of the line before and after it."""
        if line < 0:
            line, character = 0, 0
        block, line = self._find_block(line)
        lines = self._lines_of(block)
        if line >= len(lines):
            # The line after the last line end is there, if empty; what is beyond it is the end as well.
            is_open = bool(lines) and not _is_ended(lines)
            return (block, len(lines) - 1, lines[-1], "") if is_open else (block, len(lines), "", "")
        text = lines[line]
        index = index_in_line(text, character, encoding)
        before, after = text[:index], text[index:]
        if encoding == "utf-16" and after[:1] > "\uffff":
            raw = text.encode("utf-16-le", "surrogatepass")
            if raw[2 * character + 1] & 0xFC == 0xDC:  # the position is inside of that character
                halves = after[0].encode("utf-16-le")
                before += halves[:2].decode("utf-16-le", "surrogatepass")
                after = halves[2:].decode("utf-16-le", "surrogatepass") + after[1:]
        return block, line, before, after


def _is_ended(lines: Sequence[str]) -> bool:
    """Whether the last line has its end."""
    return bool(lines) and lines[-1].endswith(("\n", "\r"))
