"""The files a demonstration works on: chosen from a folder, changed for a while, put back as they were."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from sidecar.workspace.ignore import walk

__all__ = ["DemoFiles", "added_on_disk", "choose_files", "content_hash"]

_LEAST_BYTES: Final = 400
_SMALL_BYTES: Final = 1_500
_MOST_BYTES: Final = 9_000
_LOOK_AT: Final = 5_000
_WORDS: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{5,}")
_PROSE: Final = frozenset({".md", ".rst", ".txt"})


@dataclass(frozen=True, slots=True)
class DemoFiles:
    """Files of a folder to show things on.

    *on_disk* is changed on disk, *in_buffer* only in an unsaved buffer; both are small beside *other*, so
    that a compaction can bring them back and still gain. *more* fill a window, the large ones first.
    """

    folder: Path
    on_disk: Path
    in_buffer: Path
    other: Path
    more: tuple[Path, ...]

    def name(self, file: Path) -> str:
        """Return *file* as the user would write it, and so that nobody takes it for anything but a path."""
        path = file.relative_to(self.folder).as_posix()
        return path if "/" in path else f"./{path}"


def choose_files(folder: Path) -> DemoFiles | None:
    """Return files of *folder* to show things on, None when it has fewer than three of a good size."""
    entries = walk(folder, folder, cap=_LOOK_AT)
    fitting = [path for entry in entries if _fits(path := Path(entry.path))]
    if len(fitting) < 3:
        return None
    small = _by_distance(fitting, _SMALL_BYTES)
    # Prose first for the change on disk: nothing rebuilds itself because of it.
    on_disk = next((path for path in small if path.suffix.lower() in _PROSE), small[0])
    rest = [path for path in small if path != on_disk]
    in_buffer = next((path for path in rest if path.suffix.lower() not in _PROSE), rest[0])
    other = next(path for path in _by_distance(rest, _MOST_BYTES) if path != in_buffer)
    more = tuple(path for path in reversed(_by_distance(rest, 0)) if path not in (in_buffer, other))
    return DemoFiles(folder, on_disk, in_buffer, other, more)


def _by_distance(paths: list[Path], size_bytes: int) -> list[Path]:
    """Return *paths*, those nearest to a size first."""
    return sorted(paths, key=lambda path: (abs(path.stat().st_size - size_bytes), str(path)))


@contextmanager
def added_on_disk(file: Path, line: str) -> Iterator[None]:
    """Put *line* in front of *file* for a while; afterwards its bytes and times are as before."""
    before, times = file.read_bytes(), file.stat()
    try:
        file.write_bytes(line.encode() + b"\n" + before)
        yield
    finally:
        file.write_bytes(before)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def content_hash(text: str) -> str:
    """Return the hash under which the daemon knows *text*."""
    return "sha256:" + sha256(text.encode()).hexdigest()


def _fits(path: Path) -> bool:
    try:
        if not path.is_file() or not _LEAST_BYTES <= path.stat().st_size <= _MOST_BYTES:
            return False
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return False
    return "\0" not in text and bool(_WORDS.search(text))
