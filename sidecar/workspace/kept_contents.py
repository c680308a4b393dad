"""Kept contents: the bytes of files before a session changed them, in the state directory.

Each session has a private folder of its own, and each content lies in it once, under its SHA-256. A
second copy takes no room, a deleted session takes its contents along, and a fork links to the contents of its
source. Over all sessions the contents have a bound in bytes and in age, and the oldest go
first. A content is whole on the disk, or not there at all. Everything here works on the disk: call it in a
worker thread.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote
from uuid import uuid4

from sidecar._internal.state_folder import make_private_folder, sync_folder
from sidecar.workspace.contract import FileBytes
from sidecar.workspace.encodings import decode_text
from sidecar.workspace.files import READ_LIMIT_BYTES, open_regular, read_bytes

_MOST_BYTES: Final = 500_000_000
_MOST_DAYS: Final = 30
_PRUNE_EACH_BYTES: Final = 20_000_000


class KeptContents:
    """The kept contents of all sessions.

    Args:
        home: the state directory.
        limit_bytes: a larger file is not kept.
        most_bytes: the bound over all sessions.
        most_days: older contents go.

    Attributes:
        read_elsewhere: returns a content of a session by its name that is not here, None for none.
    """

    def __init__(
        self,
        home: Path,
        *,
        limit_bytes: int = READ_LIMIT_BYTES,
        most_bytes: int = _MOST_BYTES,
        most_days: int = _MOST_DAYS,
    ) -> None:
        self.read_elsewhere: Callable[[str, str], bytes | None] = lambda sid, name: None
        self._root = home / "checkpoints"
        self._limit_bytes = limit_bytes
        self._most_bytes = most_bytes
        self._most_days = most_days
        self._unpruned = most_bytes  # the first content prunes what earlier processes left
        self._lock = threading.Lock()

    def look(self, path: Path) -> FileBytes:
        """Return the bytes of the resolved *path* on disk. Raises FileAccessError, also for a link in it."""
        with open_regular(path, follow_links=False) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        raw = read_bytes(path, self._limit_bytes, follow_links=False)
        decoded = decode_text(raw)
        return FileBytes(raw, mode, *(decoded or (None, None)))

    def stamp(self, path: Path) -> tuple[int, ...] | None:
        """Return numbers that are others once the file *path* has changed on disk, None for no file."""
        try:
            found = path.lstat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode

    def keep(self, sid: str, raw: bytes, *, waits: bool = True) -> str:
        """Keep *raw* for the session *sid* and return its name. Raises OSError.

        It is on the disk when this returns; without *waits* it is there a little later.
        """
        name = hashlib.sha256(raw).hexdigest()
        path = self._folder(sid) / name
        make_private_folder(path.parent)
        with suppress(FileNotFoundError):
            os.utime(path)  # it is as good as new
            return name
        temporary = path.with_name(f"{uuid4().hex}.tmp")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(raw)
                file.flush()
                if waits:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        if waits:
            sync_folder(path.parent)
        with self._lock:
            self._unpruned += len(raw)
            if self._unpruned >= min(_PRUNE_EACH_BYTES, self._most_bytes):
                self._unpruned = 0
                self.prune(path)
        return name

    def read(self, sid: str, name: str, *, mode: int | None, is_text: bool) -> FileBytes | None:
        """Return a kept content as a file, None where it has gone or is damaged; *is_text* for UTF-8."""
        for look in (self.find, self.read_elsewhere):
            raw = look(sid, name)
            if raw is not None and hashlib.sha256(raw).hexdigest() == name:
                break
        else:
            return None
        decoded = (raw.decode("utf-8", "surrogatepass"), "utf-8") if is_text else decode_text(raw)
        return FileBytes(raw, mode, *(decoded or (None, None)))

    def find(self, sid: str, name: str) -> bytes | None:
        """Return a content that is kept here, None where it has gone."""
        try:
            return (self._folder(sid) / name).read_bytes()
        except OSError:
            return None

    def fork(self, sid: str, to_sid: str) -> None:
        """Give the contents of *sid* to its fork *to_sid*, as far as the disk allows."""
        source, target = self._folder(sid), self._folder(to_sid)
        with suppress(OSError):
            names = [path.name for path in source.iterdir()]
            make_private_folder(target)
            for name in names:
                with suppress(OSError):
                    try:
                        os.link(source / name, target / name)
                    except OSError:
                        shutil.copy2(source / name, target / name)

    def remove(self, sid: str) -> None:
        """Remove the contents of a session."""
        shutil.rmtree(self._folder(sid), ignore_errors=True)

    def _folder(self, sid: str) -> Path:
        return self._root / quote(sid, safe="")

    def prune(self, newest: Path) -> None:
        """Remove old contents, and the oldest above the bound, never *newest*. A link counts as a content."""
        found: list[tuple[float, int, Path]] = []
        for path in self._root.glob("*/*"):
            with suppress(OSError):
                status = path.lstat()
                found.append((status.st_mtime, status.st_size, path))
        left, oldest = sum(size for _, size, _ in found), time.time() - self._most_days * 86_400
        for modified, size, path in sorted(found):
            if path != newest and (left > self._most_bytes or modified < oldest):
                with suppress(OSError):
                    path.unlink()
                    left -= size
