"""Dividing a text into chunks that are found on their own, and showing the part of a chunk that was meant.

Pure text; line numbers count from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

__all__ = ["Chunk", "chunks", "excerpt"]

CHUNK_LINES = 60
CHUNK_CHARS = 6000
LINES_BEFORE = 2
LINES_AFTER = 9


class Chunk(NamedTuple):
    """Some lines of a text; *line* is the number of the first."""

    line: int
    text: str


def chunks(text: str) -> Iterator[Chunk]:
    """Divide *text* into chunks of at most 60 lines and 6000 characters; a longer line is divided itself.

    An empty text is one empty chunk, so that it is found by its title.

    >>> [(chunk.line, len(chunk.text)) for chunk in chunks("ab\\n" * 61)]
    [(1, 179), (61, 3)]
    """
    held: list[str] = []
    first, n_chars = 1, 0
    for line, piece in _pieces(text):
        if held and (len(held) == CHUNK_LINES or n_chars + len(piece) >= CHUNK_CHARS):
            yield Chunk(first, "\n".join(held))
            held, n_chars = [], 0
        if not held:
            first = line
        held.append(piece)
        n_chars += len(piece) + 1
    yield Chunk(first, "\n".join(held))


def excerpt(chunk: Chunk, weights: Mapping[str, float], max_chars: int) -> Chunk:
    """Return the lines around the one that says most of what was searched for, *weights* being words' worths.

    >>> excerpt(Chunk(10, "import os\\n\\n\\ndef load():\\n    pass"), {"load": 1.0}, 100)
    Chunk(line=13, text='def load():\\n    pass')
    """
    lines = chunk.text.split("\n")
    best = max(range(len(lines)), key=lambda index: (_worth(lines[index], weights), -index))
    if len(lines[best]) > max_chars:
        return Chunk(chunk.line + best, _inside(lines[best], weights, max_chars))
    start = max(0, best - LINES_BEFORE)
    while start < len(lines) - 1 and not lines[start].strip():
        start += 1
    shown = "\n".join(line.rstrip() for line in lines[start : best + LINES_AFTER])
    return Chunk(chunk.line + start, shown[:max_chars].rstrip())


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        for start in range(0, max(1, len(line)), CHUNK_CHARS):
            yield number, line[start : start + CHUNK_CHARS]


def _worth(line: str, weights: Mapping[str, float]) -> float:
    folded = line.lower()
    return sum(weight for word, weight in weights.items() if word in folded)


def _inside(line: str, weights: Mapping[str, float], max_chars: int) -> str:
    """Return the part of a very long *line* around the first word that was searched for."""
    folded = line.lower()
    found = [at for word in weights if (at := folded.find(word)) >= 0]
    start = max(0, min(found, default=0) - max_chars // 4)
    return line[start : start + max_chars].strip()
