"""Reading text files from the disk: bounded, and never blocking on a pipe or a device.

Runs in worker threads; knows nothing of buffers. A byte order mark is no part of the text; the codec
remembers it, so that writing the file again keeps it.

A path that was judged is the path that is opened. The problem: a tool resolves a path, sees that it lies
inside the project, or asks the user about it, and uses it afterwards. When a folder above it is swapped for a
link in between, it leads elsewhere. So a resolved path is walked one folder at a time, each opened below the
last, and no part of it may be a link. The last folder is held open while its files are read or written, by
their names alone.

Where a system cannot open files below a folder (Windows), the path is resolved once more instead.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final

from sidecar._internal.values import Value
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.encodings import decode_text

READ_LIMIT_BYTES = 10_000_000
BOM = "\ufeff"
_OPEN_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_SPECIAL = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

CAN_HOLD: Final = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""Whether this system can open files below a folder that is held open."""

_FOLDER_FLAGS: Final = (
    getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
)


class DiskText(Value):
    """A text file as it stood on the disk; *codec* is how its bytes become *text*, mark included."""

    text: str
    hash: str
    size_bytes: int
    codec: str = "utf-8"


def real_path(path: Path) -> Path:
    """Return the absolute *path* with all links followed, as far as it exists."""
    return Path(os.path.realpath(path))


def text_hash(text: str) -> str:
    """Return the hash of a view.

    >>> text_hash("")[:15]
    'sha256:e3b0c442'
    """
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_text(path: Path, limit_bytes: int = READ_LIMIT_BYTES, *, follow_links: bool = True) -> DiskText:
    """Return the text of *path*; see :func:`read_bytes`. Raises FileAccessError ``binary`` as well."""
    raw = read_bytes(path, limit_bytes, follow_links=follow_links)
    decoded = decode_text(raw)
    if decoded is None:
        raise FileAccessError(
            "binary",
            f"cannot read {path} as text: it holds {len(raw)} bytes in no encoding of text that is known",
            hint="look at it with a tool for its format",
        )
    text, codec = decoded
    return DiskText(text, text_hash(text), len(raw), codec)


def read_bytes(path: Path, limit_bytes: int, *, follow_links: bool = True) -> bytes:
    """Return the bytes of the regular file *path*.

    Args:
        path: an absolute path.
        limit_bytes: the size up to which the file is read; a larger one costs one look.
        follow_links: whether links are followed; without, *path* is a resolved one and no part of it may be a
            link by now.

    Raises:
        FileAccessError: ``notFound``, ``isDirectory``, ``tooLarge``, ``changedSinceRead`` for a path that has
            become a link, or ``unreadable`` for anything else.
    """
    with open_regular(path, limit_bytes, follow_links=follow_links) as file:
        raw = file.read(limit_bytes + 1)
    _refuse_large(path, len(raw), limit_bytes)
    return raw


@contextmanager
def open_regular(
    path: Path, limit_bytes: int | None = None, *, follow_links: bool = True
) -> Iterator[BinaryIO]:
    """Open the regular file *path* to read its bytes; see :func:`read_bytes`, also for its errors."""
    try:
        with nullcontext((path, None)) if follow_links else hold_file(path) as (name, folder):
            status = os.stat(name, dir_fd=folder, follow_symlinks=follow_links)
            _refuse_special(path, status.st_mode)
            if limit_bytes is not None:
                _refuse_large(path, status.st_size, limit_bytes)
            flags = _OPEN_FLAGS if follow_links else _OPEN_FLAGS | _NO_FOLLOW
            descriptor = os.open(name, flags, dir_fd=folder)
        with open(descriptor, "rb", closefd=True) as file:
            # Checked again on the opened file: the name may stand for another one by now.
            _refuse_special(path, os.fstat(descriptor).st_mode)
            yield file
    except (FileNotFoundError, NotADirectoryError) as error:
        message = f"cannot read {path}: there is no such file"
        raise FileAccessError("notFound", message, hint="check the spelling") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            reason = "its links lead in a circle"
        hint = "ask for access to it" if isinstance(error, PermissionError) else "try another file"
        raise FileAccessError("unreadable", f"cannot read {path}: {reason}", hint=hint) from error


def _refuse_special(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise FileAccessError(
            "isDirectory", f"cannot read {path} as a file: it is a folder", hint="list it instead"
        )
    if not stat.S_ISREG(mode):
        what = next((name for is_kind, name in _SPECIAL if is_kind(mode)), "not a regular file")
        raise FileAccessError("unreadable", f"cannot read {path}: it is {what}", hint="read a regular file")


def _refuse_large(path: Path, size: int, limit_bytes: int) -> None:
    if size > limit_bytes:
        raise FileAccessError(
            "tooLarge",
            f"cannot read {path}: it has {size} bytes or more, the limit is {limit_bytes}",
            hint="search it, or print a part of it with a command",
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
