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
from itertools import accumulate

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.capabilities.passage_match import (
    MOST_PLACES,
    DriftedPlace,
    DriftedPlaces,
    find_drifted,
    fit_exact,
)

_NAMED_LINES = 10


class Replaced(Value):
    """One replaced passage: its first line (from 1) in the old text, and its lines before and after."""

    first_line: int
    n_lines_before: int
    n_lines_after: int


class Passage(Value):
    """A passage of a text from *start* to *end*, and the text that it becomes."""

    start: int
    end: int
    inserted: str


class EditedText(Value):
    """A text after an edit, and the replaced passages from the top.

    *forgiven* says in which points the passage was not as it was given; empty for none.
    """

    text: str
    replaced: tuple[Replaced, ...]
    forgiven: str = ""

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """The first line and the number of lines of each passage, as they stand in *text*.

        >>> EditedText("", (Replaced(3, 1, 4), Replaced(20, 2, 1))).places
        ((3, 4), (23, 1))
        """
        lengths = (each.n_lines_after - each.n_lines_before for each in self.replaced)
        return tuple(
            (each.first_line + n_more, each.n_lines_after)
            for each, n_more in zip(self.replaced, accumulate(lengths, initial=0), strict=False)
        )


def replace_passage(text: str, old: str, new: str, *, all_of_them: bool) -> EditedText:
    r"""Return *text* with *old* replaced by *new*.

    Where *old* is not in *text* as it is, the only place that differs from it as models err is taken. Where
    it begins behind the indentation of a line, that is a part of the passage if the line goes or moves.

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
    places = find_passages(plain, wanted, inserted, may_overlap=not all_of_them)
    is_too_many = bool(places.kind) and len(places.found) == MOST_PLACES
    if len(places.found) > 1 and (is_too_many or not all_of_them):
        lines = [_line_of(plain, each.start) for each in places.found[: _NAMED_LINES + 1]]
        but_for = f"{' or more' * is_too_many}, but for {places.kind}" if places.kind else ""
        raise InvalidInput(
            f"old_text is there {len(places.found)} times{but_for}, at {_name_lines(lines)}",
            hint="give more of the lines around it, or set replace_all",
        )
    passages: list[Passage] = []
    for each in places.found:
        if each.replacement is None:
            at = f"line {_line_of(plain, each.start)}"
            but_for = "another indentation or other blank lines"
            message = f"old_text is at {at} with {but_for}, and new_text is not clear"
            raise InvalidInput(message, hint=f"copy the passage from a fresh read of {at}")
        if not passages or each.start >= passages[-1].end:
            passages.append(Passage(each.start, each.end, each.replacement))
    edited = splice_passages(text, passages)
    if edited == text:
        raise InvalidInput("the edit changes nothing: the file has new_text already")
    replaced = tuple(
        Replaced(_line_of(plain, each.start), _n_lines(plain[each.start : each.end]), _n_lines(each.inserted))
        for each in passages
    )
    return EditedText(edited, replaced, places.kind)


def find_passages(text: str, old: str, new: str, *, may_overlap: bool) -> DriftedPlaces:
    """Return the places of *old* in *text*, both with LF line ends: exact ones, else drifted ones.

    Raises InvalidInput when there are none, with the lines that resemble its first one.
    """
    exact: list[DriftedPlace] = []
    start = text.find(old)
    while start >= 0:
        exact.append(fit_exact(text, start, old, new))
        start = text.find(old, start + (1 if may_overlap else len(old)))
    found = DriftedPlaces("", tuple(exact)) if exact else find_drifted(text, old, new)
    if found is None:
        near = find_similar_lines(text, old)
        resembling = (
            f"; its first line resembles {_name_lines(near)}" if near else ", nor is a line like its first"
        )
        hint = "copy it from a fresh read, without the line numbers"
        raise InvalidInput(f"old_text is not in the file{resembling}", hint=hint)
    return found


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


def splice_passages(text: str, passages: Sequence[Passage]) -> str:
    """Replace the *passages* of *text*, in order; their positions count a CR LF as one character."""
    # The position of each CR LF, counting those before it as one character each.
    ends = accumulate(len(segment) + 1 for segment in text.split("\r\n")[:-1])
    crlf_at = [end - 1 for end in ends]
    uses_crlf = 2 * len(crlf_at) > text.count("\n")
    pieces: list[str] = []
    done = 0
    for each in passages:
        new = each.inserted.replace("\n", "\r\n") if uses_crlf else each.inserted
        pieces += [text[done : each.start + bisect_left(crlf_at, each.start)], new]
        done = each.end + bisect_left(crlf_at, each.end)
    return "".join([*pieces, text[done:]])


def _line_of(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def _n_lines(text: str) -> int:
    return text.count("\n") + 1


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
