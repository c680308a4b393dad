"""Waiting for the end of a process as macOS and the BSDs tell it, where Linux has descriptors of processes.

The calling thread blocks. What the kernel is asked with is an argument, so that a test can stand in for it.
"""

from __future__ import annotations

import errno
import select
from collections.abc import Callable, Sequence
from typing import Protocol, cast

__all__ = ["Kernel", "Queue", "kernel", "wait_for_exit"]


class Queue(Protocol):
    """A ``select.kqueue``."""

    def control(self, changes: Sequence[object] | None, max_events: int, /) -> Sequence[object]:
        """Apply *changes*, and return events once there are any; at once when none are asked for."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Kernel(Protocol):
    """The part of the module ``select`` that is needed here."""

    KQ_FILTER_PROC: int
    KQ_EV_ADD: int
    KQ_EV_ONESHOT: int
    KQ_NOTE_EXIT: int

    def kqueue(self) -> Queue:
        """Return a new queue. Raises OSError."""
        ...

    def kevent(self, ident: int, *, filter: int, flags: int, fflags: int) -> object:
        """Return what to ask of a queue."""
        ...


def kernel() -> Kernel | None:
    """Return what this system has, None for one without kqueue."""
    return cast(Kernel, select) if hasattr(select, "kqueue") else None


def wait_for_exit(pid: int, asked: Kernel, is_it: Callable[[], bool]) -> bool:
    """Return True once process *pid* has ended, False when the kernel will not tell.

    *is_it* says, once the kernel watches, whether *pid* is still who was meant: a number is given again.
    """
    try:
        queue = asked.kqueue()
    except OSError:
        return False
    try:
        flags = asked.KQ_EV_ADD | asked.KQ_EV_ONESHOT
        wish = asked.kevent(pid, filter=asked.KQ_FILTER_PROC, flags=flags, fflags=asked.KQ_NOTE_EXIT)
        queue.control([wish], 0)
        if is_it():
            queue.control(None, 1)
    except OSError as error:
        return error.errno == errno.ESRCH
    finally:
        queue.close()
    return True
