"""A lock between processes, held on an open file and released by the system when its holder dies.

A file that a dead process left behind therefore means nothing. Written out here, and not taken from a
library, because the shim of a shared daemon loads it: the kept library costs more than the rest of a shim.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # as type checkers know it: a shim is quicker without these modules
    from pathlib import Path

if sys.platform == "win32":
    import msvcrt
    import time
else:
    import fcntl

_POLL_S = 0.05
_LOCKED_BYTE = 1 << 30
"""The byte that Windows locks: far behind the process id, which stays readable."""


class FileLock:
    """An exclusive advisory lock on the file *path*, which is created when it is missing.

    Links are not followed. The lock file itself is never removed here: removing it would let two processes
    hold two locks on two files of one name. An owner that does remove it must check :meth:`is_current`.
    """

    __slots__ = ("_fd", "_path")

    def __init__(self, path: Path) -> None:
        """Open the file. Raises OSError."""
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)

    def try_take(self) -> bool:
        """Take the lock; False when another process, or another FileLock of this one, holds it."""
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
        """Take the lock, waiting until it is free."""
        if sys.platform == "win32":
            while not self.try_take():
                time.sleep(_POLL_S)
        else:
            fcntl.flock(self._fd, fcntl.LOCK_EX)

    def is_current(self) -> bool:
        """Whether *path* still names the locked file; False after its previous holder removed it."""
        try:
            return os.path.samestat(os.fstat(self._fd), self._path.stat())
        except FileNotFoundError:
            return False

    def write_holder(self) -> None:
        """Write the id of this process into the file, for messages about a lock that is held."""
        try:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, b"%d" % os.getpid())
        except OSError:
            return  # a full disk has no room for the number; the lock holds all the same

    def read_holder(self) -> int | None:
        """Return the process id that the last holder wrote, None when there is none."""
        os.lseek(self._fd, 0, os.SEEK_SET)
        text = os.read(self._fd, 20)
        return int(text) if text.isdigit() else None

    def release(self) -> None:
        """Release the lock and close the file; the object cannot be used afterwards."""
        os.close(self._fd)
