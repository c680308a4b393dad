r"""Finding a passage that a model has copied with small mistakes, and carrying its change over to the file.

A model makes mistakes when it copies: tabs become spaces, a block loses its indentation, curly quotes become
straight ones, blank lines come and go. The passage is still found when exactly one place differs from it in
nothing else. Two comparisons are tried, the stricter first, and each counts its candidates in the whole text:

1. *Characters*: both texts with quotes, dashes, special spaces and composed letters in their plain form, and
   without blanks at the ends of lines. The passage may begin and end within a line.
2. *Lines*: whole lines without their indentation, each run of blanks as one, blank lines left out. Its
   indentation must follow from that of the file by one rule.

The change is merged as three texts are: the passage as the model has it, its replacement, and the passage of
the file. Parts that the model left alone stay as the file has them, byte for byte; changed parts are taken
from the replacement, with the indentation, the characters and the blank lines of the file. Where that is not
certain nothing is found.

For example, in a file with ``\tif a:\n\t\tgo("x")\n`` the passage ``if a:\n    go(“x”)\n`` and its
replacement ``if a:\n    go(“x”)\n    stop()\n`` make ``\tif a:\n\t\tgo("x")\n\t\tstop()\n``.

A passage may also begin behind the indentation of its first line, an exact one too. The indentation goes with
that line, and belongs to lines that come before it as well.

Indentations come from a table, made of the lines that both texts have. One that is not in it follows one rule
for the whole table: one level for another, else a text put before each or taken away. Where no rule holds
nothing is guessed.

Pure; texts have LF line ends. The cost is linear in the text, and quadratic in the changed part of a passage.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import accumulate, islice, pairwise
from math import gcd
from typing import Final, TypeAlias

from sidecar._internal.values import Value

_PLAIN: Final = (
    dict.fromkeys("‘’‚‛′", "'")
    | dict.fromkeys("“”„‟″", '"')
    | dict.fromkeys("‐‑‒–—―−", "-")
    | dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f\u3000", " ")
    | dict.fromkeys("\u200b\ufeff\u2060", "")
    | {"…": "..."}
)
_MARKS: Final = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a"
_SPECIAL: Final = re.compile(
    r"(?<![ \t\u00a0\u3000])[ \t\u00a0\u3000]+(?=\n)"
    rf"|[\u1100-\u11ff]+|[^\s{_MARKS}][{_MARKS}]+|[^\x00-\x7f]"
)
_TRAILING: Final = re.compile(r"(?<![ \t])[ \t]+(?=\n)")
_TOKEN: Final = re.compile(r"\w+|\s|\.{3}|[^\w\s]")
_LINE: Final = re.compile("[^\n]*\n|[^\n]+")
_BLANKS: Final = re.compile(r"[ \t]+")
_NUMBERED: Final = re.compile(r"[ \t]*L?(\d+)(\t|→| ?\| ?|: ?)")
_TRANSLATED: Final = str.maketrans(_PLAIN)
_ONE_QUOTE: Final = str.maketrans("'`", '""')
_LEAST_LETTERS: Final = 5
"""Letters and digits of a passage that may be compared without its blanks: ``}`` alone is everywhere."""

MOST_PLACES: Final = 200
"""Places at which the search ends; there may be more of them then."""

_MOST_TOKENS: Final = 4000
_SPAN: TypeAlias = tuple[int, int]
_Change: TypeAlias = tuple[str, int, int, int, int]
"""``equal``, ``insert``, ``delete`` or ``replace``, with the parts of the two sequences that it is about."""


class DriftedPlace(Value):
    """A passage of a text from *start* to *end*; *replacement* is None where it is not clear,
    for its indentation or its blank lines."""

    start: int
    end: int
    replacement: str | None


class DriftedPlaces(Value):
    """The places that a passage may mean, and the differences that were forgiven, in words."""

    kind: str
    found: tuple[DriftedPlace, ...]


def find_drifted(text: str, old: str, new: str) -> DriftedPlaces | None:
    """Return the places of *text* that differ from *old* only as models err, each with its replacement.

    Args:
        text: the text, with LF line ends.
        old: the passage as the model gave it; it is not in *text* exactly.
        new: the replacement of *old*.

    Returns:
        The places by the strictest comparison that finds any, the first :data:`MOST_PLACES` of them; None
        when none does. More than one place is ambiguous.
    """
    if old[-1:] in (" ", "\t"):
        # Blanks at its end are at the end of a line, or else would be there: it goes on to that end.
        old, new = f"{old}\n", f"{new}\n"
    # A missing end of the last line is forgiven like a blank: it is added here, and taken away again.
    whole = text if text.endswith("\n") else f"{text}\n"
    found = find_by_characters(whole, old, new) or find_by_lines(whole, old, new)
    if found is None and (numbered := drop_line_numbers(old, new)) is not None:
        old, new = numbered
        starts = [each.start() for each in re.finditer(f"(?={re.escape(old)})", whole)]
        exact = tuple(fit_exact(whole, start, old, new) for start in starts)
        found = DriftedPlaces("", exact) if exact else None
        found = found or find_by_characters(whole, old, new) or find_by_lines(whole, old, new)
        if found is not None:
            found = DriftedPlaces(" and ".join(filter(None, ("line numbers", found.kind))), found.found)
    if found is None or len(whole) == len(text):
        return found
    places = tuple(
        replace(each, end=len(text), replacement=each.replacement and each.replacement.removesuffix("\n"))
        if each.end > len(text)
        else each
        for each in found.found
    )
    return replace(found, found=places)


def fit_exact(text: str, start: int, old: str, new: str) -> DriftedPlace:
    r"""Return the place of *old*, which *text* has at *start*; see :func:`restore_indent`."""
    first = text.rfind("\n", 0, start) + 1
    if not text[first:start].strip() and takes_first_line(old, new):
        return DriftedPlace(first, start + len(old), new)  # the line goes with its indentation
    return DriftedPlace(start, start + len(old), restore_indent(text[first:start], old, new))


def restore_indent(before: str, old: str, new: str) -> str | None:
    r"""Return *new* with the indentation that a passage without that of its first line leaves out.

    The first line keeps it where other lines come before it, and these have it, too.

    Args:
        before: the text of the file before the passage, on its first line.
        old: the passage.
        new: its replacement.

    Returns:
        The replacement; None where it is not clear whether a line behind the first one lost its indentation.

    >>> restore_indent("\t", "if a:\n", "go()\nif a:\n")
    'go()\n\tif a:\n'
    """
    if not before or before.strip():
        return new
    line, _, others = old.partition("\n")
    lines = new.split("\n")
    at = lines.index(line) if line in lines else 0
    last = at + 1 if others else len(lines)
    if at > 0:
        lines[1:last] = [before + each if each else "" for each in lines[1:last]]
    second = "".join(lines[1:2])
    is_unclear = lines[0] == line and others[:1] in (" ", "\t") and second[:1] not in ("", " ", "\t")
    return None if is_unclear else "\n".join(lines)


def drop_line_numbers(old: str, new: str) -> tuple[str, str] | None:
    r"""Return *old* and *new* without pasted line numbers; None unless every line of *old* has the next one.

    A replacement loses numbers at the beginning of its lines, and only where each of its lines has one: else
    they belong to the text.

    >>> drop_line_numbers("7: if a:\n8:     go()", "svc1:\n  port: 2:3")[1]
    'svc1:\n  port: 2:3'
    >>> drop_line_numbers("  7\tif a:\n  8\t    go()", "  7\tif b:\n  8\t    go()")
    ('if a:\n    go()', 'if b:\n    go()')
    """
    found = [_NUMBERED.match(line) for line in old.removesuffix("\n").split("\n")]
    numbers = [int(each[1]) for each in found if each is not None]
    if len(numbers) < len(found) or any(after != before + 1 for before, after in pairwise(numbers)):
        return None
    is_numbered = all(_NUMBERED.match(line) for line in new.split("\n") if line.strip())
    return cut_numbers(old), cut_numbers(new) if is_numbered else new


def cut_numbers(text: str) -> str:
    """Return *text* without the numbers at the beginning of its lines."""
    found = ((_NUMBERED.match(line), line) for line in text.split("\n"))
    return "\n".join(line[number.end() :] if number else line for number, line in found)


def find_other_quotes(text: str, old: str) -> set[int]:
    """Return the lines of *text*, from 0, with a place of *old* in quotes of any kind."""
    whole, sought = (make_plain(each).translate(_ONE_QUOTE) for each in (text, old))
    places = islice(re.finditer(re.escape(sought), whole), MOST_PLACES)
    return {whole.count("\n", 0, each.start()) for each in places}


def make_plain(text: str) -> str:
    """Return *text* in plain characters, without blanks at the ends of its lines."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text.translate(_TRANSLATED))
    return _TRAILING.sub("", text)


class PlainText:
    """A text in plain characters, and the place of each of them in the text as it is."""

    def __init__(self, text: str) -> None:
        parts: list[str] = []
        self._plain_starts: list[int] = []
        self._starts: list[int] = []
        self._is_special: list[bool] = []
        self.special: list[tuple[str, _SPAN]] = []
        n_plain = done = 0

        def add(part: str, start: int, *, is_special: bool) -> None:
            nonlocal n_plain
            parts.append(part)
            self._plain_starts.append(n_plain)
            self._starts.append(start)
            self._is_special.append(is_special)
            n_plain += len(part)

        for found in _SPECIAL.finditer(text):
            piece = found[0]
            if found.end() < len(text) and text[found.end()] == "\n" and not piece.strip():
                plain = ""
            else:
                plain = _PLAIN.get(piece, unicodedata.normalize("NFC", piece))
            if plain == piece:
                continue
            if found.start() > done:
                add(text[done : found.start()], done, is_special=False)
            self.special.append((piece, (n_plain, n_plain + len(plain))))
            add(plain, found.start(), is_special=True)
            done = found.end()
        if done < len(text) or not parts:
            add(text[done:], done, is_special=False)
        self.original = text
        self.text = "".join(parts)
        self._n_plain = n_plain

    def start_of(self, index: int) -> int | None:
        """Return the place of the plain character at *index*; None within one that stands for several."""
        return self._place(index, bisect_right(self._plain_starts, index) - 1)

    def end_before(self, index: int) -> int | None:
        """Return the place behind the plain character before *index*, without blanks at the end of a line."""
        return self._place(index, max(0, bisect_left(self._plain_starts, index) - 1))

    def _place(self, index: int, part: int) -> int | None:
        inside = index - self._plain_starts[part]
        if inside == 0 or not self._is_special[part]:
            return self._starts[part] + inside
        ends = [*self._plain_starts[part + 1 : part + 2], self._n_plain]
        if index != ends[0]:
            return None
        return self._starts[part + 1] if part + 1 < len(self._starts) else len(self.original)

    def tokens(self) -> list[str]:
        """Return the words, signs and blanks of the text as it is, one for each of its plain form."""
        ends = [self.end_before(found.end()) for found in _TOKEN.finditer(self.text)]
        places = [0, *(each for each in ends[:-1] if each is not None), len(self.original)]
        return [self.original[start:end] for start, end in pairwise(places)]


def find_by_characters(text: str, old: str, new: str) -> DriftedPlaces | None:
    """Return the places that differ from *old* in characters of the same look and in trailing blanks."""
    plain_text, plain_old = make_plain(text), make_plain(old)
    at = plain_text.find(plain_old) if old.strip() else -1
    # Both texts have the same number of lines: only the lines of a place are looked at closely.
    line_starts = [0, *(each.end() for each in re.finditer("\n", text))] if at >= 0 else []
    found: list[DriftedPlace] = []
    while at >= 0 and len(found) < MOST_PLACES:
        row, n_rows = plain_text.count("\n", 0, at), plain_old.count("\n") + 1
        first = line_starts[row]
        lines = PlainText(text[first : line_starts[min(row + n_rows, len(line_starts) - 1)]])
        column = at - (plain_text.rfind("\n", 0, at) + 1)
        start, end = lines.start_of(column), lines.end_before(column + len(plain_old))
        if start is not None and end is not None:
            passage = lines.original[start:end]
            indented = restore_indent(lines.original[:start], old, new)
            replacement = indented and merge_change(passage, old, adopt_characters(passage, old, indented))
            if takes_first_line(old, new) and not lines.original[:start].strip():
                start = 0  # the line goes with its indentation, which would come to the next one
            found.append(DriftedPlace(first + start, first + end, replacement))
        at = plain_text.find(plain_old, at + 1)
    if found:
        rows = {text.count("\n", 0, each.start) for each in found}
        others = find_other_quotes(text, old) - rows
        found += (DriftedPlace(line_starts[row], line_starts[row + 1], None) for row in sorted(others))
    return DriftedPlaces("look-alike characters or trailing blanks", tuple(found)) if found else None


def adopt_characters(passage: str, old: str, new: str) -> str:
    """Return *new* with the characters that *passage* has where *old*, its copy, has others of their look."""
    plain_passage, plain_old = PlainText(passage), PlainText(old)
    seen: dict[str, set[str]] = {}
    for piece, (first, last) in plain_old.special:
        start, end = plain_passage.start_of(first), plain_passage.end_before(last)
        if not piece.isascii() and start is not None and end is not None:
            seen.setdefault(piece, set()).add(passage[start:end])
    for piece, originals in seen.items():
        if len(originals) == 1 and piece not in originals:
            new = new.replace(piece, originals.pop())
    if unicodedata.is_normalized("NFC", passage) and not unicodedata.is_normalized("NFC", old):
        new = unicodedata.normalize("NFC", new)
    return _TRAILING.sub("", new) if _TRAILING.search(old) and not _TRAILING.search(passage) else new


def merge_change(passage: str, old: str, new: str) -> str:
    """Return *new* with every part that it shares with *old* as *passage* has it.

    *passage* and *old* are the same in plain characters. Lines are compared first, without the blanks at
    their ends: words alone would let the blanks of one line come to another.
    """
    kept, given, wanted = ([*_LINE.findall(text)] for text in (passage, old, new))
    if len(kept) != len(given):
        return merge_words(passage, old, new)
    before, after = ([line.rstrip() for line in lines] for lines in (given, wanted))
    pieces: list[str] = []
    for tag, old_first, old_last, first, last in find_changes(before, after):
        if tag != "equal":
            parts = (kept[old_first:old_last], given[old_first:old_last], wanted[first:last])
            pieces.append(merge_words(*map("".join, parts)))
            continue
        for own, theirs, line in zip(
            kept[old_first:old_last], given[old_first:old_last], wanted[first:last], strict=True
        ):
            is_copy = theirs == line or not own.endswith(theirs[len(theirs.rstrip()) :])
            # The last line of a text may have no line end, and another one of the two may be the last.
            kept_line = own.removesuffix("\n") + "\n" * line.endswith("\n")
            pieces.append(kept_line if is_copy else merge_words(own, theirs, line))
    return "".join(pieces)


def takes_first_line(old: str, new: str) -> bool:
    r"""Return whether *new* lacks the first line of *old*, without another one in its place.

    >>> takes_first_line("a\nb\n", "b\n"), takes_first_line("a\nb\n", "c\nb\n")
    (True, False)
    """
    before, after = (_LINE.findall(text) for text in (old, new))
    tag, _, last, _, _ = find_changes(before, after)[0]
    return tag == "delete" and before[last - 1].endswith("\n")


def find_changes(before: Sequence[str], after: Sequence[str]) -> list[_Change]:
    """Return the changes that make *after* of *before*, in order, with the parts that stay.

    Equal ends stay, so that of lines that are all the same the added one is between them.

    >>> find_changes(["a", "a"], ["a", "b", "a"])
    [('equal', 0, 1, 0, 1), ('insert', 1, 1, 1, 2), ('equal', 1, 2, 2, 3)]
    """
    n_same = min(len(before), len(after))
    tail = next((at for at in range(n_same) if before[-1 - at] != after[-1 - at]), n_same)
    head = next((at for at in range(n_same - tail) if before[at] != after[at]), n_same - tail)
    ends = len(before) - tail, len(after) - tail
    inner = SequenceMatcher(None, before[head : ends[0]], after[head : ends[1]], autojunk=False)
    return [
        *([("equal", 0, head, 0, head)] if head else []),
        *((tag, i + head, j + head, k + head, m + head) for tag, i, j, k, m in inner.get_opcodes()),
        *([("equal", ends[0], len(before), ends[1], len(after))] if tail else []),
    ]


def merge_words(passage: str, old: str, new: str) -> str:
    """Return *new* as :func:`merge_change` does, compared by words."""
    kept = PlainText(passage).tokens()
    given, wanted = PlainText(old).tokens(), PlainText(new).tokens()
    if len(kept) != len(given) or len(given) + len(wanted) > _MOST_TOKENS:
        kept, given, wanted = ([*_LINE.findall(text)] for text in (passage, old, new))
    pieces: list[str] = []
    for tag, old_first, old_last, first, last in find_changes(given, wanted):
        pieces += kept[old_first:old_last] if tag == "equal" else wanted[first:last]
    return "".join(pieces)


class FilledLine(Value):
    """A line that is not blank: *n_blank* blank lines before it, its indentation and the rest of it.

    *key* is the rest as two texts are compared: in plain characters, with runs of blanks as one.
    """

    n_blank: int
    indent: str
    body: str
    key: str


class Block(Value):
    """The lines of a text that are not blank, and the number of blank lines behind them."""

    lines: tuple[FilledLine, ...]
    n_blank: int


def parse_block(text: str) -> Block:
    """Return the lines of *text*, without the blanks at their ends."""
    lines: list[FilledLine] = []
    n_blank = 0
    pairs = zip(*(each.removesuffix("\n").split("\n") for each in (text, make_plain(text))), strict=True)
    for line, plain in pairs:
        body = line.strip()
        if body:
            key = _BLANKS.sub(" ", plain.strip())
            lines.append(FilledLine(n_blank, line[: len(line) - len(line.lstrip())], body, key))
        n_blank = 0 if body else n_blank + 1
    return Block(tuple(lines), n_blank)


def find_by_lines(text: str, old: str, new: str) -> DriftedPlaces | None:
    """Return the places with the lines of *old* but for blanks and blank lines."""
    if sum(map(str.isalnum, old)) < _LEAST_LETTERS:
        return None
    whole, given, wanted = parse_block(text), parse_block(old), parse_block(new)
    n_lines, keys = len(given.lines), [line.key for line in whole.lines]
    sought = [line.key for line in given.lines]
    line_starts = [0, *(each.end() for each in re.finditer("\n", text))]
    rows = list(accumulate(line.n_blank + 1 for line in whole.lines))
    found: list[DriftedPlace] = []
    firsts = (at for at, key in enumerate(keys) if key == sought[0] and keys[at : at + n_lines] == sought)
    for first in islice(firsts, MOST_PLACES):
        last = first + n_lines
        # Of the blank lines around the place it has those that the passage has as well.
        n_before = min(whole.lines[first].n_blank, given.lines[0].n_blank)
        n_after = whole.lines[last].n_blank if last < len(whole.lines) else whole.n_blank
        block = Block(whole.lines[first:last], min(n_after, given.n_blank))
        block = replace(block, lines=(replace(block.lines[0], n_blank=n_before), *block.lines[1:]))
        start = line_starts[rows[first] - 1 - n_before]
        end = line_starts[rows[last - 1] + block.n_blank] - (not old.endswith("\n"))
        indent = learn_indents(block, given, wanted, [line.indent for line in whole.lines])
        if indent is None or (not learn_gaps(block, given) and is_gap_unclear(block, given, wanted)):
            found.append(DriftedPlace(start, end, None))
            continue
        fitted_old, fitted_new = fit_lines(block, given, wanted, indent)
        passage = text[start:end]
        wanted_text = fitted_new + "\n" * (bool(fitted_new) and new.endswith("\n"))
        if not wanted.lines:
            n_wanted, n_given = new.count("\n"), given.lines[0].n_blank + given.n_blank
            wanted_text = "\n" * (n_before + block.n_blank if n_wanted == n_given else n_wanted)
        given_text = fitted_old + "\n" * old.endswith("\n")
        wanted_text = adopt_characters(passage, given_text, wanted_text)
        found.append(DriftedPlace(start, end, merge_change(passage, given_text, wanted_text)))
    return DriftedPlaces("indentation, blanks or blank lines", tuple(found)) if found else None


def fit_lines(block: Block, given: Block, wanted: Block, indents: Sequence[str]) -> tuple[str, str]:
    """Return *given* and *wanted* with the indentation and the blank lines that *block* has, as texts."""
    aligned = align_lines(given, wanted)
    fitted_old, fitted_new = [], []
    for line, original in zip(given.lines, block.lines, strict=True):
        fitted_old += [""] * original.n_blank
        fitted_old.append(original.indent + (line if has_its_spacing(line, original) else original).body)
    fitted_old += [""] * block.n_blank
    gaps = learn_gaps(block, given)
    places = {0: 0} | replaced_lines(given, wanted) | aligned
    unseen = unseen_gaps(block, given, wanted)
    gone = {first: place for tag, place, _, first, _ in match_lines(given, wanted) if tag == "delete"}
    for index, (line, indent) in enumerate(zip(wanted.lines, indents, strict=True)):
        at = aligned.get(index)
        # A line that is added keeps the blank lines of the replacement before it. One that stays has its own
        # before it or, behind lines that go, those of the first of them.
        n_blank = gaps.get(line.n_blank, line.n_blank)
        for place in (gone.get(index), places.get(index)):
            if place is not None and line.n_blank == given.lines[place].n_blank:
                n_blank = max(block.lines[place].n_blank, unseen.get(index, 0))
        body = line.body
        if at is not None and not has_its_spacing(given.lines[at], block.lines[at]):
            body = block.lines[at].body
        fitted_new += [*[""] * n_blank, indent + body]
    if wanted.lines:
        n_blank = block.n_blank if wanted.n_blank == given.n_blank else wanted.n_blank
        fitted_new += [""] * max(n_blank, unseen.get(len(wanted.lines), 0))
    return "\n".join(fitted_old), "\n".join(fitted_new)


def align_lines(given: Block, wanted: Block) -> dict[int, int]:
    """Return the lines of *wanted*, by index, that stand in *given* too, and their indices there."""
    return {
        first + offset: place + offset
        for tag, place, end, first, _ in match_lines(given, wanted)
        for offset in range(end - place)
        if tag == "equal"
    }


def replaced_lines(given: Block, wanted: Block) -> dict[int, int]:
    """Return the first lines in *wanted* of changed parts, by index, and those in *given* in their place."""
    changes = match_lines(given, wanted)
    return {first: place for tag, place, _, first, _ in changes if tag == "replace"}


def unseen_gaps(block: Block, given: Block, wanted: Block) -> dict[int, int]:
    """Return the blank lines before lines that go, which *given* lacks, by the line of *wanted* behind them.

    They part the lines before from the lines behind, and stay.
    """
    pairs = list(zip(block.lines, given.lines, strict=True))
    return {
        first: max(own.n_blank * (own.n_blank > theirs.n_blank) for own, theirs in pairs[start:end])
        for tag, start, end, first, _ in match_lines(given, wanted)
        if tag == "delete" and start > 0
    }


def is_gap_unclear(block: Block, given: Block, wanted: Block) -> bool:
    """Whether lines are added where *block* has blank lines that *given* lacks, or fewer than it has.

    They may belong before those blank lines or behind them.
    """
    return any(
        block.lines[place].n_blank != given.lines[place].n_blank
        for tag, place, _, _, _ in match_lines(given, wanted)
        if tag == "insert" and 0 < place < len(given.lines)
    )


def match_lines(given: Block, wanted: Block) -> list[_Change]:
    """Return the changes by lines that make *wanted* of *given*."""
    before, after = ([line.key for line in block.lines] for block in (given, wanted))
    return find_changes(before, after)


def has_its_spacing(line: FilledLine, original: FilledLine) -> bool:
    """Whether the two lines are the same in plain characters, blanks within them included."""
    return make_plain(line.body) == make_plain(original.body)


def learn_gaps(block: Block, given: Block) -> dict[int, int]:
    """Return the numbers of blank lines of a passage that is spaced out everywhere, and of its original."""
    gaps = [(line.n_blank, own.n_blank) for line, own in zip(given.lines[1:], block.lines[1:], strict=True)]
    is_function = len(dict(gaps)) == len(set(gaps))
    return dict(gaps) if len(gaps) > 1 and is_function and all(given for given, _ in gaps) else {}


def learn_indents(block: Block, given: Block, wanted: Block, file_indents: Sequence[str]) -> list[str] | None:
    """Return the indentation of each line of *wanted* in the file, None where it is not clear.

    Args:
        block: the passage as the file has it.
        given: the passage as the model has it.
        wanted: its replacement, indented as the model's passage or, rarely, as the file.
        file_indents: the indentations of all lines of the file.
    """
    pairs = [(line.indent, own.indent) for line, own in zip(given.lines, block.lines, strict=True)]
    mine = [line.indent for line in wanted.lines]
    if not mine or all(theirs == own for theirs, own in pairs):
        return mine
    theirs_all, own_all = ({pair[side] for pair in pairs} for side in (0, 1))
    aligned = align_lines(given, wanted)
    kept = [(mine[index], *pairs[at]) for index, at in aligned.items()]
    votes_theirs = any(indent == theirs != own for indent, theirs, own in kept)
    votes_own = any(indent == own != theirs for indent, theirs, own in kept)
    starts_theirs, starts_own = mine[0] in theirs_all, mine[0] in own_all
    if votes_own and not votes_theirs and starts_own:
        return mine
    if not votes_theirs and not votes_own and starts_own:
        if not starts_theirs or (set(mine) <= own_all and not set(mine) <= theirs_all):
            return mine
        if mine[0] != pairs[0][0]:
            return None
    mapped = map_indents(pairs, mine, file_indents) if starts_theirs or votes_theirs else None
    if mapped is None:
        return None
    own_of = {index: pairs[at][1] for index, at in aligned.items() if mine[index] == pairs[at][0]}
    return [own_of.get(index, indent) for index, indent in enumerate(mapped)]


def map_indents(
    pairs: Sequence[tuple[str, str]],
    indents: Sequence[str],
    file_indents: Sequence[str],
    *,
    may_be_cut: bool = True,
) -> list[str] | None:
    r"""Return *indents* as they are in a file, or None where that is not clear.

    Args:
        pairs: the indentation of each line that both texts have, in the other text and in the file.
        indents: the indentations to map.
        file_indents: the indentations of all lines of the file.
        may_be_cut: whether the other text may begin behind the indentation of its first line.

    >>> map_indents([("", "\t"), ("  ", "\t\t")], ["", "    "], ["\t", "\t\t"])
    ['\t', '\t\t\t']
    """
    if all(theirs == own for theirs, own in pairs):
        return list(indents)
    table = dict(pairs)
    is_cut = may_be_cut and pairs[0][0] == "" != pairs[0][1]
    if is_cut and len(pairs) == 1 < len(indents):
        return None  # it may be dedented, or begin behind the indentation of its line
    rules: list[Callable[[str], str | None]] = [table.get]
    rules += [rule for rule in (unit_rule(table, indents, file_indents), shift_rule(table)) if rule]
    if all(table[theirs] == own for theirs, own in pairs):
        for rule in rules:
            mapped = [new for each in indents if (new := rule(each)) is not None]
            if len(mapped) == len(indents):
                return mapped
    if is_cut and len(pairs) > 1 and indents[0] == "":
        rest = map_indents(pairs[1:], indents[1:], file_indents, may_be_cut=False) if indents[1:] else []
        return None if rest is None else [pairs[0][1], *rest]
    return None


def shift_rule(table: Mapping[str, str]) -> Callable[[str], str | None] | None:
    """Return the rule that puts one text before each indentation, or takes it away; None if it is not so."""
    theirs, own = next(iter(table.items()))
    more, less = own.removesuffix(theirs), theirs.removesuffix(own)
    if own.endswith(theirs) and all(value == more + key for key, value in table.items()):
        return lambda indent: more + indent
    if theirs.endswith(own) and all(key == less + value for key, value in table.items()):
        return lambda indent: indent.removeprefix(less) if indent.startswith(less) else None
    return None


def unit_rule(
    table: Mapping[str, str], indents: Sequence[str], file_indents: Sequence[str]
) -> Callable[[str], str | None] | None:
    """Return the rule that puts one level of indentation for another, None where the levels are the same."""
    theirs_step = find_step([*table, *indents])
    own_step = find_step(list(table.values())) or usual_step(file_indents)
    if not theirs_step or not own_step or theirs_step == own_step:
        return None
    base = min(table, key=len)

    def rule(indent: str) -> str | None:
        n_levels, rest = divmod(len(indent) - len(base), len(theirs_step))
        if rest or set(indent) - set(theirs_step):
            return None
        own = table[base]
        return own + own_step * n_levels if n_levels >= 0 else own[: n_levels * len(own_step)]

    return rule if all(rule(theirs) == own for theirs, own in table.items()) else None


def find_step(indents: Sequence[str]) -> str | None:
    """Return one level of *indents*, which are all of tabs or all of spaces; None if it cannot be told."""
    if "\t" in (signs := set("".join(indents))):
        return "\t" if signs == {"\t"} else None
    widths = sorted({len(indent) for indent in indents})
    return " " * gcd(*(after - before for before, after in pairwise(widths))) or None


def usual_step(indents: Sequence[str]) -> str | None:
    """Return the text by which the next line of a file is most often indented further."""
    steps = Counter(
        after.removeprefix(before)
        for before, after in pairwise(indents)
        if after != before and after.startswith(before)
    )
    return max(steps, key=lambda step: steps[step], default=None)
