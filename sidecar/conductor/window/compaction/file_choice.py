"""Chooses the lines of the most used files that fit a budget of tokens.

Each file gets a small piece first, in the order of use, so that many files come back at all. The rest of the
budget goes to the most used ones, up to a share for each. Within a file each touch is about some lines: the
place of an edit with its surroundings, the hits of a search, the lines of a read. Of the blocks of
:data:`BLOCK_LINES` lines the most touched ones come first, where a touch counts half as much for every
:data:`HALF_LIFE_TOUCHES` newer ones. A line that the model still sees is not shown again. A file that does
not fit has an outline.

Invariant: the pieces together take at most the budget, by the estimate of the engine. Cost: linear in the
files' lines, and a few estimates a file. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, groupby, islice, takewhile
from typing import Final

from sidecar._internal.values import Value
from sidecar.conductor.window.compaction.file_use import FileUse
from sidecar.conductor.window.compaction.outlines import outline_of
from sidecar.text.results import numbered_lines, output_of
from sidecar.text.touches import Touch
from sidecar.window_budget import FileRange, estimate_message_tokens
from sidecar.window_budget.rehydrate import MIN_FILE_TOKENS, file_message

MAX_FILES: Final = 16
FILE_SHARE: Final = 4
"""One file takes at most one in so many tokens of the budget."""

MAX_FILE_CHARS: Final = 400_000
MAX_LINES: Final = 1_500
"""A larger file is not chosen from, and of one file so many lines at most."""

NEWEST_TOUCH: Final = 1 << 20
"""The weight of the newest touch, a whole number so that sums of weights are exact."""

EDIT_CONTEXT: Final = 60
HIT_CONTEXT: Final = 30
MAX_HITS: Final = 3
BLOCK_LINES: Final = 40
HALF_LIFE_TOUCHES: Final = 2
MOST_CHARS_PER_TOKEN: Final = 8
OUTLINE_CHARS: Final = 200
OUTLINE_FROM_TOKENS: Final = 600
"""A smaller piece has no room for an outline."""


class FilePiece(Value):
    """The chosen lines of one file: *text* is *file* as it will be shown, and takes *tokens*."""

    path: str
    file: FileRange
    text: str
    tokens: int


class _Source(Value):
    """A file to choose from: its lines, and the numbers of the lines that are worth showing, best first."""

    path: str
    lines: Sequence[str]
    wanted: Sequence[int]

    def piece(self, n_lines: int, outline: str = "") -> FilePiece:
        """Return the piece with the first *n_lines* of the wanted ones."""
        numbers = sorted(self.wanted[:n_lines])
        runs = [
            [number for _, number in run] for _, run in groupby(enumerate(numbers), lambda at: at[1] - at[0])
        ]
        # A number before each line would take a tenth of the budget; the label has those of a single run.
        texts = [
            (f"[from line {run[0]}]\n" if len(runs) > 1 else "")
            + "\n".join(self.lines[number - 1] for number in run)
            for run in runs
        ]
        first, *more = [(run[0], len(run)) for run in runs]
        file = FileRange(self.path)
        if len(numbers) < len(self.lines):
            file = FileRange(self.path, *first, more=tuple(more))
            texts.append(f"[{len(self.lines):,} lines in all{outline}]")
        text = "\n".join(texts)
        return FilePiece(self.path, file, text, estimate_message_tokens(file_message(file, text)))

    def largest_piece(self, tokens: int, outline: str = "") -> FilePiece | None:
        """Return the piece with as many lines as *tokens* hold, None where not even one fits."""
        chars = accumulate(len(self.lines[number - 1]) + 3 for number in self.wanted)
        low, high = 0, sum(1 for _ in takewhile(lambda n: n <= MOST_CHARS_PER_TOKEN * tokens, chars))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.piece(middle, outline).tokens <= tokens else (low, middle - 1)
        return self.piece(low, outline) if low else None

    def outline_beside(self, piece: FilePiece) -> str:
        """Return the definitions that *piece* does not show, with their lines; some of too many."""
        spans = [range(first, first + (count or 0)) for first, count in piece.file.ranges]
        named = [
            f"{number} {name}"
            for number, name in outline_of(self.path, self.lines)
            if not any(number in span for span in spans)
        ]
        while sum(map(len, named)) > OUTLINE_CHARS:
            named = named[::2] if len(named) > 1 else []
        return "; definitions: " + ", ".join(named) if named else ""


def choose_lines(
    uses: Iterable[FileUse],
    texts: Mapping[str, str],
    budget_tokens: int,
    *,
    max_files: int = MAX_FILES,
    most_each: int | None = None,
) -> list[FilePiece]:
    """Return the pieces to show, the most used file first.

    Args:
        uses: the files, the most used first.
        texts: each file as it is now, by the use's path.
        budget_tokens: the tokens that all pieces may take.
        max_files: the number of files that may come back.
        most_each: the tokens that one file may take; None for its share of the budget.
    """
    left = budget_tokens
    most = max(MIN_FILE_TOKENS, left // FILE_SHARE) if most_each is None else most_each
    chosen: list[tuple[_Source, FilePiece]] = []
    for use in uses:
        if len(chosen) >= min(max_files, MAX_FILES) or left < MIN_FILE_TOKENS:
            break
        lines = lines_of(texts.get(use.path, ""))
        source = _Source(use.path, lines, tuple(islice(lines_worth_showing(use, lines), MAX_LINES)))
        if (piece := source.largest_piece(min(left, MIN_FILE_TOKENS))) is not None:
            left -= piece.tokens
            chosen.append((source, piece))
    grown: list[FilePiece] = []
    for source, piece in chosen:
        room = min(most, piece.tokens + left)
        larger = source.largest_piece(room) or piece
        if larger.file.offset is not None and room >= OUTLINE_FROM_TOKENS:
            larger = source.largest_piece(room, source.outline_beside(larger)) or larger
        left -= larger.tokens - piece.tokens
        grown.append(larger)
    return grown


def lines_of(text: str) -> Sequence[str]:
    """Return the lines of *text*, as an editor counts them; none of a text that is too large."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if len(text) <= MAX_FILE_CHARS else []
    return lines if not lines or lines[-1] else lines[:-1]


def lines_worth_showing(use: FileUse, lines: Sequence[str]) -> Iterator[int]:
    """Return the numbers of the lines of *use* that are worth showing, the best first, each once."""
    has_edits = any(touch.kind == "edit" for touch in (*use.touches, *(touch for touch, _ in use.shown)))
    place_of = {line: number for number, line in reversed([*enumerate(lines, 1)])} if has_edits else {}
    seen = lines_in_view(use, lines, place_of)
    spans = [lines_about(touch, len(lines), place_of) for touch in use.touches]
    if not any(spans) and not seen:
        spans = [[range(1, len(lines) + 1)]]
    steps = [0] * (len(lines) + 2)
    for age, found in enumerate(spans):
        weight = int(NEWEST_TOUCH * 0.5 ** (age / HALF_LIFE_TOUCHES))
        for span in filter(None, found):
            steps[span.start] += weight
            steps[span.stop] -= weight
    weights = [*accumulate(steps)]
    blocks: list[tuple[float, list[int]]] = []
    for start in range(1, len(lines) + 1, BLOCK_LINES):
        block = range(start, min(start + BLOCK_LINES, len(lines) + 1))
        if wanted := [number for number in block if weights[number] and number not in seen]:
            blocks.append((sum(weights[number] for number in wanted) / len(wanted), wanted))
    blocks.sort(key=lambda block: -block[0])
    return chain.from_iterable(numbers for _, numbers in blocks)


def lines_about(touch: Touch, n_lines: int, place_of: Mapping[str, int]) -> list[range]:
    """Return the lines that *touch* was about, with their surroundings."""
    spans = [(first, n_lines if count is None else first + count - 1) for first, count in touch.ranges]
    if touch.kind == "search":
        spans = [(first - HIT_CONTEXT, last + HIT_CONTEXT) for first, last in spans[:MAX_HITS]]
    elif touch.kind == "edit":
        place = place_of_text(touch.text, place_of)
        last = place + touch.text.count("\n")
        spans = [(place - EDIT_CONTEXT, last + EDIT_CONTEXT)] if place else []
    elif not spans:
        spans = [(1, n_lines)]
    return [range(max(1, first), min(n_lines, last) + 1) for first, last in spans]


def place_of_text(text: str, place_of: Mapping[str, int]) -> int:
    """Return the line where *text* begins, told by its longest lines; 0 where none of them is there."""
    by_length = sorted(enumerate(text.split("\n")), key=lambda at: -len(at[1].strip()))[:3]
    places = (place_of[line] - index for index, line in by_length if line.strip() and line in place_of)
    return next((max(1, place) for place in places), 0)


def lines_in_view(use: FileUse, lines: Sequence[str], place_of: Mapping[str, int]) -> set[int]:
    """Return the numbers of *lines* that the model still sees, be it as they were before a change.

    A restored file stands before the messages that are kept, so newer text for them would look like older.
    """
    seen: set[int] = set()
    for touch, body in use.shown:
        if touch.kind == "read":
            spans = touch.ranges or ((1, None),)
            asked = (range(first, first + (count or len(lines))) for first, count in spans)
            output = output_of(body)
            unnumbered = islice(chain.from_iterable(asked), output.count("\n") + 1)
            seen.update(numbered_lines(output) or unnumbered)
        elif touch.kind == "write":
            seen.update(range(1, len(lines) + 1))
        elif place := place_of_text(touch.text, place_of):
            seen.update(range(place, place + touch.text.count("\n") + 1))
    return seen
