"""Replacing a passage of a text: exactly one, or all of them, with any line ends.

Pure. The passage and the text are compared with LF line ends; the inserted text takes the line ends of the
text.

Positions count a CR LF as one character while passages are sought. To splice the text itself, each position
moves right by the number of CR LFs before it, found by bisection in their sorted list: in
``"a\\r\\nb\\r\\n"``, ``b`` is at 2 of ``"a\\nb\\n"``, and one CR LF is before it, so it is at 3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from sidecar._internal.errors import InvalidInput

_NAMED_LINES = 10


@dataclass(frozen=True, slots=True)
class Replaced:
    """One replaced passage: its first line (from 1) in the old text, and its lines before and after."""

    first_line: int
    n_lines_before: int
    n_lines_after: int


@dataclass(frozen=True, slots=True)
class EditedText:
    """A text after an edit, and the replaced passages from the top."""

    text: str
    replaced: tuple[Replaced, ...]


def replace_passage(text: str, old: str, new: str, *, all_of_them: bool) -> EditedText:
    r"""Return *text* with *old* replaced by *new*.

    Args:
        text: the text to edit.
        old: the passage to replace.
        new: the replacement.
        all_of_them: replace every occurrence; else there must be exactly one.

    Raises:
        InvalidInput: *old* is empty, missing, ambiguous or the same as *new*; the message names the lines.

    >>> replace_passage("a\r\nb\r\n", "a\nb", "c\nd\ne", all_of_them=False).text
    'c\r\nd\r\ne\r\n'
    """
    plain, wanted, inserted = (each.replace("\r\n", "\n") for each in (text, old, new))
    if not wanted:
        raise InvalidInput("old_text is empty", hint="give the passage to replace, or use write")
    if wanted == inserted:
        raise InvalidInput("old_text and new_text are the same", hint="give the text as it should become")
    starts: list[int] = []
    start = plain.find(wanted)
    while start >= 0:
        starts.append(start)
        start = plain.find(wanted, start + (len(wanted) if all_of_them else 1))
    if not starts:
        near = find_similar_lines(plain, wanted)
        resembling = (
            f"; its first line resembles {_name_lines(near)}" if near else ", nor is a line like its first"
        )
        hint = "copy it from a fresh read, without the line numbers"
        raise InvalidInput(f"old_text is not in the file{resembling}", hint=hint)
    if len(starts) > 1 and not all_of_them:
        lines = [_line_of(plain, start) for start in starts[: _NAMED_LINES + 1]]
        raise InvalidInput(
            f"old_text is there {len(starts)} times, at {_name_lines(lines)}",
            hint="give more of the lines around it, or set replace_all",
        )
    return EditedText(
        splice_passages(text, starts, len(wanted), inserted),
        tuple(
            Replaced(_line_of(plain, start), wanted.count("\n") + 1, inserted.count("\n") + 1)
            for start in starts
        ),
    )


def shift_ranges(
    ranges: Sequence[tuple[int, int | None]], replaced: Sequence[Replaced]
) -> tuple[tuple[int, int | None], ...]:
    """Return the *ranges* of lines (first, count) of a text as they lie after an edit of it.

    >>> shift_ranges([(1, 5), (20, None)], [Replaced(3, 1, 4)])
    ((1, 8), (23, None))
    """

    def shift(line: int) -> int:
        return line + sum(
            each.n_lines_after - each.n_lines_before for each in replaced if each.first_line < line
        )

    return tuple(
        (shift(first), None if count is None else max(0, shift(first + count) - shift(first)))
        for first, count in ranges
    )


def splice_passages(text: str, starts: Sequence[int], n_wanted: int, inserted: str) -> str:
    """Replace the passages of *text* at *starts*, positions that count a CR LF as one character."""
    # The position of each CR LF, counting those before it as one character each.
    ends = accumulate(len(segment) + 1 for segment in text.split("\r\n")[:-1])
    crlf_at = [end - 1 for end in ends]
    uses_crlf = 2 * len(crlf_at) > text.count("\n")
    new = inserted.replace("\n", "\r\n") if uses_crlf else inserted
    pieces: list[str] = []
    done = 0
    for start in starts:
        pieces += [text[done : start + bisect_left(crlf_at, start)], new]
        end = start + n_wanted
        done = end + bisect_left(crlf_at, end)
    return "".join([*pieces, text[done:]])


def _line_of(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def find_similar_lines(text: str, wanted: str) -> list[int]:
    """Return the lines equal to the first of *wanted* but for blanks, else the lines that hold it."""
    sought = next((squeezed for line in wanted.split("\n") if (squeezed := "".join(line.split()))), "")
    if not sought:
        return []
    squeezed_lines = ["".join(line.split()) for line in text.split("\n")]
    equal = [number for number, line in enumerate(squeezed_lines, 1) if line == sought]
    return equal or [number for number, line in enumerate(squeezed_lines, 1) if sought in line]


def _name_lines(lines: Sequence[int]) -> str:
    named = ", ".join(map(str, lines[:_NAMED_LINES]))
    return ("line " if len(lines) == 1 else "lines ") + named + (", ..." if len(lines) > _NAMED_LINES else "")
