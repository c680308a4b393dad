"""When a failing summariser is asked again (failure B-A7): a count, no clock.

Pure values; the shell that asks keeps the current one.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Breaker"]

_FAILURES_TO_OPEN = 3
_ASK_EVERY = 5


@dataclass(frozen=True, slots=True)
class Breaker:
    """Failures in a row, and crossings since the last of them.

    After three failures in a row only every fifth crossing asks, until the model answers.

    >>> Breaker(failures=3).may_ask(), Breaker(failures=3, skipped=4).may_ask()
    (False, True)
    """

    failures: int = 0
    skipped: int = 0

    def may_ask(self) -> bool:
        """Return whether the next crossing asks the model."""
        return self.failures < _FAILURES_TO_OPEN or self.skipped >= _ASK_EVERY - 1

    def after(self, *, asked: bool, failed: bool) -> Breaker:
        """Return the breaker after a crossing: whether the model was asked, and whether it failed."""
        if not asked:
            return Breaker(self.failures, self.skipped + 1)
        return Breaker(self.failures + 1) if failed else Breaker()
