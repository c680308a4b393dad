"""Statistics of the daemon for ``sidecar/status`` and ``sidecar/log/tail``: uptime, memory, processes, log.

The log ring keeps the lines of the ``sidecar`` loggers at INFO and above. By the rules of this project they
hold no prompt, file content or key; of an exception only its class is kept.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from sidecar._internal.secrets import mask_secrets
from sidecar.protocol.messages import ChildInfo, LogLine, WatchInfo
from sidecar.workspace.workspace import Workspace

_LINES_KEPT: Final = 2_000
_LINES_AT_ONCE: Final = 500
_ERRORS_KEPT: Final = 20
_MEASURE_EVERY_MS: Final = 1_000


class ProcessStats:
    """The statistics of one daemon. Its log ring is attached to the ``sidecar`` logger until it is closed."""

    def __init__(self, workspace: Workspace, clock_ms: Callable[[], int]) -> None:
        self._workspace = workspace
        self._clock_ms = clock_ms
        self._started_ms = clock_ms()
        self.children = Children()
        self._measured_ms = -_MEASURE_EVERY_MS
        self._memory_bytes = 0
        self.log = LogRing()
        logging.getLogger("sidecar").addHandler(self.log)

    @property
    def uptime_ms(self) -> int:
        """Milliseconds since the start."""
        return self._clock_ms() - self._started_ms

    def memory_bytes(self) -> int:
        """Return the resident bytes, as they were at most a second ago: clients may ask much more often."""
        if abs(self._clock_ms() - self._measured_ms) >= _MEASURE_EVERY_MS:
            self._measured_ms = self._clock_ms()
            self._memory_bytes = measure_memory()
        return self._memory_bytes

    def watch(self) -> WatchInfo:
        """Return which back end watches the disk, and for how many folders."""
        status = self._workspace.watch_status()
        return WatchInfo(status.backend, len(status.roots), status.dropped)

    async def aclose(self) -> None:
        """Close the workspace, and detach the log ring."""
        logging.getLogger("sidecar").removeHandler(self.log)
        await self._workspace.close()


class Children:
    """The processes that the daemon has started and that still run, by process id."""

    def __init__(self) -> None:
        self._running: dict[int, str] = {}

    def add(self, pid: int, purpose: str) -> Callable[[], None]:
        """Record a process; return the function to call when it has ended."""
        self._running[pid] = purpose

        def remove() -> None:
            self._running.pop(pid, None)

        return remove

    def all(self) -> tuple[ChildInfo, ...]:
        """Return the processes that run."""
        return tuple(ChildInfo(pid, purpose) for pid, purpose in self._running.items())


def measure_memory() -> int:
    """Return the resident bytes of this process."""
    if sys.platform == "linux":
        with suppress(OSError):  # a Linux without /proc
            # psutil takes longer to load than all the rest of an answer.
            n_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            return n_pages * os.sysconf("SC_PAGE_SIZE")
    import psutil  # not above: few clients request the status, and all wait for the start

    return psutil.Process().memory_info().rss


class LogRing(logging.Handler):
    """The newest lines of the log, numbered from 1. Threads may write to it while it is read."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[LogLine] = deque(maxlen=_LINES_KEPT)
        self._errors: deque[str] = deque(maxlen=_ERRORS_KEPT)
        self._n_lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line of *record*."""
        cause = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        text = mask_secrets(record.getMessage()) + (f" ({cause})" if cause else "")
        self._n_lines += 1
        at, level = int(record.created * 1000), record.levelname.lower()
        self._lines.append(LogLine(line=self._n_lines, at=at, level=level, logger=record.name, text=text))
        if record.levelno >= logging.ERROR:
            self._errors.append(f"{record.name}: {text}")

    @property
    def errors(self) -> tuple[str, ...]:
        """The newest errors, a line each."""
        self.acquire()
        try:
            return tuple(self._errors)
        finally:
            self.release()

    def tail(self, from_line: int | None, level: str, session: str = "") -> tuple[Sequence[LogLine], int]:
        """Return up to 500 lines of *level* or above with *session* in them, and the number to continue from.

        The lines begin at number *from_line*; with None they are the newest ones.
        """
        self.acquire()
        try:
            lines = tuple(self._lines)
        finally:
            self.release()
        ranks = {name.lower(): rank for name, rank in logging.getLevelNamesMapping().items()}
        first, lowest = from_line or 0, ranks[level]
        kept = [
            line
            for line in lines
            if line.line >= first and ranks[line.level] >= lowest and session in line.text
        ]
        shown = kept[-_LINES_AT_ONCE:] if from_line is None else kept[:_LINES_AT_ONCE]
        is_all = from_line is None or len(shown) == len(kept)
        return shown, self._n_lines + 1 if is_all else shown[-1].line + 1
