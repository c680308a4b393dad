"""How the daemon is: uptime, memory, its processes, its last errors; all for ``sidecar/status``."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from sidecar.protocol.messages import ChildInfo, WatchInfo
from sidecar.service.logbook import LogRing
from sidecar.workspace.contract import WorkspacePort

__all__ = ["Children", "Memory", "ProcessStats"]


class Children:
    """The processes the daemon started and that still run."""

    def __init__(self) -> None:
        self._running: dict[int, str] = {}

    def started(self, pid: int, what: str) -> Callable[[], None]:
        """Remember a process; call what this returns when it is gone."""
        self._running[pid] = what
        return lambda: self._forget(pid)

    def all(self) -> tuple[ChildInfo, ...]:
        """Return the processes that run."""
        return tuple(ChildInfo(pid, what) for pid, what in self._running.items())

    def _forget(self, pid: int) -> None:
        self._running.pop(pid, None)


class ProcessStats:
    """The signs of life of one daemon."""

    def __init__(self, workspace: WorkspacePort, clock_ms: Callable[[], int]) -> None:
        self._workspace = workspace
        self._clock_ms = clock_ms
        self._started_ms = clock_ms()
        self.children = Children()
        self.memory = Memory()
        self.log = LogRing()
        logging.getLogger("sidecar").addHandler(self.log)

    @property
    def pid(self) -> int:
        """The daemon's process id."""
        return os.getpid()

    @property
    def uptime_ms(self) -> int:
        """Milliseconds since the start."""
        return self._clock_ms() - self._started_ms

    def watch(self) -> WatchInfo:
        """Return who watches the disk."""
        status = self._workspace.watch_status()
        return WatchInfo(status.backend, len(status.roots), status.dropped)

    async def aclose(self) -> None:
        """Let go of the workspace and the log."""
        logging.getLogger("sidecar").removeHandler(self.log)
        self.memory.close()
        await self._workspace.close()


class Memory:
    """The memory that this process holds."""

    def __init__(self) -> None:
        self._statm: int | None = None

    def bytes(self) -> int:
        """Return it: as it is now on Linux, its peak on other systems, 0 on Windows."""
        with suppress(OSError):  # a Linux without /proc tells the peak, too
            if sys.platform == "linux":
                # Kept open: every status asks, and to open it would cost more than all the rest of one.
                if self._statm is None:
                    self._statm = os.open("/proc/self/statm", os.O_RDONLY)
                return int(os.pread(self._statm, 128, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return _peak_bytes()

    def close(self) -> None:
        """Let go of what it is read from."""
        if self._statm is not None:
            os.close(self._statm)
            self._statm = None


if sys.platform == "win32":

    def _peak_bytes() -> int:
        return 0

else:

    def _peak_bytes() -> int:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024  # the BSDs count in KiB
