"""How a context window is shared between the answer, the summary and the verbatim tail (facts A3, A8, Z1).

Integers in tokens; no messages, no model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["DEFAULT_KEEP_RECENT_TOKENS", "DEFAULT_RESERVE_TOKENS", "Budget", "fit_budget"]

DEFAULT_RESERVE_TOKENS = 16384
DEFAULT_KEEP_RECENT_TOKENS = 20000
_MIN_RESERVE, _MIN_KEEP = 4096, 2000


@dataclass(frozen=True, slots=True)
class Budget:
    """The shares of one window, in tokens.

    *threshold* is what a view may hold before it is compacted; *keep* is the least tail, at most half of it.
    """

    window: int
    reserve: int
    threshold: int
    keep: int

    @property
    def soft(self) -> int:
        """What a fresh view stays under, so that the next crossing is an eighth of the threshold away."""
        return self.threshold - self.threshold // 8

    @property
    def summary_floor(self) -> int:
        """The least room that a summary always has."""
        return max(self.threshold // 16, min(512, self.threshold // 8))

    @property
    def hard(self) -> int:
        """The most that may stand beside a summary; an item larger than this cannot be kept whole."""
        return self.threshold - self.summary_floor

    @property
    def history_max(self) -> int:
        """``max_tokens`` of the summary of whole turns (fact A8)."""
        return self.reserve * 4 // 5

    @property
    def prefix_max(self) -> int:
        """``max_tokens`` of the summary of a split turn's beginning (fact A8)."""
        return self.reserve // 2

    def narrowed(self, overhead: int) -> Budget:
        """Return the budget for the messages alone, when *overhead* tokens of each prompt are not theirs.

        A quarter of the threshold stays theirs however large the overhead is: below that, compacting again
        and again would win nothing.
        """
        threshold = max(self.threshold - overhead, self.threshold // 4)
        return replace(self, threshold=threshold, keep=min(self.keep, threshold // 2))


def fit_budget(context_window: int, reserve_tokens: int = 0, keep_recent_tokens: int = 0) -> Budget:
    """Share out a window; figures of 0 or less mean the defaults.

    The figures are taken as they are where the threshold holds two tails. Below that both scale with the
    window, or a compacted view would sit over its own threshold (failure B-A3): the reserve to 13 % of it,
    the tail to a quarter of the threshold. A reserve of up to 4096 is somebody's choice and stays.

    >>> fit_budget(128000)
    Budget(window=128000, reserve=16384, threshold=111616, keep=20000)
    >>> fit_budget(8192)
    Budget(window=8192, reserve=4096, threshold=4096, keep=2000)
    """
    reserve = reserve_tokens if reserve_tokens > 0 else DEFAULT_RESERVE_TOKENS
    keep = keep_recent_tokens if keep_recent_tokens > 0 else DEFAULT_KEEP_RECENT_TOKENS
    if context_window - reserve < 2 * keep:
        scaled = _clamp(context_window * 13 // 100, _MIN_RESERVE, DEFAULT_RESERVE_TOKENS)
        reserve = reserve if reserve <= _MIN_RESERVE else min(reserve, scaled, context_window // 2)
        threshold = context_window - reserve
        keep = min(
            keep, _clamp(threshold // 4, _MIN_KEEP, DEFAULT_KEEP_RECENT_TOKENS), max(threshold // 2, 0)
        )
    return Budget(context_window, reserve, context_window - reserve, keep)


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
