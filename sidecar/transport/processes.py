"""Other processes: whether one is alive, and waiting for its end.

Waiting blocks the calling thread. On Linux it uses a process descriptor, elsewhere :mod:`psutil`, which is
imported when it is first needed: every start of a daemon waits for its parent, and must not pay for it.

A parent can be killed before its child has run one line. Another process has adopted the child by then, often
process 1, and would be taken for the parent. Two facts show it. A process inherits its session, so that a
parent of another session has adopted it, unless it leads a session of its own. Such a leader cannot be sure:
in a container the editor itself may be process 1. But a client that is alive soon sends its first byte.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:  # as type checkers know it: a shim is quicker without the module
    from typing import Final, TypeGuard

STARTED_BY: Final = os.getppid()
"""The parent when this module was loaded: a command loads it first, as its parent may end at any moment."""

_FIRST_BYTE_S: Final = 1.0
_LOOK_AGAIN_S: Final = 0.5
_ADOPTERS: Final = frozenset({"systemd", "init"})
"""Programs that adopt orphans, as process 1 does."""
_LAST_PID = 2**31 - 1
"""The largest id a process can have."""


def is_process_id(pid: int | None) -> TypeGuard[int]:
    """Whether *pid* can be the id of a process; None and 0 stand for "no process" in a handshake."""
    return pid is not None and 0 < pid <= _LAST_PID


def is_alive(pid: int) -> bool:
    """Whether there is a process *pid*, of any user."""
    if os.name == "nt":
        import psutil

        return psutil.pid_exists(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it belongs to another user
    return True


def was_left_behind(read_fd: int, parent: int = STARTED_BY) -> bool:
    """Whether the program that started this one has ended before it could be watched.

    Takes up to a second where the only sign of a living client is its first byte at *read_fd*.
    """
    if sys.platform != "win32" and parent != 0:  # nothing is adopted there; the first process has no parent
        name = ""
        with suppress(OSError), open(f"/proc/{parent}/comm", encoding="utf-8") as file:
            name = file.read().strip()
        with suppress(
            OSError
        ):  # of a parent that is gone or may not be asked: the wait for its end will tell
            if os.getsid(0) not in (os.getpid(), os.getsid(parent)):
                return True
            if (parent == 1 or name in _ADOPTERS) and not os.isatty(read_fd):
                return not select.select([read_fd], [], [], _FIRST_BYTE_S)[0]
    return False


def has_lost_parent() -> bool:
    """Whether the process that started this one has ended; on Windows, where it stays the parent, False."""
    return os.name != "nt" and os.getppid() != STARTED_BY


def wait_for_parent() -> None:
    """Return when the process that started this one has ended."""

    def is_parent() -> bool:
        if os.name == "nt":  # there the id stays, though another process may have it by now
            import psutil

            return psutil.Process(STARTED_BY).create_time() <= psutil.Process().create_time()
        return not has_lost_parent()

    wait_for_process(STARTED_BY, is_parent)


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
        # A process that has ended and that nothing has waited for still has its id.
        while is_meant() and process.status() != psutil.STATUS_ZOMBIE:
            with suppress(psutil.TimeoutExpired):
                process.wait(_LOOK_AGAIN_S)
