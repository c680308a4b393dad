"""Files by handle: a path that was judged is the path that is opened.

The problem: a tool resolves a path, sees that it lies inside the project, or asks the user about it, and uses
it afterwards. When a folder above it is swapped for a link in between, it leads elsewhere. So a resolved path
is walked one folder at a time, each opened below the last, and no part of it may be a link. The last folder
is held open while its files are read or written, by their names alone.

Where a system cannot open files below a folder (Windows), the path is resolved once more instead.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sidecar.workspace.contract import FileAccessError

CAN_HOLD: Final = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""Whether this system can open files below a folder that is held open."""

_FOLDER_FLAGS: Final = (
    getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
)


@contextmanager
def hold_folder(path: Path, *, create: bool = False) -> Iterator[int | None]:
    """Hold the resolved folder *path* open; the value is its descriptor, None where the system has none.

    Args:
        path: an absolute path with all links followed.
        create: whether missing folders are created.

    Raises:
        FileAccessError: ``changedSinceRead`` when a part of the path has become a link.
        OSError: a part of the path is missing, is no folder, or may not be entered.
    """
    if not CAN_HOLD:
        require_resolved(path)
        if create:
            path.mkdir(parents=True, exist_ok=True)
        yield None
        return
    folder = os.open(path.anchor, _FOLDER_FLAGS)
    try:
        for name in path.parts[1:]:
            below = _open_below(folder, name, path, create=create)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _open_below(folder: int, name: str, path: Path, *, create: bool) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
        os.mkdir(name, dir_fd=folder)
        return _open_below(folder, name, path, create=False)
    except OSError:
        if stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
            raise error_of_swap(path) from None
        raise


@contextmanager
def hold_file(path: Path, *, create_folders: bool = False) -> Iterator[tuple[str, int | None]]:
    """Hold the folder of the resolved *path* open; the value is the file's name for ``os``, and ``dir_fd``.

    Raises as :func:`hold_folder` does.
    """
    with hold_folder(path.parent, create=create_folders) as folder:
        yield (str(path) if folder is None else path.name or "."), folder


def require_resolved(path: Path) -> None:
    """Raise FileAccessError ``changedSinceRead`` when *path*, which was resolved, now leads elsewhere."""
    if os.path.realpath(path) != str(path):
        raise error_of_swap(path)


def error_of_swap(path: Path) -> FileAccessError:
    """Return the error of a path that has become another one since it was resolved."""
    return FileAccessError(
        "changedSinceRead",
        f"cannot use {path}: a part of this path has become a link",
        hint="look where it leads, then decide",
    )
