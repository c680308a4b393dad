"""Replacing a passage of a text: exactly one, or all of them, whatever the line ends.

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
    plain, wanted, put_in = _with_lf(text), _with_lf(old), _with_lf(new)
    if not wanted:
        raise InvalidInput("old_text is empty", hint="give the passage to replace, or use write")
    if wanted == put_in:
        raise InvalidInput("old_text and new_text are the same", hint="give the text as it should become")
    starts = _occurrences(plain, wanted, overlapping=not all_of_them)
    if not starts:
        raise _not_found(plain, wanted)
    if len(starts) > 1 and not all_of_them:
        raise _ambiguous(plain, starts)
    return EditedText(
        _splice(text, starts, len(wanted), put_in),
        tuple(
            Replaced(_line_of(plain, start), wanted.count("\n") + 1, put_in.count("\n") + 1)
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

    def moved(line: int) -> int:
        return line + sum(
            each.n_lines_after - each.n_lines_before for each in replaced if each.first_line < line
        )

    return tuple(
        (moved(first), None if count is None else max(0, moved(first + count) - moved(first)))
        for first, count in ranges
    )


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _occurrences(text: str, wanted: str, *, overlapping: bool) -> list[int]:
    starts: list[int] = []
    start = text.find(wanted)
    while start >= 0:
        starts.append(start)
        start = text.find(wanted, start + (1 if overlapping else len(wanted)))
    return starts


def _splice(text: str, starts: Sequence[int], n_wanted: int, put_in: str) -> str:
    """Replace the passages of *text* at *starts*, positions that count a CR LF as one character."""
    crlf_at = _crlf_positions(text)
    uses_crlf = 2 * len(crlf_at) > text.count("\n")
    new = put_in.replace("\n", "\r\n") if uses_crlf else put_in
    pieces: list[str] = []
    done = 0
    for start in starts:
        pieces += [text[done : start + bisect_left(crlf_at, start)], new]
        end = start + n_wanted
        done = end + bisect_left(crlf_at, end)
    return "".join([*pieces, text[done:]])


def _crlf_positions(text: str) -> list[int]:
    """Return the position of each CR LF, counting those before it as one character each."""
    positions: list[int] = []
    at = -1
    for segment in text.split("\r\n")[:-1]:
        at += len(segment) + 1
        positions.append(at)
    return positions


def _line_of(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def _not_found(text: str, wanted: str) -> InvalidInput:
    near = _similar_lines(text, wanted)
    hint = "copy it from a fresh read, without the line numbers"
    if not near:
        return InvalidInput("old_text is not in the file, nor is a line like its first", hint=hint)
    return InvalidInput(
        f"old_text is not in the file; its first line resembles {_name_lines(near)}", hint=hint
    )


def _ambiguous(text: str, starts: Sequence[int]) -> InvalidInput:
    lines = [_line_of(text, start) for start in starts[: _NAMED_LINES + 1]]
    return InvalidInput(
        f"old_text is there {len(starts)} times, at {_name_lines(lines)}",
        hint="give more of the lines around it, or set replace_all",
    )


def _similar_lines(text: str, wanted: str) -> list[int]:
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
