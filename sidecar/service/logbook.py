"""The daemon's own log, kept in memory for ``sidecar/log/tail`` and ``sidecar/status``.

It keeps what the ``sidecar`` loggers say at INFO and above, which by the rules of the house holds no prompt,
file content or key; of exceptions only the class.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from sidecar._internal.secrets import mask_secrets
from sidecar.protocol.messages import LogLine

__all__ = ["LogRing"]

_LINES_KEPT = 2_000
_LINES_AT_ONCE = 500
_ERRORS_SHOWN = 20


class LogRing(logging.Handler):
    """The newest lines of the log, numbered from 1."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[LogLine] = deque(maxlen=_LINES_KEPT)
        self._errors: deque[str] = deque(maxlen=_ERRORS_SHOWN)
        self._n_lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line of *record*."""
        cause = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        text = mask_secrets(record.getMessage()) + (f" ({cause})" if cause else "")
        self._n_lines += 1
        at, level = int(record.created * 1000), record.levelname.lower()
        self._lines.append(LogLine(self._n_lines, at, level, record.name, text))
        if record.levelno >= logging.ERROR:
            self._errors.append(f"{record.name}: {text}")

    @property
    def errors(self) -> tuple[str, ...]:
        """The last errors, a line each."""
        self.acquire()
        try:
            return tuple(self._errors)
        finally:
            self.release()

    def tail(self, from_line: int | None, level: str) -> tuple[Sequence[LogLine], int]:
        """Return some lines from number *from_line* on, the newest for None, and where to go on."""
        ranks = {name.lower(): rank for name, rank in logging.getLevelNamesMapping().items()}
        first, lowest = from_line or 0, ranks[level]
        kept = [line for line in self._all() if line.line >= first and ranks[line.level] >= lowest]
        shown = kept[-_LINES_AT_ONCE:] if from_line is None else kept[:_LINES_AT_ONCE]
        is_all = from_line is None or len(shown) == len(kept)
        return shown, self._n_lines + 1 if is_all else shown[-1].line + 1

    def _all(self) -> Sequence[LogLine]:
        """Return the lines as they are now; other threads go on writing."""
        self.acquire()
        try:
            return tuple(self._lines)
        finally:
            self.release()
