"""One writer per session: the lock on the lock file beside a session's file.

The system releases it when its holder dies, so a stale lock file means nothing. Readers take no lock.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from sidecar._internal.file_lock import FileLock
from sidecar._internal.state_folder import make_private_folder
from sidecar.runtime.store.errors import SessionLockedError


class SessionLock:
    """The right to write one session, until :meth:`release` or the end of this process."""

    def __init__(self, path: Path, session_id: str) -> None:
        """Take the lock.

        Raises:
            SessionLockedError: another holder has it, in this process or another one.
            OSError: the lock file cannot be created.
        """
        self._path = path
        self._lock: FileLock | None = take_lock(path, session_id)

    def release(self) -> None:
        """Release the lock and remove its file; a second call does nothing."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        if sys.platform != "win32":
            with suppress(OSError):
                self._path.unlink()
        lock.release()

    def __enter__(self) -> SessionLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def take_lock(path: Path, session_id: str) -> FileLock:
    make_private_folder(path.parent)
    while True:
        lock = FileLock(path)
        try:
            if not lock.try_take():
                raise SessionLockedError(session_id, lock.read_holder())
            if lock.is_current():
                lock.write_holder()
                return lock
        except BaseException:
            lock.release()
            raise
        # The previous holder removed the file between our open and our lock, which then guards nothing.
        lock.release()
