"""The list of the sessions in a folder: a line for each, kept in memory and in a file beside them.

The newest ``meta`` record of a session stands near the end of its file, so a list of 10,000 sessions would
open 10,000 files. The index keeps the line that was made of each file, together with the state in which the
file was: its times, its size and its number. Every list looks at the states of all files, for two
microseconds each, and reads only files in another state. So the list is right after any write, copy or
removal of a file, by another daemon, by a user or in a crash, and nobody has to report them.

A file that was changed a moment ago may change again without a new state, for the clocks of file systems are
coarse. Its line is used once and not kept.

The index file is written when enough lines have changed, and is no more than a faster start: with a wrong
checksum, of another format, or absent, all files are read again. Daemons of one folder may overwrite each
other's, because every line is believed only beside the state that it was made of. A line of a removed session
leaves the file with the session, or with the next list.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from sidecar._internal.state_folder import read_state_file, replace_state_file

T = TypeVar("T")

FileState: TypeAlias = tuple[int, int, int, int]
"""The times of a file's last change, of content and of all else, in nanoseconds, its size and its number."""

_FORMAT: Final = 1
_NAME: Final = "index.json"
_MAX_BYTES: Final = 1 << 28
_SETTLED_NS: Final = 100_000_000
_LEAST_UNSAVED: Final = 32
_UNSAVED_SHARE: Final = 64
"""The file is written when more than 32 lines and a 64th of all are missing in it."""


@dataclass(frozen=True, slots=True)
class _Known(Generic[T]):
    """The *line* that was made of a file in *state*, None for a file that has none."""

    state: FileState
    line: T | None


class SessionIndex(Generic[T]):
    """The index of the session files in *root*, with lines of *kind*.

    *read_line* takes the name of a file and returns its line, None for a file that is not listed; it raises
    OSError for one that cannot be read. All methods block, and may be called in any thread.
    """

    def __init__(
        self,
        root: Path,
        kind: type[T],
        suffix: str,
        read_line: Callable[[str], T | None],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._root = root
        self._suffix = suffix
        self._read_line = read_line
        self._now_ns = now_ns
        self._head = b"%d %b" % (_FORMAT, ",".join(kind.__annotations__).encode())
        rows = list[tuple[str, FileState, kind | None]]  # type: ignore[valid-type]  # known at run time
        self._decoder = msgspec.json.Decoder(rows)
        self._lock = Lock()
        self._known: dict[str, _Known[T]] | None = None
        self._saved: set[str] = set()
        self._unsaved: set[str] = set()

    def read(self) -> list[T]:
        """Return the lines of all files as they are now; the same objects while their files do not change."""
        with self._lock:
            known = self._load()
            found: dict[str, _Known[T]] = {}
            lines: list[T] = []
            for name, state in list_states(self._root, self._suffix):
                before = known.get(name)
                if before is None or before.state != state:
                    try:
                        before = _Known(state, self._read_line(name))
                    except OSError:
                        continue
                    self._unsaved.add(name)
                if before.line is not None:
                    lines.append(before.line)
                found[name] = before
            has_lost = not self._saved <= found.keys()
            n_most = _LEAST_UNSAVED + len(found) // _UNSAVED_SHARE
            self._keep(found, is_due=has_lost or len(self._unsaved) > n_most)
            return lines

    def forget(self, name: str) -> None:
        """Remove the line of a file that was removed, also from the index file."""
        with self._lock:
            known = self._load()
            known.pop(name, None)
            self._keep(known, is_due=name in self._saved)

    def _keep(self, found: dict[str, _Known[T]], *, is_due: bool) -> None:
        """Keep the lines of files that have settled, in the index file too where that is due."""
        latest = self._now_ns() - _SETTLED_NS
        for name in [each for each in self._unsaved if each in found]:
            if max(found[name].state[:2]) > latest:
                del found[name]
        self._known = found
        if is_due:
            self._saved = set(found)
            self._unsaved.clear()
            with suppress(OSError):
                replace_state_file(self._root / _NAME, self._head + encode_rows(found))

    def _load(self) -> dict[str, _Known[T]]:
        """Return the known lines, from the index file the first time; none where it cannot be used."""
        if self._known is None:
            self._known = {}
            with suppress(OSError, msgspec.DecodeError):
                head, _, body = read_state_file(self._root / _NAME, _MAX_BYTES).partition(b"\n")
                if head == b"%b %08x" % (self._head, zlib.crc32(body)):
                    rows: Sequence[tuple[str, FileState, T | None]] = self._decoder.decode(body)
                    self._known = {name: _Known(state, line) for name, state, line in rows}
                    self._saved = set(self._known)
        return self._known


def list_states(root: Path, suffix: str) -> list[tuple[str, FileState]]:
    """Return the names of the files in *root* that end in *suffix*, with their states."""
    found = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(root) as files:
        for file in files:
            if file.name.endswith(suffix):
                try:
                    stat = file.stat()
                except OSError:
                    continue
                state = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino)
                found.append((file.name, state))
    return found


def encode_rows(known: Mapping[str, _Known[T]]) -> bytes:
    """Return the lines of files with their checksum, as they stand in an index file."""
    rows = []
    for name, each in known.items():
        with suppress(UnicodeEncodeError):  # half a character in a title: that file is read again
            rows.append(msgspec.json.encode((name, each.state, each.line)))
    body = b"[%b]" % b",\n".join(rows)
    return b" %08x\n%b" % (zlib.crc32(body), body)
