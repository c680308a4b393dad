"""One writer a session: an advisory lock of the operating system on a lock file that is held open.

The system gives the lock up when its holder dies, however it dies, so a stale lock file means nothing.
Readers take no lock.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from sidecar.runtime.store.errors import SessionLocked

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["SessionLock"]

_LOCKED_BYTE: Final = 1 << 30
"""Where Windows locks: far behind the process id, which stays readable."""


class SessionLock:
    """The right to write one session, until :meth:`release` or the end of this process."""

    def __init__(self, path: Path, session_id: str) -> None:
        """Take the lock.

        Raises:
            SessionLocked: somebody has it, in this process or another one.
            OSError: the lock file cannot be made.
        """
        self._path = path
        self._fd: int | None = _take(path, session_id)

    def release(self) -> None:
        """Give the lock up; again does nothing."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        if sys.platform != "win32":
            with suppress(OSError):
                self._path.unlink()
        os.close(fd)

    def __enter__(self) -> SessionLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _take(path: Path, session_id: str) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _try_lock(fd):
                raise SessionLocked(session_id, _pid_in(fd))
            if _is_still(path, fd):
                os.ftruncate(fd, 0)
                os.write(fd, str(os.getpid()).encode("ascii"))
                return fd
        except BaseException:
            os.close(fd)
            raise
        # The holder before removed the file between our open and our lock: that one guards nothing.
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        if sys.platform == "win32":
            os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
            os.lseek(fd, 0, os.SEEK_SET)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _is_still(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _pid_in(fd: int) -> int | None:
    os.lseek(fd, 0, os.SEEK_SET)
    text = os.read(fd, 20)
    return int(text) if text.isdigit() else None
