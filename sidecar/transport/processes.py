"""Whether another process still lives, and waiting for its end: the parent, or any other by its number.

What waits here blocks the calling thread: on a descriptor of the process on Linux, on kqueue on macOS and the
BSDs, on a handle on Windows, and where none of them tells, by looking every second. Imports next to nothing,
for programs that have to start fast.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable

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

        def is_ours() -> bool:
            return os.getppid() == parent

        if not _wait_for_end(parent, is_ours):
            while is_ours():
                time.sleep(_POLL_S)

    def wait_for_process(pid: int) -> None:
        """Return when there is no process *pid*."""
        if not _wait_for_end(pid, lambda: True):
            while is_alive(pid):
                time.sleep(_POLL_S)

    def is_alive(pid: int) -> bool:
        """Whether there is a process *pid*, be it somebody else's."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


if sys.platform == "linux":

    def _wait_for_end(pid: int, is_it: Callable[[], bool]) -> bool:
        """Return True once process *pid* has ended, or is not who was meant; False when nobody tells."""
        try:
            fd = os.pidfd_open(pid)
        except (AttributeError, OSError):
            return False
        if is_it():  # else the descriptor may be of another process with the same number
            watched = select.poll()
            watched.register(fd, select.POLLIN)
            watched.poll()
        os.close(fd)
        return True

elif sys.platform != "win32":

    def _wait_for_end(pid: int, is_it: Callable[[], bool]) -> bool:
        """Return True once process *pid* has ended, or is not who was meant; False when nobody tells."""
        from sidecar.transport.kqueue import kernel, wait_for_exit

        asked = kernel()
        return asked is not None and wait_for_exit(pid, asked, is_it)
