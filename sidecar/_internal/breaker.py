"""A breaker: three failures in a row stop the attempts, and every fifth occasion tries again.

It counts occasions and reads no clock. It makes no attempt itself.
"""

from __future__ import annotations

from typing import Final

from sidecar._internal.values import Value

FAILURES_TO_OPEN: Final = 3
_TRY_EVERY: Final = 5


class Breaker(Value):
    """Failures in a row, and occasions since the last of them that were let pass.

    >>> Breaker(failures=3).may_call(), Breaker(failures=3, skipped=4).may_call()
    (False, True)
    """

    failures: int = 0
    skipped: int = 0

    def may_call(self) -> bool:
        """Return whether the next occasion makes an attempt."""
        return self.failures < FAILURES_TO_OPEN or self.skipped >= _TRY_EVERY - 1

    def after(self, *, called: bool, failed: bool) -> Breaker:
        """Return the breaker after an occasion: whether an attempt was made, and whether it failed."""
        if not called:
            return Breaker(self.failures, self.skipped + 1)
        return Breaker(self.failures + 1) if failed else Breaker()
