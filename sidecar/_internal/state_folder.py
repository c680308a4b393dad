"""The state directory: the folders in it belong to their user alone.

On Windows a folder in the profile of its user is private by inheritance, and has no modes to change. Links
are not followed.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

STATE_FOLDERS: Final = ("sessions", "knowledge", "traces", "history", "output", "checkpoints", "incoming")
"""The folders of the daemon's files. Not the one with the socket: its content could be the work of others, so
it is refused and never repaired."""

_OLD_S: Final = 600.0
_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def make_private_folder(folder: Path) -> None:
    """Make *folder* and its missing parents, each for its user alone, and wait until their names are on disk.

    Raises:
        OSError: one of them cannot be made.
    """
    missing = []
    for each in (folder, *folder.parents):
        if os.path.lexists(each):
            break
        missing.append(each)
    for each in reversed(missing):
        # Not with parents=True: it gives the parents the modes of any new folder.
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in *folder* are on disk, where the system can do that."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def read_state_file(path: Path, most_bytes: int) -> bytes:
    """Return the content of the file at *path*, at most *most_bytes* of it.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(f"{path.name} is not a regular file")
    with path.open("rb") as file:
        return file.read(most_bytes)


def replace_state_file(path: Path, data: bytes) -> None:
    """Write *data* to the file at *path* for its user alone; a crash leaves the old content or the new one.

    It leaves a temporary file as well, which is removed by the next call after some time.

    Raises:
        OSError: it cannot be written.
    """
    make_private_folder(path.parent)
    prefix = f".{path.name}-"
    remove_old_files(path.parent, prefix)
    fd, temporary = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def remove_old_files(folder: Path, prefix: str) -> None:
    """Remove the files in *folder* with names that begin with *prefix*, unless they are new."""
    with suppress(OSError), os.scandir(folder) as files:
        for file in files:
            if file.name.startswith(prefix) and time.time() - file.stat().st_mtime > _OLD_S:
                os.unlink(file)


def close_state_folders(home: Path) -> None:
    """Take the access of others from the daemon's folders in *home*, and so from all that is in them."""
    for name in STATE_FOLDERS:
        take_access(home / name)


def close_state(home: Path) -> tuple[int, Sequence[Path]]:
    """Take the access of others from *home*, the daemon's folders in it, and everything in those.

    The home folder of the user, if it is *home*, stays as it is.

    Returns:
        The number of changed files and folders, and the paths that others can still enter or read.
    """
    own = [] if home == Path.home() else [home]
    for name in STATE_FOLDERS:
        for folder, _, files in os.walk(home / name):
            own += [Path(folder), *(Path(folder, file) for file in files)]
    n_taken = sum([take_access(path) for path in own])
    return n_taken, [path for path in own if is_open(path)]


def is_open(path: Path) -> bool:
    """Whether others than this user own *path*, or may read, change or enter it; never for a link."""
    if sys.platform != "win32":
        with suppress(OSError):
            found = path.lstat()
            is_shared = found.st_uid != os.geteuid() or bool(found.st_mode & _OF_OTHERS)
            return is_shared and not stat.S_ISLNK(found.st_mode)
    return False


def take_access(path: Path) -> bool:
    """Take the access of others from *path*, and return whether that changed it."""
    with suppress(OSError):
        if is_open(path):
            path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~_OF_OTHERS)
            return not is_open(path)
    return False
