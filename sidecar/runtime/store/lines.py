"""One session file as lines: appended whole or not at all, read as far as they go.

An append is one write and one fsync. A line that a crash cut off is moved aside by the next append, never by
a reader. Blocking; the callers bring it to a worker thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["Line", "append_lines", "parse_line", "read_lines", "torn_path"]

_BLOCK: Final = 65_536
_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Line:
    """One line that is not blank: its number from 1, its record, or None when it holds no JSON object.

    *is_torn*: it is the last one, has no end, and cannot be read.
    """

    number: int
    record: dict[str, Any] | None
    is_torn: bool = False


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of *path*; none when there is no such file. Other ``OSError`` get out."""
    try:
        raw_lines = path.read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return
    for number, raw in enumerate(raw_lines, start=1):
        if raw.strip():
            record = parse_line(raw)
            yield Line(number, record, is_torn=record is None and number == len(raw_lines))


def parse_line(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object of one line, or None."""
    try:
        value = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def torn_path(path: Path) -> Path:
    """Return where lines go that a crash cut off."""
    return path.with_name(f"{path.name}.torn")


def append_lines(path: Path, data: bytes) -> None:
    """Append *data*, whole lines, and wait until it is on disk; make folder and file when they are missing.

    Raises:
        OSError: the file is as long as it was, as far as the disk lets it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    is_new = not path.exists()
    fd = os.open(path, _OPEN_FLAGS, 0o600)
    try:
        size = _mend_end(fd, path)
        try:
            _write_all(fd, data)
            os.fsync(fd)
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, size)
            raise
    finally:
        os.close(fd)
    if is_new:
        _sync_folder(path.parent)


def _mend_end(fd: int, path: Path) -> int:
    """Make the file end with a whole line, and return its size.

    A last line that is whole but for its newline gets one; any other is moved aside.
    """
    size = os.fstat(fd).st_size
    if size == 0 or _read_at(fd, size - 1, 1) == b"\n":
        return size
    start, tail = _last_line(fd, size)
    if parse_line(tail) is not None:
        _write_all(fd, b"\n")
        return size + 1
    aside = os.open(torn_path(path), _OPEN_FLAGS, 0o600)
    try:
        _write_all(aside, tail + b"\n")
    finally:
        os.close(aside)
    os.ftruncate(fd, start)
    return start


def _last_line(fd: int, size: int) -> tuple[int, bytes]:
    """Return where the last line starts, and the line."""
    start, tail = size, b""
    while start > 0 and b"\n" not in tail:
        n_bytes = min(_BLOCK, start)
        start -= n_bytes
        tail = _read_at(fd, start, n_bytes) + tail
    cut = tail.rfind(b"\n") + 1
    return start + cut, tail[cut:]


def _read_at(fd: int, offset: int, n_bytes: int) -> bytes:
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, n_bytes)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync_folder(folder: Path) -> None:
    """Put the new file's name on disk too; not every system can, and then its own rules hold."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
