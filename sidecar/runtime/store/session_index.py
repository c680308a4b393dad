"""The list of the sessions in a folder: a line for each, kept in memory and in a file beside them.

The newest ``meta`` record of a session stands near the end of its file, so a list of 10,000 sessions would
open 10,000 files. The index keeps the line that was made of each file, together with the state in which the
file was: its times, its size and its number. The first page of a list looks at the states of all files, for
two microseconds each, and reads only files in another state. So the list is right after any write, copy or
removal of a file, by another daemon, by a user or in a crash, and nobody has to report them. Each further
page goes on in the order that was found then, and looks at the states of its own files alone.

A file that was changed a moment ago may change again without a new state, for the clocks of file systems are
coarse. Its line is used once and then read again.

The index file is written when enough lines have changed, and is no more than a faster start: with a wrong
checksum, of another format, or absent, all files are read again. Daemons of one folder may overwrite each
other's, because every line is believed only beside the state that it was made of. A line of a removed session
leaves the file with the session, or with the next list.
"""

from __future__ import annotations

import os
import time
import zlib
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from sidecar._internal.state_folder import read_state_file, replace_state_file
from sidecar._internal.values import Value
from sidecar.runtime.store.place import ListedSession, SessionQuery, key_of

T = TypeVar("T", bound=ListedSession)

FileState: TypeAlias = tuple[int, int, int, int]
"""The times of a file's last change, of content and of all else, in nanoseconds, its size and its number."""

_FORMAT: Final = 1
_NAME: Final = "index.json"
_MAX_BYTES: Final = 1 << 28
SETTLED_NS: Final = 100_000_000
"""A file whose last change is older than this does not change without a new state."""

_LEAST_UNSAVED: Final = 32
_UNSAVED_SHARE: Final = 64
"""The file is written when more than 32 lines and a 64th of all are missing in it."""


class _Known(Value, Generic[T]):
    """The *line* that was made of a file in *state*, None for a file that has none.

    *state* is None where the file may change without a new one.
    """

    state: FileState | None
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
        self._order: list[tuple[int, str, str]] = []
        self._changed: set[str] = set()
        self._saved: set[str] = set()
        self._unsaved: set[str] = set()

    def read(self, query: SessionQuery) -> list[T]:
        """Return the lines that *query* asks for, the same objects while their files do not change."""
        with self._lock:
            known = self._load()
            must_look = query.after is not None and bool(self._order)
            if not must_look:
                self._scan(known)
            end = len(self._order) if query.after is None else bisect_left(self._order, query.after)
            found: list[T] = []
            for at in range(end - 1, -1, -1):
                name = self._order[at][2]
                each = self._look(known, name) if must_look else known.get(name)
                if each is not None and each.line is not None and query.matches(each.line):
                    found.append(each.line)
                    if len(found) == query.limit:
                        break
            return found

    def forget(self, name: str) -> None:
        """Remove the line of a file that was removed, also from the index file."""
        with self._lock:
            known = self._load()
            if known.pop(name, None) is not None:
                self._changed.add(name)
            if name in self._saved:
                self._save(known)

    def _scan(self, known: dict[str, _Known[T]]) -> None:
        """Look at the states of all files, and bring the lines and their order up to date."""
        lost = set(known)
        for name, state in list_states(self._root, self._suffix):
            if self._update(known, name, state) is not None:
                lost.discard(name)
        for name in lost:
            del known[name]
        self._changed |= lost
        if self._changed:
            rows = [row for row in self._order if row[2] not in self._changed]
            lines = ((name, known[name].line) for name in self._changed if name in known)
            rows += [(*key_of(line), name) for name, line in lines if line is not None]
            self._order = sorted(rows)
            self._changed.clear()
        if lost & self._saved or len(self._unsaved) > _LEAST_UNSAVED + len(known) // _UNSAVED_SHARE:
            self._save(known)

    def _look(self, known: dict[str, _Known[T]], name: str) -> _Known[T] | None:
        """Return the line of the file *name* as it is now, None where there is no such file any more."""
        try:
            return self._update(known, name, state_of(os.stat(self._root / name)))
        except OSError:
            return None

    def _update(self, known: dict[str, _Known[T]], name: str, state: FileState) -> _Known[T] | None:
        """Return the line of a file in *state*, read if it is not known; None where it cannot be read."""
        found = known.get(name)
        if found is None or found.state != state:
            is_settled = max(state[:2]) <= self._now_ns() - SETTLED_NS
            try:
                found = _Known(state if is_settled else None, self._read_line(name))
            except OSError:
                return None
            known[name] = found
            self._changed.add(name)
            self._unsaved.add(name)
        return found

    def _save(self, known: Mapping[str, _Known[T]]) -> None:
        """Write the index file."""
        settled = {name: each for name, each in known.items() if each.state is not None}
        self._saved = set(settled)
        self._unsaved.clear()
        with suppress(OSError):
            replace_state_file(self._root / _NAME, self._head + encode_rows(settled))

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
                    self._changed = set(self._known)
        return self._known


def list_states(root: Path, suffix: str) -> list[tuple[str, FileState]]:
    """Return the names of the files in *root* that end in *suffix*, with their states."""
    found = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(root) as files:
        for file in files:
            if file.name.endswith(suffix):
                with suppress(OSError):
                    found.append((file.name, state_of(file.stat())))
    return found


def state_of(stat: os.stat_result) -> FileState:
    """Return the state of a file; on Windows without its number, which a folder does not tell there."""
    number = 0 if os.name == "nt" else stat.st_ino
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, number


def encode_rows(known: Mapping[str, _Known[T]]) -> bytes:
    """Return the lines of files with their checksum, as they stand in an index file."""
    rows = []
    for name, each in known.items():
        with suppress(UnicodeEncodeError):  # half a character in a title: that file is read again
            rows.append(msgspec.json.encode((name, each.state, each.line)))
    body = b"[%b]" % b",\n".join(rows)
    return b" %08x\n%b" % (zlib.crc32(body), body)
