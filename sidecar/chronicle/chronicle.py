"""The chronicle of a conversation: every entry in order, the older, the thinner.

**A line stands while it is younger than its life; one factor stretches all lives until the room is full.**

The age of a line is the length of the conversation from its entry on, in characters. Its life is set once,
when its entry comes in (see :mod:`sidecar.chronicle.ranking`). A chronicle shows the lines with

    age < factor * life

and the factor is the largest with which all of them fit. So an entry thins from whole to its telling lines
and to one line, each at its own age: an output before a prompt, the surroundings of a failure before the
failure. More room makes the factor larger, and then no line is lost that stood before.

A line that comes again is shown in its newest place, and lives longer: a line touched twice is likely to be
touched again. Its earlier copy needs no room, also where it had another line number. Only the first line of a
prompt and of a call stays in its place.

Nothing vanishes: entries without a line are named in the place of the next one that has one. The place
``#413-420`` shows #420, and says that #413 to #419 have become its one line; each of them can be brought back
by its number. A place with ``~`` shows a part of its entry.

Each chronicle is made from the entries, never from an earlier one. Secrets are masked in it.

Cost. Lines of one level have one life, so they stand from some entry on, which a bisection of the ages finds;
a Fenwick tree knows their size. Finding the factor costs some dozens of these bisections, and writing follows
the room: neither follows the history.

For example, an output of a hundred lines with one failure between two prompts, their ages 10,000, 5,000 and
100 characters. With the factor 1 both prompts stand, however short; with 10 the failure does, which lives
about 500; with 20,000 about twenty lines of the output; with 40,000 all of it.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log2
from typing import Final, Literal, TypeAlias

from sidecar._internal.secrets import mask_text
from sidecar._internal.values import Value, replace
from sidecar.chronicle.index import Facts
from sidecar.chronicle.ranking import LEVELS, ONE, RankedEntry, rank_entry
from sidecar.conversation import Entry, EntryKind, History

Meter: TypeAlias = Callable[[str], int]
"""Returns the tokens of a text. Contract: a text with a line more has no fewer; never raises."""

Resolution: TypeAlias = Literal["whole", "thinned", "line"]
"""How an entry stands in a chronicle; a *line* is its share of the place of a later entry."""

HEADER: Final = (
    "What follows is the conversation so far, shortened: the older, the thinner. #N is the place of an entry;"
    " #N-M stands for several, of which only the last is shown; ~ marks a part. > is the user, → a call,"
    " ← its result. Of two sayings of the user the later one counts, and this where a summary above says"
    " otherwise. The tool `recall` shows an entry by its place, word for word, and finds words in all of"
    " them.\n"
)
MARKS: Final[Mapping[EntryKind, str]] = {
    "user": "> ",
    "tool": "← ",
    "shell": "$ ",
    "file": "← ",
    "note": "· ",
}
INDEX_HEADER: Final = (
    "Index of facts not shown below: files (* edited), commands with their outcome (! failed).\n"
)
INDEX_SHARE: Final = 5
"""The index has at most a fifth of the room."""

MOST_TOKEN_CHARS: Final = 8
"""The characters of a token at most, about: so much of the index is looked for."""

PLACE_CHARS: Final = 8
"""The room that a place takes, about."""

STEPS: Final = 16
"""The factors tried in an octave: each is 4 % larger than the one before."""

_PLACE: Final = re.compile(r"^#(\d{1,9})(?:-(\d{1,9}))?(~?)(?= |$)", re.MULTILINE)
"""The place of an entry in a chronicle, or that of several of which the last is shown."""

SMALLEST, LARGEST = -24 * STEPS, 72 * STEPS
_Shown: TypeAlias = dict[tuple[int, int], tuple[str, float]]
"""The lines of entries from a level on, by place and level, and their share of the entry."""

_AGAIN: Final = bytes(round(2 * log2(1 + log2(times))) for times in range(1, 64))
"""By how many levels a line lives longer that came again so often: 2 for once, 5 for 15 times."""


class Written(Value, kw_only=True):
    """A chronicle.

    Attributes:
        text: the index and the lines; empty where not even the places of all entries fit.
        index_chars: the length of the index, with which the text begins.
        tokens: its size by the meter.
        n_entries: the entries that it covers, from the first on.
        shares: by its place, the share of each entry that is shown, above 0 and at most 1. Lines that came
            again in a later entry count as shown. Any other entry has its share of a place.
    """

    text: str
    tokens: int
    n_entries: int
    shares: Mapping[int, float]
    index_chars: int = 0

    def resolution(self, place: int) -> Resolution:
        """Return how the entry at *place*, from 1, stands."""
        share = self.shares.get(place, 0.0)
        return "whole" if share >= 1 else "thinned" if share else "line"


class Chronicle:
    """The ranked lines of a conversation, from which its chronicle is written; it grows with each entry.

    >>> from sidecar.llmgateway.contract import TextBlock, UserTurn
    >>> chronicle = Chronicle()
    >>> for words in ("Port 8080, please.", "No, 9090."):
    ...     chronicle.add(Entry(UserTurn((TextBlock(words),)), "user"))
    >>> print(chronicle.write(1000, meter=len).text.removeprefix(HEADER).rstrip())
    #1 > Port 8080, please.
    #2 > No, 9090.
    """

    def __init__(self) -> None:
        self.kinds: list[EntryKind] = []
        self.ranked: list[RankedEntry] = []
        self._starts = array("Q")
        self._total = 0
        self._token_chars = 3.5  # of the last chronicle: where the search for a factor begins
        self._superseded = array("I")
        self._levels = [_Level() for _ in range(LEVELS)]
        self._n_sized = 0  # the entries of which the levels know the sizes
        self.facts = Facts()
        # Lines are numbered through all entries.
        self._first_lines = array("I")
        self._newest: dict[int, int] = {}
        self._copies: dict[int, list[int]] = {}
        self._times = bytearray()

    def __len__(self) -> int:
        return len(self.ranked)

    def add(self, entry: Entry) -> None:
        """Add the next entry. A summary, and a file that came back with one, are passed over."""
        if entry.kind == "summary" or (entry.origin and entry.kind == "file"):
            return
        ranked, keys = rank_entry(entry)
        self._superseded.append(0)
        self.facts.add(entry, ranked, len(self.ranked) + 1)
        self._give_way(ranked, keys)
        self.kinds.append(entry.kind)
        self.ranked.append(ranked)
        self._starts.append(self._total)
        self._total += len(ranked.text) + 1

    def _give_way(self, ranked: RankedEntry, keys: Sequence[int]) -> None:
        """Take earlier copies of the lines of the next entry out, and let the new ones live longer.

        Of a line that stands several times in it the last one is looked up, and knows the others.
        """
        first, newest, levels = len(self._times), self._newest, ranked.levels
        numbers = dict(zip(keys, range(first, first + len(keys)), strict=True))
        numbers.pop(0, None)
        again = [(newest[key], number) for key, number in numbers.items() if key in newest]
        newest.update(numbers)
        self._times.extend(bytes(len(keys)))
        self._first_lines.append(first)
        if len(numbers) < len(keys):
            for number, key in enumerate(keys, first):
                if key and numbers[key] != number:
                    self._copies.setdefault(numbers[key], []).append(number)
        start = end = 0
        for before, number in again:
            if not start <= before < end:
                place = bisect_right(self._first_lines, before) - 1
                older, start, end = self.ranked[place], self._first_lines[place], self._first_lines[place + 1]
            times = self._times[number] = min(self._times[before] + 1, len(_AGAIN) - 1)
            longest = levels[number - first] + _AGAIN[times]
            for each in (before, *self._copies.pop(before, ())):
                level, size = older.levels[each - start], older.size(each - start)
                older.levels[each - start] = 0
                self._superseded[place] += size
                if place < self._n_sized:
                    self._levels[level].take(place, size)
                if level > longest:
                    longest = level
            levels[number - first] = min(LEVELS - 1, longest)

    def _size_levels(self) -> None:
        """Let the levels know the sizes of the entries that came in since the last chronicle."""
        for place in range(self._n_sized, len(self.ranked)):
            ranked, sizes = self.ranked[place], dict[int, int]()
            for level, start, end in zip(ranked.levels, ranked.starts, ranked.starts[1:], strict=False):
                if level:
                    sizes[level] = sizes.get(level, 0) + end - start
            if sizes:
                sizes[max(sizes)] += PLACE_CHARS
            for level, size in sizes.items():
                self._levels[level].append(place, size)
        self._n_sized = len(self.ranked)

    def write(self, room: int, *, meter: Meter, n_entries: int | None = None) -> Written:
        """Return the chronicle of the first *n_entries* entries, of all for None, in *room* tokens.

        It begins with an index of at most a fifth of the room (see :mod:`sidecar.chronicle.index`), and the
        lines have the room that this leaves. The other entries stand behind it as they are; they count for
        the age of each line, and need no room for lines that come again there.
        """
        self._size_levels()
        n_entries = len(self.ranked) if n_entries is None else min(n_entries, len(self.ranked))
        shown: _Shown = {}
        written = self._fill(room - room // INDEX_SHARE, meter, n_entries, shown)
        if not written.text:
            return self._fill(room, meter, n_entries, shown) if n_entries else written
        index, has_all = self._write_index(written, room // INDEX_SHARE, meter)
        index_tokens = meter(index)
        if has_all:
            written = self._fill(room - index_tokens, meter, n_entries, shown)
        return replace(
            written,
            text=mask_text(index + written.text),
            tokens=index_tokens + written.tokens,
            index_chars=len(index),
        )

    def _write_index(self, written: Written, room: int, meter: Meter) -> tuple[str, bool]:
        """Return the index in *room* tokens, and whether it has all items that do not stand in *written*."""
        shown = self.facts.names_of([*written.shares, *range(written.n_entries + 1, len(self.ranked) + 1)])
        shown -= self.facts.newest_failures(written.n_entries)
        lines: list[str] = []
        chars, most_chars = 0, room * MOST_TOKEN_CHARS
        for name, line in self.facts.items(written.n_entries):
            if chars > most_chars:
                break
            if name not in shown:
                lines.append(line)
                chars += len(line)
        n_lines = len(lines)
        while lines and (tokens := meter(_join(lines))) > room:
            del lines[min(len(lines) - 1, len(lines) * room // tokens) :]
        return _join(lines), len(lines) == n_lines

    def _fill(self, room: int, meter: Meter, n_entries: int, shown: _Shown) -> Written:
        """Return the lines that stand with the largest factor with which they fit in *room* tokens.

        Factors that change nothing are passed over. Most entries stand as they are in *shown* with the next
        factor as well.
        """
        best = Written(text="", tokens=0, n_entries=n_entries, shares={})
        size_at = partial(self._size, [each.before(n_entries) for each in self._levels], n_entries)
        fits, fails = SMALLEST - 1, LARGEST + 1
        low_chars, high_chars = -1, size_at(LARGEST) + 1
        target = int(room * self._token_chars)
        while n_entries and low_chars < high_chars:
            # Between the two: the largest factor for the size aimed at, else the next that adds a line.
            tried = step_within(min(max(target, low_chars), high_chars - 1), size_at, fits, fails)
            if tried <= fits:
                tried = step_within(size_at(fits + 1), size_at, fits, fails)
            if not fits < tried < fails:
                break
            size, cuts = size_at(tried), self._cuts(tried, n_entries)
            text, shares = self._render(cuts, n_entries, shown)
            tokens = meter(text)
            if tokens > room:
                # Smaller factors with the same lines fit no better.
                fails, high_chars = step_within(size - 1, size_at, fits, tried) + 1, size
            else:
                fits, low_chars = tried, size
                best = Written(text=text, tokens=tokens, n_entries=n_entries, shares=shares)
            self._token_chars = len(text) / max(1, tokens)
            target = size + int((room - tokens) * self._token_chars)
        return best

    def _cuts(self, step: int, n_entries: int) -> list[int]:
        """Return the first entry of which the lines of each level stand: the higher, the earlier."""
        total = self._total
        cuts = [n_entries] * LEVELS
        for level in range(LEVELS - 1, 0, -1):
            reach = 2.0 ** (step / STEPS + (level - ONE) / 2)
            cuts[level] = bisect_right(self._starts, total - reach, 0, n_entries) if reach <= total else 0
            if cuts[level] == n_entries:
                break
        cuts[0] = cuts[1]
        return cuts

    def _size(self, sizes: list[int], n_entries: int, step: int) -> int:
        """Return about how many characters stand with the factor of *step*; *sizes* is all of each level."""
        cuts = self._cuts(step, n_entries)
        return sum(
            sizes[level] - self._levels[level].before(cuts[level])
            for level in range(1, LEVELS)
            if sizes[level] and cuts[level] < n_entries
        )

    def _render(self, cuts: list[int], n_entries: int, shown: _Shown) -> tuple[str, dict[int, float]]:
        """Return the chronicle of the lines behind *cuts*, and the share of each entry that it shows."""
        standing: set[int] = set()
        for level in range(1, LEVELS):
            if cuts[level] < n_entries:
                standing.update(self._levels[level].places_between(cuts[level], n_entries))
        lines: list[str] = [HEADER]
        shares: dict[int, float] = {}
        silent = 0  # the first entry without a line since the last one that has one
        lowest = LEVELS - 1
        for place in sorted(standing):
            while lowest > 1 and cuts[lowest - 1] <= place:
                lowest -= 1
            found = shown.get((place, lowest))
            if found is None:
                found = shown[place, lowest] = self._render_entry(place, lowest)
            text, share = found
            if not text:
                continue
            shares[place + 1] = share
            name = f"#{place + 1}" if silent == place else f"#{silent + 1}-{place + 1}"
            lines.append(f"{name}{'' if share >= 1 else '~'} {MARKS.get(self.kinds[place], '')}{text}\n")
            silent = place + 1
        if silent < n_entries:
            lines.append(f"#{silent + 1}-{n_entries}\n" if silent + 1 < n_entries else f"#{n_entries}\n")
        return "".join(lines), shares

    def chars_before(self, n_entries: int) -> int:
        """Return the characters of the first *n_entries* entries."""
        return self._starts[n_entries] if n_entries < len(self._starts) else self._total

    def read_shares(self, text: str) -> tuple[int, dict[int, float]]:
        """Return the shares of the entries that *text*, a chronicle of this conversation, shows.

        Returns:
            The number of entries that it covers, from the first on; and, by its place, the share of each
            that is shown. A line of an entry that looks like the next place is taken for that.
        """
        found: list[tuple[int, bool, int, int]] = []
        n_entries = 0
        for mark in _PLACE.finditer(text):
            first, last = int(mark[1]), int(mark[2] or mark[1])
            if first == n_entries + 1 <= last <= len(self.ranked):
                found.append((last, not mark[3], mark.start(), mark.end()))
                n_entries = last
        shares: dict[int, float] = {}
        ends = [*(start for _, _, start, _ in found[1:]), len(text)]
        for (place, is_whole, _, start), end in zip(found, ends, strict=False):
            shown = len(text[start:end].strip()) - len(MARKS.get(self.kinds[place - 1], ""))
            if shown > 0:
                whole = len(self.ranked[place - 1].text)
                share = (shown + self._superseded[place - 1]) / max(1, whole)
                shares[place] = 1.0 if is_whole else min(0.99, share)
        return n_entries, shares

    def _render_entry(self, place: int, lowest: int) -> tuple[str, float]:
        """Return the lines of an entry from the level *lowest* on, and their share of it."""
        ranked = self.ranked[place]
        starts, text = ranked.starts, ranked.text
        stands = ranked.levels.translate(_FROM[lowest])
        parts: list[str] = []
        shown, start = 0, stands.find(1)
        while start >= 0:
            end = stands.find(0, start)
            end = len(stands) if end < 0 else end
            part = text[starts[start] : starts[end]]
            shown += len(part)
            parts.append(part.strip("\n"))
            start = stands.find(1, end)
        is_whole = len(ranked.levels.translate(None, _BELOW[lowest])) == len(stands)
        return "\n".join(parts), 1.0 if is_whole else min(0.99, (shown + self._superseded[place]) / len(text))


_FROM: Final = [bytes(level >= lowest for level in range(256)) for lowest in range(LEVELS)]
_BELOW: Final = [bytes(range(1, lowest)) for lowest in range(LEVELS)]
"""From each level on, the levels that stand, as a table, and the levels of lines that are left out."""


def step_within(chars: int, size_at: Callable[[int], int], fits: int, fails: int) -> int:
    """Return the largest step with which about *chars* characters stand, from *fits* on and below *fails*."""
    low, high = fits, fails - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size_at(middle) <= chars else (low, middle - 1)
    return low


def _join(lines: list[str]) -> str:
    return INDEX_HEADER + "\n".join(lines) + "\n\n" if lines else ""


class _Level:
    """The lines of one life: in which entries they stand, and their sizes, in a Fenwick tree."""

    __slots__ = ("places", "sizes")

    def __init__(self) -> None:
        self.places = array("I")
        self.sizes = array("q", [0])

    def append(self, place: int, size: int) -> None:
        """Add lines of *size* characters of the next entry."""
        self.places.append(place)
        at = len(self.places)
        below = at - (at & -at)
        node = at - 1
        while node > below:
            size += self.sizes[node]
            node &= node - 1
        self.sizes.append(size)

    def take(self, place: int, size: int) -> None:
        """Take away *size* characters of the entry at *place*."""
        at = bisect_left(self.places, place) + 1
        while at < len(self.sizes):
            self.sizes[at] -= size
            at += at & -at

    def before(self, stop: int) -> int:
        """Return the size of the lines of the entries before *stop*."""
        at = bisect_left(self.places, stop)
        sizes, total = self.sizes, 0
        while at:
            total += sizes[at]
            at &= at - 1
        return total

    def places_between(self, start: int, stop: int) -> array[int]:
        """Return the entries from *start* to before *stop* with lines of this life."""
        return self.places[bisect_left(self.places, start) : bisect_left(self.places, stop)]


def entries_by_place(history: History) -> list[Entry]:
    """Return the entries of *history* as they were first stored; the first one has the place 1."""
    return [entry for entry in history.originals() if entry.kind != "note"]
