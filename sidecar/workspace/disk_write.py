"""Writing a text file whole or not at all: a temporary file beside it, synced, checked, renamed.

Runs in worker threads; knows nothing of buffers. After any failure the file is the old one or the new one,
and the temporary file is gone. A process that is killed leaves it; the next write in the folder removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from sidecar._internal.values import Value
from sidecar.workspace.contract import FileAccessError, FileBytes
from sidecar.workspace.encodings import encode_text
from sidecar.workspace.files import BOM, DiskText, hold_file, read_text, text_hash

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_TOO_LARGE = "too large to be what was read"
_TEMPORARY = re.compile(r"\.sidecar-[0-9a-f]{32}\.tmp")
_LONGEST_WRITE_S = 60.0
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class _Place(Value):
    """A path to write, as ``os`` takes it: a *name* in a *folder* that is held open, if there can be one."""

    path: Path
    name: str
    folder: int | None


class _FileState(Value):
    """The file at a path before a write: its hash, codec and status; all None for no file."""

    hash: str | None = None
    codec: str | None = None
    status: os.stat_result | None = None


def write_text(
    path: Path, text: str, expected_hash: str | None, limit_bytes: int, original: FileBytes | None = None
) -> DiskText:
    """Make *text* the content of the resolved *path*, and return it as it stands then.

    Missing parent folders are created; mode, owner, byte order mark and encoding of an existing file stay.

    Args:
        path: a resolved path.
        text: the new content.
        expected_hash: the hash of the file as it was read, None for no file; it is checked before the work
            and once more right before the rename.
        limit_bytes: a larger file was never read, so its content cannot be the expected one.
        original: a kept file, the bytes and mode of which are restored; *text* is its text.

    Raises:
        FileAccessError: ``changedSinceRead``, ``isDirectory``, ``binary``, ``unwritable`` or ``diskFull``.
    """
    body = text.removeprefix(BOM)
    codec = "utf-8-sig" if text.startswith(BOM) else "utf-8"
    try:
        with hold_file(path, create_folders=expected_hash is None) as (name, folder):
            place = _Place(path, name, folder)
            before = _file_state(place, limit_bytes)
            _refuse_changed(path, before, expected_hash)
            if before.status is not None and not os.access(name, os.W_OK, dir_fd=folder):
                message = f"cannot write {path}: it is read-only"
                raise FileAccessError("unwritable", message, hint="make it writable")
            codec = before.codec or codec
            raw = encode_text(body, codec) if original is None else original.raw
            if original is not None and original.codec is not None:
                codec = original.codec
            _replace(
                place,
                raw,
                before,
                None if original is None else original.mode,
                lambda: _refuse_changed(path, _file_state(place, limit_bytes), expected_hash),
            )
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        message = f"cannot write {path}: its encoding, {codec}, has no {character!r}"
        hint = "use other characters, or ask the user to convert the file to UTF-8"
        if "\ud800" <= character <= "\udfff":
            message = f"cannot write {path}: the text holds half a character (a lone surrogate)"
            hint = "send the whole character"
        raise FileAccessError("unwritable", message, hint=hint) from error
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):  # its folder is gone as well
            _refuse_changed(path, _FileState(), expected_hash)
        message = f"cannot write {path}: {error.strerror if isinstance(error, OSError) else error}"
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            raise FileAccessError("diskFull", message, hint="free space, then try again") from error
        raise FileAccessError("unwritable", message, hint="choose a path that can be written") from error
    return DiskText(body, text_hash(body), len(raw), codec)


def delete_text(path: Path, expected_hash: str, limit_bytes: int) -> None:
    """Delete the file at the resolved *path*.

    Raises:
        FileAccessError: ``changedSinceRead`` when its content has another hash, or ``unwritable``.
    """
    try:
        with hold_file(path) as (name, folder):
            _refuse_changed(path, _file_state(_Place(path, name, folder), limit_bytes), expected_hash)
            os.unlink(name, dir_fd=folder)
    except OSError as error:
        message = f"cannot delete {path}: {error.strerror}"
        raise FileAccessError("unwritable", message, hint="ask the user to delete it") from error


def _file_state(place: _Place, limit_bytes: int) -> _FileState:
    path = place.path
    try:
        status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return _FileState()
    if stat.S_ISDIR(status.st_mode):
        raise FileAccessError("isDirectory", f"cannot write {path}: it is a folder", hint="name a file in it")
    if status.st_size > limit_bytes:
        return _FileState(_TOO_LARGE, None, status)
    now = read_text(path, limit_bytes, follow_links=False)
    return _FileState(now.hash, now.codec, status)


def _refuse_changed(path: Path, now: _FileState, expected_hash: str | None) -> None:
    if now.hash == expected_hash:
        return
    found = "is gone" if now.hash is None else "exists" if expected_hash is None else "has changed"
    raise FileAccessError(
        "changedSinceRead",
        f"cannot write {path}: the file {found}, which is not what was last read",
        hint="read it again, then decide",
    )


def _replace(
    place: _Place, raw: bytes, before: _FileState, mode: int | None, refuse_changed: Callable[[], None]
) -> None:
    folder = place.folder
    temporary = f".sidecar-{uuid.uuid4().hex}.tmp"
    if folder is None:
        temporary = str(place.path.parent / temporary)
    try:
        with open(os.open(temporary, _CREATE_FLAGS, 0o666, dir_fd=folder), "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        if before.status is not None:
            # Keeping the owner takes privileges that most daemons lack, and need not have.
            with contextlib.suppress(PermissionError):
                if hasattr(os, "chown"):
                    os.chown(temporary, before.status.st_uid, before.status.st_gid, dir_fd=folder)
            mode = stat.S_IMODE(before.status.st_mode) if mode is None else mode
        if mode is not None:
            os.chmod(temporary, mode, dir_fd=folder)
        refuse_changed()
        if before.status is None:
            _move_to_free_name(temporary, place)
        else:
            os.replace(temporary, place.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
    parent = place.path.parent
    if os.name == "nt":
        _remove_leftovers(os.listdir(parent), lambda name: str(parent / name), None)
        return
    # The rename has happened; a file system that cannot sync folders keeps it as well as it can.
    with contextlib.suppress(OSError):
        descriptor = os.open(parent if folder is None else ".", os.O_RDONLY, dir_fd=folder)
        try:
            os.fsync(descriptor)
            _remove_leftovers(os.listdir(descriptor), str, descriptor)
        finally:
            os.close(descriptor)


def _remove_leftovers(names: Iterable[str], locate: Callable[[str], str], folder: int | None) -> None:
    """Remove temporary files that a process which was killed has left, and none of a write under way.

    Args:
        names: the files of the folder.
        locate: returns the path of such a name, as ``os`` takes it together with *folder*.
        folder: the open folder, None where the system has none.
    """
    for name in filter(_TEMPORARY.fullmatch, names):
        with contextlib.suppress(OSError):
            status = os.stat(locate(name), dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > _LONGEST_WRITE_S:
                os.unlink(locate(name), dir_fd=folder)


def _move_to_free_name(temporary: str, place: _Place) -> None:
    """Give the new file its name unless somebody took it meanwhile: neither call replaces a file."""
    try:
        if os.name == "nt":
            os.rename(temporary, place.name)
        else:
            os.link(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except FileExistsError:
        raise FileAccessError(
            "changedSinceRead", f"cannot create {place.path}: it exists by now", hint="read it, then decide"
        ) from None
    except OSError:  # a file system without hard links
        os.replace(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
