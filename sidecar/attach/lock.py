"""A lock between processes that ends with its holder, however that ends: a left file means nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
    import time
else:
    import fcntl

__all__ = ["FileLock"]

_POLL_S = 0.05
_LOCKED_BYTE = 1 << 30
"""Where Windows locks: far behind what is written, which stays readable."""


class FileLock:
    """An advisory lock on the file *path*, which is made when it is missing and never removed.

    Removing it would let two processes hold two locks on two files of one name.
    """

    __slots__ = ("_fd",)

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)

    def try_take(self) -> bool:
        """Take the lock; False when another process, or another FileLock of this one, has it."""
        try:
            if sys.platform == "win32":
                os.lseek(self._fd, _LOCKED_BYTE, os.SEEK_SET)
                msvcrt.locking(self._fd, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def take(self) -> None:
        """Take the lock, waiting for whoever has it."""
        if sys.platform == "win32":
            while not self.try_take():
                time.sleep(_POLL_S)
        else:
            fcntl.flock(self._fd, fcntl.LOCK_EX)

    def sign(self) -> None:
        """Leave this process's number in the file, for whoever wonders who holds the lock."""
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        os.write(self._fd, b"%d" % os.getpid())

    def signed_by(self) -> int | None:
        """Return the number that the last holder has left."""
        os.lseek(self._fd, 0, os.SEEK_SET)
        text = os.read(self._fd, 20)
        return int(text) if text.isdigit() else None

    def release(self) -> None:
        """Give the lock up; the lock is of no more use afterwards."""
        os.close(self._fd)
