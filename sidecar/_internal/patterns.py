"""Patterns that are compiled when they are first used.

Python compiles a long pattern in milliseconds, and most long patterns of a daemon wait for words that few
sessions ever hold. A short pattern is not worth it.
"""

from __future__ import annotations

import re
from typing import AnyStr, cast


def compile_later(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled with its first use; a wrong one raises then."""
    return cast("re.Pattern[AnyStr]", _LatePattern(pattern, flags))


class _LatePattern:
    """Stands for a pattern, and has its methods once one of them was called."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        compiled = re.compile(self.pattern, self._flags)
        for method in ("search", "match", "fullmatch", "finditer", "findall", "split", "sub", "subn"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)
