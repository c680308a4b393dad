"""The words of a search: those a text is found by, the weight of each, and the part of a text to show.

The problem: people and code write the same thing differently. ``userName``, ``user_name`` and "user name"
must find each other, the rarest word of a question must count most, and the answer must be the ten lines
around the word, not a file. Three steps answer it, all pure functions over text:

1. *Names into words.* The index itself takes a text's plain words (runs of letters and digits, case and
   accents folded). Names add the words inside them: ``getUserName`` adds get, user, name; ``user_name`` adds
   username. Scripts without spaces are found by pairs of characters.
2. *Weights.* A word in *c* of *n* rows weighs ``log((n - c + 0.5) / (c + 0.5))``, the inverse document
   frequency of BM25. Of 1000 rows, a word in 3 weighs 5.7 and a word in 900 nothing. Only the rarest words
   are ranked by, so that a common one does not cost a scan of all rows.
3. *Excerpts.* Texts are divided into chunks of at most 60 lines; of a chunk that was found, the line with the
   most weight is shown with its neighbours.

Line numbers count from 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sidecar._internal.surrogates import to_storable

MAX_QUERY_WORDS = 48
MAX_RANKED_WORDS = 12
BM25_K1 = 1.2

CHUNK_LINES = 60
CHUNK_CHARS = 6000
LINES_BEFORE = 2
LINES_AFTER = 9

_WORD = re.compile(r"\w+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts that are written without spaces: a run of them is one plain word, so it is found by its pairs.
_UNSPACED = r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
"""A pattern that takes 2 ms to compile, so the first name in such a script does it."""

# A list of words is easier to read as words.
_STOPWORDS = frozenset(
    """
    a about all also am an and any are as at be because been but by can could did do does for from get had
    has have he her his how i if in into is it its just like me more my no not now of on one or our out
    please she should so some than that the their them then there these they this those to too up us was
    we were what when where which who why will with would you your
    """.split()  # noqa: SIM905
)


def words_in_names(text: str) -> list[str]:
    """Return the words inside the names in *text*, each name once: the parts of camelCase, joined snake_case.

    >>> words_in_names("userName = get_user_name(HTTPServer)")
    ['user', 'name', 'getusername', 'http', 'server']
    """
    names = dict.fromkeys(_WORD.findall(text))
    compound = (name for name in names if not (name.islower() and name.isascii() and "_" not in name))
    return [word for name in compound for word in _words_in_name(name)]


def query_words(text: str) -> list[str]:
    """Return the words to search for, each once and in lower case; stop words are left out.

    The same name is found however it is written:

    >>> query_words("Where is the userName?"), query_words("user_name")
    (['username', 'user', 'name'], ['user', 'name', 'username'])
    """
    found: dict[str, None] = {}
    for match in _WORD.finditer(to_storable(text)):
        plain = [piece.lower() for piece in match[0].split("_") if piece]
        for word in (*plain, *_words_in_name(match[0])):
            if word not in _STOPWORDS and (len(word) > 1 or not word.isascii()):
                found[word] = None
        if len(found) >= MAX_QUERY_WORDS:
            break
    return list(found)[:MAX_QUERY_WORDS]


def _words_in_name(name: str) -> Iterator[str]:
    pieces = [piece for piece in name.split("_") if piece]
    if len(pieces) > 1:
        yield "".join(pieces).lower()
    for piece in pieces:
        parts = _CAMEL.split(piece) if not piece.islower() else ()
        if len(parts) > 1:
            yield from (part.lower() for part in parts if len(part) > 1 and not part.isdigit())
    if not name.isascii():
        for run in re.findall(_UNSPACED, name):
            yield from (run[start : start + 2] for start in range(max(1, len(run) - 1)))


def choose_ranking_words(counts: Mapping[str, int], n_rows: int, max_ranked: int) -> dict[str, float]:
    """Return the words to rank by with their weights, rarest first.

    Args:
        counts: for each word, in how many of the rows it occurs.
        n_rows: how many rows there are.
        max_ranked: how many rows may be ranked in all; the rarest word is taken however many it has.

    >>> weights = choose_ranking_words({"return": 900, "parser": 3, "absent": 0}, 1000, 1000)
    >>> [(word, round(weight, 1)) for word, weight in weights.items()]
    [('parser', 5.7), ('return', 0.0)]
    """
    chosen: dict[str, float] = {}
    n_ranked = 0
    for word, count in sorted(counts.items(), key=lambda pair: pair[1]):
        if count and len(chosen) < MAX_RANKED_WORDS and (not chosen or n_ranked + count <= max_ranked):
            chosen[word] = max(1e-6, math.log((n_rows - count + 0.5) / (count + 0.5)))
            n_ranked += count
    return chosen


def normalize_rank(bm25: float, weights: Mapping[str, float]) -> float:
    """Return a rank of the index (lower is better) as its share, 0 to 1, of the best the words could get.

    >>> normalize_rank(-1.1, {"a": 1.0}), normalize_rank(-9.0, {"a": 1.0})
    (0.5, 1.0)
    """
    best = (BM25_K1 + 1) * sum(weights.values())
    return min(1.0, max(0.0, -bm25 / best)) if best else 0.0


class TextChunk(NamedTuple):
    """Some lines of a text; *line* is the number of the first."""

    line: int
    text: str


def split_chunks(text: str) -> Iterator[TextChunk]:
    """Divide *text* into chunks of at most 60 lines and 6000 characters; a longer line is divided itself.

    An empty text is one empty chunk, so that it is found by its title.

    >>> [(chunk.line, len(chunk.text)) for chunk in split_chunks("ab\\n" * 61)]
    [(1, 179), (61, 3)]
    """
    held: list[str] = []
    first, n_chars = 1, 0
    for number, line in enumerate(text.split("\n"), start=1):
        for start in range(0, max(1, len(line)), CHUNK_CHARS):
            piece = line[start : start + CHUNK_CHARS]
            if held and (len(held) == CHUNK_LINES or n_chars + len(piece) >= CHUNK_CHARS):
                yield TextChunk(first, "\n".join(held))
                held, n_chars = [], 0
            if not held:
                first = number
            held.append(piece)
            n_chars += len(piece) + 1
    yield TextChunk(first, "\n".join(held))


def excerpt(chunk: TextChunk, weights: Mapping[str, float], max_chars: int) -> TextChunk:
    """Return the lines around the best line of *chunk*.

    Args:
        chunk: a chunk that was found.
        weights: the words of the search with their weights; the line with the most weight is the best.
        max_chars: the most characters to show.

    >>> excerpt(TextChunk(10, "import os\\n\\n\\ndef load():\\n    pass"), {"load": 1.0}, 100)
    TextChunk(line=13, text='def load():\\n    pass')
    """
    lines = chunk.text.split("\n")
    folded = [line.lower() for line in lines]
    worths = [sum(weight for word, weight in weights.items() if word in line) for line in folded]
    best = worths.index(max(worths))
    if len(lines[best]) > max_chars:
        # A very long line is shown around the first word of the search.
        found = [at for word in weights if (at := folded[best].find(word)) >= 0]
        start = max(0, min(found, default=0) - max_chars // 4)
        return TextChunk(chunk.line + best, lines[best][start : start + max_chars].strip())
    start = max(0, best - LINES_BEFORE)
    while start < len(lines) - 1 and not lines[start].strip():
        start += 1
    shown = "\n".join(line.rstrip() for line in lines[start : best + LINES_AFTER])
    return TextChunk(chunk.line + start, shown[:max_chars].rstrip())
