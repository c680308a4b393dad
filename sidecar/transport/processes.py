"""Whether another process still lives, and waiting for its end: the parent, or any other by its number.

What waits here blocks the calling thread. Imports next to nothing, for programs that have to start fast.
"""

from __future__ import annotations

import os
import select
import sys
import time

__all__ = ["LAST_PID", "is_alive", "wait_for_parent", "wait_for_process"]

LAST_PID = 2**31 - 1
"""The largest number a process can have."""

_POLL_S = 1.0


if sys.platform == "win32":
    _SYNCHRONIZE = 0x00100000
    _FOR_EVER = 0xFFFFFFFF

    def wait_for_parent(parent: int) -> None:
        """Return when the process *parent* is gone."""
        wait_for_process(parent)

    def wait_for_process(pid: int) -> None:
        """Return when there is no process *pid*."""
        _is_over(pid, _FOR_EVER)

    def is_alive(pid: int) -> bool:
        """Whether there is a process *pid*."""
        return not _is_over(pid, 0)

    def _is_over(pid: int, wait_ms: int) -> bool:
        """Wait for the end of process *pid*; False when it still runs after *wait_ms*."""
        import ctypes

        kernel = ctypes.WinDLL("kernel32")
        handle = kernel.OpenProcess(_SYNCHRONIZE, False, pid)
        if not handle:
            return True
        try:
            return bool(kernel.WaitForSingleObject(handle, wait_ms) == 0)
        finally:
            kernel.CloseHandle(handle)

else:

    def wait_for_parent(parent: int) -> None:
        """Return when *parent* is no longer our parent: one that ends hands its children on at once."""
        try:
            fd = os.pidfd_open(parent)
        except (AttributeError, OSError):
            while os.getppid() == parent:
                time.sleep(_POLL_S)
            return
        if os.getppid() == parent:  # else the descriptor may be of another process with the same number
            _wait_for_fd(fd)
        os.close(fd)

    def wait_for_process(pid: int) -> None:
        """Return when there is no process *pid*."""
        try:
            fd = os.pidfd_open(pid)
        except (AttributeError, OSError):
            while is_alive(pid):
                time.sleep(_POLL_S)
            return
        _wait_for_fd(fd)
        os.close(fd)

    def is_alive(pid: int) -> bool:
        """Whether there is a process *pid*, be it somebody else's."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def _wait_for_fd(fd: int) -> None:
        watched = select.poll()
        watched.register(fd, select.POLLIN)
        watched.poll()
