"""A range of lines of a text file of any size: memory is bounded by a block of the file, not by its size.

The lines in front of the range are counted and not kept; a gigabyte takes a second or two. A line has the
same number here and in the grep tool, because both divide files with the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, tee
from typing import BinaryIO

from sidecar._internal.values import Value
from sidecar.capabilities.output import LINE_CAP, number_lines
from sidecar.capabilities.search_worker import count_lines, skip_mark, split_blocks
from sidecar.workspace.encodings import decode_text

_BLOCK_BYTES = 1 << 20
_SHOWN_OF_CUT = LINE_CAP - 100
"""Of a line that is longer than a block so many characters are shown, with room for the mark of the cut."""


class LineRange(Value, kw_only=True):
    """Numbered lines of a file.

    Attributes:
        text: the lines with their numbers; empty for a range that was not reached.
        last: the number of the last line in *text*, or of the last line that was reached.
        ends: whether the file ends there.
        codec: how the bytes became text.
    """

    text: str
    last: int
    ends: bool
    codec: str = "utf-8"


def read_range(
    file: BinaryIO, first: int, limit: int, *, cap_chars: int, is_over: Callable[[], bool]
) -> LineRange | None:
    """Return a range of the lines of *file*, None for a file that is empty or not text.

    Args:
        file: the opened file, read from where it stands.
        first: the number of the first line, from 1.
        limit: the most lines to return.
        cap_chars: the most characters to return, but for one line at least.
        is_over: whether to stop; asked before each block.
    """
    chunks = iter(lambda: b"" if is_over() else file.read(_BLOCK_BYTES), b"")
    n_before, blocks = 0, split_blocks(skip_mark(chunks), _BLOCK_BYTES)
    for block in blocks:
        n_lines = count_lines(block[0])
        if n_before + n_lines >= first:
            break
        n_before += n_lines
    else:
        return LineRange(text="", last=n_before, ends=not is_over()) if n_before else None
    start = first - 1 - n_before
    lines, rest = tee(islice(lines_of(chain([block], blocks)), start, None))
    page = number_lines(islice(lines, limit), first=first, cap_chars=cap_chars)
    ends = next(islice(rest, page.n_lines, None), None) is None and not is_over()
    codec = (decode_text(block[0]) or ("", "utf-8"))[1]
    return LineRange(text=page.text, last=first - 1 + page.n_lines, ends=ends, codec=codec)


def lines_of(blocks: Iterable[tuple[bytes, bool]]) -> Iterator[str]:
    """Yield the lines of *blocks* without their ends; a line that is not whole is cut in sight."""
    for raw, is_whole in blocks:
        decoded = decode_text(raw)
        text = raw.decode("utf-8", "replace") if decoded is None else decoded[0]
        *lines, newest = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
        yield from lines
        yield newest if is_whole else f"{newest[:_SHOWN_OF_CUT]} [cut: more than {len(newest)} characters]"
