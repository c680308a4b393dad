"""Choosing which words to rank by, and making scores that compare between sources.

Pure arithmetic over BM25, as the index computes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

__all__ = ["MAX_TERMS", "comparable", "telling_words"]

MAX_TERMS = 12
BM25_K1 = 1.2


def telling_words(counts: Mapping[str, int], n_rows: int, max_ranked: int) -> dict[str, float]:
    """Return the words to rank by with their weights, rarest first.

    Args:
        counts: in how many of the rows each word occurs.
        n_rows: how many rows there are.
        max_ranked: how many rows may be ranked in all; the rarest word is taken however many it has.

    >>> weights = telling_words({"return": 900, "parser": 3, "absent": 0}, 1000, 1000)
    >>> [(word, round(weight, 1)) for word, weight in weights.items()]
    [('parser', 5.7), ('return', 0.0)]
    """
    chosen: dict[str, float] = {}
    n_ranked = 0
    for word, count in sorted(counts.items(), key=lambda pair: pair[1]):
        if count and len(chosen) < MAX_TERMS and (not chosen or n_ranked + count <= max_ranked):
            chosen[word] = max(1e-6, math.log((n_rows - count + 0.5) / (count + 0.5)))
            n_ranked += count
    return chosen


def comparable(bm25: float, weights: Mapping[str, float]) -> float:
    """Return a rank of the index (lower is better) as its share, 0 to 1, of the best the words could get.

    >>> comparable(-1.1, {"a": 1.0}), comparable(-9.0, {"a": 1.0})
    (0.5, 1.0)
    """
    best = (BM25_K1 + 1) * sum(weights.values())
    return min(1.0, max(0.0, -bm25 / best)) if best else 0.0
