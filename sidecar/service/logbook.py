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

__all__ = ["LogBook"]

_LINES_KEPT = 2_000
_LINES_AT_ONCE = 500
_ERRORS_SHOWN = 20


class LogBook(logging.Handler):
    """The newest lines of the log, numbered from 1."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[LogLine] = deque(maxlen=_LINES_KEPT)
        self._n_lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line of *record*."""
        cause = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        text = mask_secrets(record.getMessage()) + (f" ({cause})" if cause else "")
        self._n_lines += 1
        at, level = int(record.created * 1000), record.levelname.lower()
        self._lines.append(LogLine(self._n_lines, at, level, record.name, text))

    def tail(self, from_line: int | None, level: str) -> tuple[Sequence[LogLine], int]:
        """Return some lines from number *from_line* on, the newest for None, and where to go on."""
        lowest = logging.getLevelNamesMapping()[level.upper()]
        kept = [line for line in self._all() if _rank(line) >= lowest and line.line >= (from_line or 0)]
        shown = kept[-_LINES_AT_ONCE:] if from_line is None else kept[:_LINES_AT_ONCE]
        is_all = from_line is None or len(shown) == len(kept)
        return shown, self._n_lines + 1 if is_all else shown[-1].line + 1

    def errors(self) -> Sequence[str]:
        """Return the last errors, a line each."""
        errors = [f"{line.logger}: {line.text}" for line in self._all() if _rank(line) >= logging.ERROR]
        return errors[-_ERRORS_SHOWN:]

    def _all(self) -> Sequence[LogLine]:
        """Return the lines as they are now; other threads go on writing."""
        self.acquire()
        try:
            return tuple(self._lines)
        finally:
            self.release()


def _rank(line: LogLine) -> int:
    return logging.getLevelNamesMapping()[line.level.upper()]
