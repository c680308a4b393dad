"""Other processes: whether one is alive, and waiting for its end.

Waiting blocks the calling thread. On Linux it uses a process descriptor, elsewhere :mod:`psutil`, which is
imported when it is first needed: every start of a daemon waits for its parent, and must not pay for it.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeGuard

_LAST_PID = 2**31 - 1
"""The largest id a process can have."""


def is_process_id(pid: int | None) -> TypeGuard[int]:
    """Whether *pid* can be the id of a process; None and 0 stand for "no process" in a handshake."""
    return pid is not None and 0 < pid <= _LAST_PID


def is_alive(pid: int) -> bool:
    """Whether there is a process *pid*, of any user."""
    import psutil

    return psutil.pid_exists(pid)


def wait_for_parent(parent: int) -> None:
    """Return when *parent*, the process that started this one, has ended."""
    wait_for_process(parent, lambda: os.getppid() == parent)


def wait_for_process(pid: int, is_meant: Callable[[], bool] = lambda: True) -> None:
    """Return when the process *pid* has ended, at once when there is none.

    Args:
        pid: the id of a process that is not a child of this one.
        is_meant: called once the process is held fast; False says that its id was already given to another
            process, so that the intended one has ended.
    """
    if sys.platform == "linux":
        with suppress(AttributeError, OSError):  # an old kernel or a sandbox; psutil then polls
            descriptor = os.pidfd_open(pid)
            try:
                if is_meant():
                    poll = select.poll()
                    poll.register(descriptor, select.POLLIN)
                    poll.poll()
            finally:
                os.close(descriptor)
            return
    import psutil

    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if is_meant():
            process.wait()
