"""The reads of one session's model, and whether each file is still as it was read.

Compares hashes that others have computed; reads no file itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from sidecar.workspace.contract import FileSource, FileView, ReadRecord, StaleFile

T = TypeVar("T")


class _StoredRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A record as it is stored."""

    path: str
    uri: str
    hash: str
    source: FileSource
    call_id: str
    version: int | None = None
    ranges: tuple[tuple[int, int | None], ...] = ()


class _Forgotten(msgspec.Struct, frozen=True):
    """The path of a dropped record, as it is stored."""

    path: str
    gone: Literal[True]


@dataclass(slots=True)
class _Entry:
    """A record, and whether the file is known to differ from it."""

    record: ReadRecord
    is_stale: bool = False


class ReadLedger:
    """The read ledger of one session.

    Args:
        on_stale: called once when a file changes after it was read.
        on_fresh: called with the URI of such a file when that is over: its text is again the one that was
            read, it was read anew, or it counts as not read.
        real_path: resolves a path, so that spellings of one file are one file.
        on_read: called with every path that is recorded or loaded, so that its file can be compared.
    """

    def __init__(
        self,
        on_stale: Callable[[StaleFile], None],
        on_fresh: Callable[[str], None],
        *,
        real_path: Callable[[Path], Path],
        on_read: Callable[[Path], None],
    ) -> None:
        self.on_stale = on_stale
        self.on_fresh = on_fresh
        self._real_path = real_path
        self._on_read = on_read
        self._entries: dict[Path, _Entry] = {}
        self._news: dict[Path, None] = {}
        self._above: set[Path] = set()

    def record(
        self, view: FileView, *, call_id: str, first_line: int = 1, line_count: int | None = None
    ) -> None:
        """Remember that the model has seen (this range of) *view*; a newer hash replaces older ranges."""
        seen: tuple[tuple[int, int | None], ...] = ((first_line, line_count),)
        before = self._entries.pop(view.path, None)
        if before is not None and before.record.hash == view.hash:
            seen = (before.record.ranges or ((1, None),)) + seen
        record = ReadRecord(
            view.path, view.uri, view.hash, view.source, view.version, call_id, merge_ranges(seen)
        )
        self._put(record)
        self._note(view.path)
        self._take_back(before)
        # A change between the view and this record went unnoticed: compare once more.
        self._on_read(view.path)

    def get(self, path: Path) -> ReadRecord | None:
        """Return the record of *path*, or None when it was not read."""
        entry = self._entries.get(self._real_path(path))
        return None if entry is None else entry.record

    def files(self) -> Sequence[ReadRecord]:
        """Return every record, least recently read first."""
        return tuple(entry.record for entry in self._entries.values())

    def is_stale(self, path: Path) -> bool:
        """Whether the resolved *path* was read and is known to have changed since."""
        entry = self._entries.get(path)
        return entry is not None and entry.is_stale

    def forget(self, paths: Iterable[Path]) -> None:
        """Drop the records of *paths*."""
        for path in map(self._real_path, paths):
            entry = self._entries.pop(path, None)
            if entry is not None:
                self._note(path)
                self._take_back(entry)

    def dump(self) -> list[dict[str, Any]]:
        """Return the records as JSON values, for a store that has none of them."""
        return [_to_json(entry.record) for entry in self._entries.values()]

    def take_news(self) -> list[dict[str, Any]]:
        """Return as JSON values the records made and dropped since the last call, or since the load."""
        news, self._news = self._news, {}
        found = ((path, self._entries.get(path)) for path in news)
        return [_gone(path) if entry is None else _to_json(entry.record) for path, entry in found]

    def load(self, records: Iterable[Any]) -> None:
        """Replace the records by a :meth:`dump` and the news after it; malformed ones are left out."""
        self._entries, self._news, self._above = {}, {}, set()
        for raw in records:
            if (gone := _converted(raw, _Forgotten)) is not None:
                self._entries.pop(Path(gone.path), None)
            elif (stored := _converted(raw, _StoredRecord)) is not None:
                record = _from_stored(stored)
                self._entries.pop(record.path, None)
                self._put(record)
        for path in self._entries:
            self._on_read(path)

    def below(self, path: Path) -> tuple[Path, ...]:
        """Return the files that were read at the resolved *path* or, where it is a folder, below it."""
        if path in self._entries:
            return (path,)
        return tuple(read for read in self._entries if path in read.parents) if path in self._above else ()

    def holds(self, path: Path) -> bool:
        """Whether the resolved *path* was read; may be called from any thread."""
        return path in self._entries

    def compare(self, path: Path, now: FileView | None) -> None:
        """Compare the record of *path* with its view *now*; None when it is gone or not readable text."""
        entry = self._entries.get(path)
        if entry is None:
            return
        now_hash = None if now is None else now.hash
        was_stale, entry.is_stale = entry.is_stale, now_hash != entry.record.hash
        if was_stale and not entry.is_stale:
            self.on_fresh(entry.record.uri)
        elif entry.is_stale and not was_stale:
            source: FileSource = "disk" if now is None else now.source
            self.on_stale(StaleFile(path, entry.record.uri, entry.record.hash, now_hash, source))

    def _put(self, record: ReadRecord) -> None:
        self._entries[record.path] = _Entry(record)
        # Never taken back: a folder too many costs a look, and nearly all that changes is in none of them.
        self._above.update(record.path.parents)

    def _note(self, path: Path) -> None:
        """Let *path* be the newest of the news."""
        self._news.pop(path, None)
        self._news[path] = None

    def _take_back(self, entry: _Entry | None) -> None:
        """Report a stale *entry* as fresh: its record has been replaced or dropped."""
        if entry is not None and entry.is_stale:
            self.on_fresh(entry.record.uri)


def merge_ranges(ranges: Iterable[tuple[int, int | None]]) -> tuple[tuple[int, int | None], ...]:
    """Return *ranges* of lines (first, count; a count of None reaches the end) in order and joined.

    The whole file is the empty tuple.

    >>> merge_ranges([(5, 5), (1, 4), (20, None)])
    ((1, 9), (20, None))
    >>> merge_ranges([(1, 10), (8, None)])
    ()
    """
    merged: list[tuple[int, float]] = []
    for start, end in sorted((first, inf if count is None else first + count) for first, count in ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    # Nothing seen is a range of no lines, for no range at all means the whole.
    merged = [each for each in merged if each[0] < each[1]] or merged[:1]
    if merged == [(1, inf)]:
        return ()
    return tuple((start, None if end == inf else int(end) - start) for start, end in merged)


def _to_json(record: ReadRecord) -> dict[str, Any]:
    stored = _StoredRecord(
        path=str(record.path),
        uri=record.uri,
        hash=record.hash,
        source=record.source,
        call_id=record.call_id,
        version=record.version,
        ranges=record.ranges,
    )
    built: dict[str, Any] = msgspec.to_builtins(stored)
    return built | {"ranges": [list(pair) for pair in record.ranges]}


def _gone(path: Path) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(_Forgotten(str(path), True))
    return built


def _converted(raw: Any, kind: type[T]) -> T | None:
    try:
        return msgspec.convert(raw, kind)
    except ValueError:  # no value of that type, or half a character where a known word should stand
        return None


def _from_stored(stored: _StoredRecord) -> ReadRecord:
    return ReadRecord(
        Path(stored.path),
        stored.uri,
        stored.hash,
        stored.source,
        stored.version,
        stored.call_id,
        stored.ranges,
    )
