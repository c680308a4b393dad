"""The life of each line of an entry: the rule by which the chronicle thins.

**A line lives the longer, the more it tells, and the earlier it comes among the telling lines of its text.**

    life = base * (1 + telling) / root of position

*Base* is 1, 2 for the output of a failed tool, 4 for a text that the user pasted, and much more for words
that the user typed. The one line that stays longest of a text lives 16 times as long: the most telling one,
of a call the first. So the newest texts stand in their depth and the old ones with one line each, also those
of the agent and of a report. Such lines are few, so they take little room from the newest texts.

A line of more than 120 characters is ranked in parts, one for each sentence where it has any.

*Telling* counts the signs of names, places and numbers for each 96 characters of a line: capitals, digits and
the signs that join words (``_ / . : @ # -``). At most 16 of a line count, and a line is taken to be 24
characters longer than it is, so that a short one has no advantage. Prose has few of these signs;
``src/parser.py:42`` and ``retry_limit=3`` are made of them. A word with which programs report failure counts
24 more. The sum is divided by the root of the number of lines with the same punctuation, so that one line
unlike the others stands out of a thousand that are alike. A line that belongs to the one before it tells at
least 0.8 of it: a caret, a body or the source of a frame, indented deeper.

*Position* is the length of the text up to this line, taken in the order of telling, in units of 80
characters, at least one: of lines of 80 characters the fourth lives half as long as the first, the hundredth
a tenth. So an output grows with the room, one line after another, and an output of a thousand lines lives no
longer than one of ten.

Typed words are ranked by place, as none of them is less wanted for its form: the first three sentences and
the last two come before those between. A line that is one sentence has the base 65,536; a sentence of a
longer line has an eighth of it, and so has a question. Their life is the base divided by the cube of the
position, in units of 240 characters: a prompt of a few sentences outlives everything, and a long one thins in
its middle. Short wishes stay longest where not even all typed words fit. In a prompt, a fence and a paragraph
of more than twelve lines count as pasted.

No tool, programming language or human language is known here but for the words of failure: programs print
those in every country. Everything depends on the entry alone, so it is done once, when the entry comes in, in
about 50 us for a kB.

For example, of the output ``ok 1``, ``ok 2``, ``src/a.py:7: retries() failed`` the last line tells 33 and
lives 547; the first tells 2.4 and lives 3.4, as all three are within the first 80 characters.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, compress, pairwise
from math import log2, sqrt
from typing import Any, Final, Literal, TypeAlias

from sidecar._internal.values import Value
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import CommandBlock, ImageBlock, TextBlock, ToolCallBlock, ToolResultBlock

Speaker: TypeAlias = Literal["typed", "pasted", "called", "failed", "shown"]
"""The origin of a text; *shown* is what the agent said, too."""

BASES: Final[dict[Speaker, int]] = {"pasted": 4, "called": 1, "failed": 2, "shown": 1}
TYPED: Final = 65_536
OTHER_SHARE: Final = 8
"""A question, and a sentence of a longer typed line, live an eighth of what a line of one sentence does."""

LINE_UNIT: Final = 80
PROSE_UNIT: Final = 240
"""The unit of a position in lines of a terminal, and in typed sentences."""

LEAST_PIECE: Final = 30
MOST_PIECE: Final = 120
"""A longer line is thinned in pieces of so many characters, cut behind a sentence, a comma or a blank."""

PASTE_LINES: Final = 12
FAILURE: Final = 24.0
BELONGS: Final = 0.8
ONE_LINE: Final = 16

LEVELS: Final = 60
ONE: Final = 24
"""Lives are kept in half octaves: the level *n* is the life ``2 ** ((n - ONE) / 2)``, and 0 is no life."""

_FAILURES: Final = (
    *("error", "fail", "exception", "panic", "fatal", "traceback", "denied", "refused", "cannot", "unable"),
    *("timeout", "undefined", "invalid", "abort"),
)
_KINDS: Final = bytes(
    ord(
        "0"
        if chr(byte).isdigit()
        else "A"
        if chr(byte).isupper()
        else "a"
        if chr(byte).islower()
        else chr(byte)
    )
    if byte < 128
    else ord("a")
    for byte in range(256)
)
"""The sign that stands for each byte of a text: ``a`` for small letters and other scripts, ``A``, ``0``."""

_TELLING_SIGNS: Final = b"A0_/.:@#-\n"
_OTHER_SIGNS: Final = bytes(set(range(256)) - set(_TELLING_SIGNS))
_NUMBERING: Final = "0123456789 :|→\t-+"
_CARETS: Final = frozenset(" \t^~-|")
_QUESTION: Final = ("?", "？", "؟")
_SENTENCE_END: Final = re.compile(r"[.!?;][\"')\]`*]*\s+|[。！？؟।]\s*|[}\]],\s*")
"""The end of a sentence, and of an item of JSON."""


class RankedEntry(Value):
    """An entry as lines.

    Attributes:
        text: everything that stands in it; its lines are *pieces*.
        starts: where each piece begins in *text*, ascending, and the end: a piece reaches to the next start.
        levels: the life of each piece, see :data:`LEVELS`; 0 for one that gave way to a later copy.
    """

    text: str
    starts: array[int]
    levels: bytearray

    def size(self, piece: int) -> int:
        """Return the characters of a piece."""
        return self.starts[piece + 1] - self.starts[piece]


def rank_entry(entry: Entry) -> tuple[RankedEntry, list[int]]:
    """Return *entry* as lines, with the life of each; and the key of each piece.

    A key is a hash of the piece without its numbering, 0 where it never gives way to a later copy.
    """
    texts: list[str] = []
    starts, levels = array("I"), bytearray()
    keys: list[int] = []
    offset = 0
    for speaker, text in list_parts(entry):
        pieces, cuts = cut_pieces(text)
        if not pieces:
            continue
        if texts:
            texts.append("\n")
            offset += 1
        starts.extend([offset + cut for cut in cuts] if offset else cuts)
        levels.extend(_rank(speaker, pieces, cuts))
        n_before = len(keys)
        keys.extend([hash(piece.lstrip(_NUMBERING).rstrip()) for piece in pieces])
        if speaker in ("typed", "called"):
            keys[n_before] = 0  # a prompt and a call are never without their first line
        texts.append(text)
        offset += len(text)
    starts.append(offset)
    return RankedEntry(texts[0] if len(texts) == 1 else "".join(texts), starts, levels), keys


def list_parts(entry: Entry) -> Iterator[tuple[Speaker, str]]:
    """Yield the texts of *entry*, each with its speaker."""
    for block in entry.turn.blocks:
        match block:
            case TextBlock(text=text):
                yield "typed" if entry.kind == "user" else "shown", text
            case ToolCallBlock(name=name, input=given):
                yield "called", f"→ {write_call(name, given)}"
            case ToolResultBlock(output=output, is_error=is_error):
                yield "failed" if is_error else "shown", output if isinstance(output, str) else _flat(output)
            case ImageBlock(media_type=media_type):
                yield "shown", f"[{media_type}]"
            case CommandBlock(command=command, args=args):
                yield "typed", " ".join((command, *(args or ())))
            case _:
                continue


def write_call(name: str, given: Any) -> str:
    """Return a call as the chronicle shows it: its first argument bare, long texts as they are.

    >>> write_call("read", {"path": "a.py", "limit": 30})
    'read a.py limit=30'
    >>> print(write_call("edit", {"path": "a.py", "old": "x = 1\\ny = 2"}))
    edit a.py
    old:
    x = 1
    y = 2
    """
    if not isinstance(given, dict):
        return f"{name} {_flat(given)}"
    head, texts = [name], []
    for key, value in given.items():
        text = _flat(value)
        if "\n" in text or len(text) > MOST_PIECE:
            texts.append(f"{key}:\n{text}")
        else:
            head.append(text if len(head) == 1 and isinstance(value, str) else f"{key}={text}")
    return "\n".join((" ".join(head), *texts))


def _flat(value: Any) -> str:
    """Return a JSON value as text: strings as they are, also in lists and in mappings that hold long ones."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and any(isinstance(each, str) and "\n" in each for each in value.values()):
        return "\n".join(f"{key}: {_flat(each)}" for key, each in value.items())
    if isinstance(value, list | tuple) and value:
        return (" " if all(isinstance(each, str) for each in value) else "\n").join(map(_flat, value))
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return type(value).__name__


def pick_telling(text: str, max_chars: int) -> str:
    """Return the lines of *text* that live longest, in their order, at most *max_chars*.

    >>> pick_telling("ok 1\\nok 2\\nsrc/a.py:7: retries() failed\\nok 3", 32)
    'src/a.py:7: retries() failed'
    """
    pieces, cuts = cut_pieces(text)
    levels, ends = _rank("shown", pieces, cuts), [*cuts[1:], len(text)]
    kept: list[int] = []
    for at in sorted(range(len(pieces)), key=levels.__getitem__, reverse=True):
        max_chars -= ends[at] - cuts[at]
        if max_chars < 0:
            break
        kept.append(at)
    return "".join(text[cuts[at] : ends[at]] for at in sorted(kept)).rstrip()


def cut_pieces(text: str) -> tuple[list[str], list[int]]:
    """Return the lines of *text*, long ones in parts, and where each begins; a blank line is none.

    >>> cut_pieces("one\\n\\ntwo")
    (['one', 'two'], [0, 5])
    """
    lines = text.split("\n")
    starts = [0, *accumulate([len(line) + 1 for line in lines])]
    is_filled = [line != "" and not line.isspace() for line in lines]
    pieces, cuts = list(compress(lines, is_filled)), list(compress(starts, is_filled))
    if pieces and max(map(len, pieces)) > MOST_PIECE:
        lines, starts, pieces, cuts = pieces, cuts, [], []
        for line, start in zip(lines, starts, strict=True):
            if len(line) <= MOST_PIECE:
                pieces.append(line)
                cuts.append(start)
                continue
            own = [0, *cut_line(line), len(line)]
            pieces += [line[one:other] for one, other in pairwise(own)]
            cuts += [start + one for one in own[:-1]]
    if cuts:
        cuts[0] = 0
    return pieces, cuts


def cut_line(line: str) -> Iterator[int]:
    """Yield where to cut a long line: behind a sentence, else behind a comma with its blank or any of these.

    An item of JSON is a sentence too, so that one unlike the others stands out.

    >>> list(cut_line(f"It reads config.toml and writes a log. {'Then it goes on, ' * 6}and so on."))
    [39]
    >>> list(cut_line('[' + '{"name": "a", "id": 1234567}, ' * 4 + '{"name": "b", "id": "x-1"}]'))
    [61]
    """
    start = 0
    while len(line) - start > MOST_PIECE:
        low, high = start + LEAST_PIECE, start + MOST_PIECE
        sentence_end = _SENTENCE_END.search(line, low, high)
        if sentence_end is not None:
            start = sentence_end.end()
        else:
            found = line.rfind(", ", low, high)
            if found < 0:
                found = max(line.rfind(",", low, high), line.rfind(" ", low, high), high - 1)
            start = found + 1
        yield start


def _rank(speaker: Speaker, pieces: Sequence[str], cuts: Sequence[int]) -> bytearray:
    """Return the level of each piece of a text."""
    levels = bytearray(len(pieces))
    if speaker == "typed":
        pasted = find_pasted(pieces, cuts)
        _rank_typed(pieces, cuts, sorted(set(range(len(pieces))) - pasted), levels)
        if pasted:
            _rank_lines("pasted", pieces, sorted(pasted), levels)
    else:
        _rank_lines(speaker, pieces, range(len(pieces)), levels)
    return levels


def find_pasted(pieces: Sequence[str], cuts: Sequence[int]) -> set[int]:
    """Return which pieces of a prompt were pasted: fences, and paragraphs of more than a few lines."""
    pasted: set[int] = set()
    start, n_lines, is_fenced = 0, 0, False
    for at, piece in enumerate(pieces):
        is_fence = piece.lstrip().startswith(("```", "~~~"))
        gap = cuts[at] - cuts[at - 1] - len(pieces[at - 1]) if at else 1
        if is_fence and is_fenced:
            pasted.update(range(start, at + 1))
        if is_fence or (gap > 1 and not is_fenced):
            if not is_fenced and n_lines > PASTE_LINES:
                pasted.update(range(start, at))
            start, n_lines = at + 1 if is_fence and is_fenced else at, 0
        n_lines += gap > 0
        is_fenced ^= is_fence
    if n_lines > PASTE_LINES:
        pasted.update(range(start, len(pieces)))
    return pasted


def _rank_typed(pieces: Sequence[str], cuts: Sequence[int], places: Sequence[int], levels: bytearray) -> None:
    """Fill in the levels of typed words: the beginning and the end before the middle."""
    n_first = min(3, len(places))
    end = len(places) - min(2, len(places) - n_first)
    joined = {at for at in range(1, len(pieces)) if cuts[at] == cuts[at - 1] + len(pieces[at - 1])}
    chars = 0
    for at in (*places[:n_first], *places[end:], *places[n_first:end]):
        chars += len(pieces[at])
        is_other = at in joined or at + 1 in joined or pieces[at].rstrip().endswith(_QUESTION)
        life = (TYPED // OTHER_SHARE if is_other else TYPED) / max(1.0, chars / PROSE_UNIT) ** 3
        levels[at] = max(1, int(2 * log2(life) + ONE + 0.5))


def _rank_lines(speaker: Speaker, pieces: Sequence[str], places: Sequence[int], levels: bytearray) -> None:
    """Fill in the levels of lines, the most telling first; of a call the first line comes first."""
    lines = [pieces[at] for at in places]
    tellings = measure_telling(lines)
    order = sorted(range(len(lines)), key=tellings.__getitem__, reverse=True)
    if speaker == "called":
        order.remove(0)
        order.insert(0, 0)
        tellings[0] = max(tellings)
    tellings[order[0]] = ONE_LINE * (1 + tellings[order[0]]) - 1
    scale = BASES[speaker] ** 2 * LINE_UNIT
    for at, chars in zip(order, accumulate([len(lines[at]) for at in order]), strict=True):
        # Twice the logarithm of the life, which is 0 for a life of 1.
        level = log2(scale * (1 + tellings[at]) ** 2 / (chars if chars > LINE_UNIT else LINE_UNIT))
        levels[places[at]] = int(level + ONE + 0.5) if level > 1 - ONE else 1


def measure_telling(lines: Sequence[str]) -> list[float]:
    """Return how much each line tells beside the others.

    >>> [round(each, 1) for each in measure_telling(["ok 1", "ok 2", "src/a.py:7: retries() failed"])]
    [2.4, 2.4, 33.2]
    """
    text = "\n".join(lines)
    kinds = text.encode(errors="replace").translate(_KINDS)
    punctuation = kinds.translate(None, b"aA0_ \t\r").split(b"\n")
    n_alike = Counter(punctuation)
    # A long number or word of capitals is not more of a name than a short one.
    signs = kinds.translate(None, _OTHER_SIGNS).replace(b"00", b"0").replace(b"00", b"0").replace(b"AA", b"A")
    tellings = [
        96 * (len(own) if len(own) < 16 else 16) / (len(line) + 24)
        for line, own in zip(lines, signs.split(b"\n"), strict=True)
    ]
    for at in find_failures(text.lower()):
        tellings[at] += FAILURE
    if len(n_alike) < len(lines):
        roots = {own: sqrt(n) for own, n in n_alike.items()}
        tellings = [telling / roots[own] for telling, own in zip(tellings, punctuation, strict=True)]
    before, indent_before = 0.0, 0
    for at, indent in enumerate([len(line) - len(line.lstrip()) for line in lines]):
        telling = tellings[at]
        if telling < before * BELONGS:
            is_caret = "^" in lines[at] and _CARETS.issuperset(lines[at])
            if is_caret or indent > indent_before:
                tellings[at] = telling = before * BELONGS
        before, indent_before = telling, indent
    return tellings


def find_failures(lowered: str) -> set[int]:
    """Return which lines of a text, in small letters, hold a word of failure."""
    failing: set[int] = set()
    for word in _FAILURES:
        at, line, counted = lowered.find(word), 0, 0
        while at >= 0:
            line += lowered.count("\n", counted, at)
            failing.add(line)
            counted = lowered.find("\n", at)
            at = lowered.find(word, counted) if counted >= 0 else -1
    return failing
