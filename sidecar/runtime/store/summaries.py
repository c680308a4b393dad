"""A session at a glance: the newest ``meta`` record of its file, found without reading the file.

Meta records are searched from the end, in steps that grow; a session that writes its meta once a turn is read
64 KiB deep at most. Blocking; the store brings it to a worker thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidecar.runtime.store.lines import parse_line

__all__ = ["StoredSummary", "read_summary"]

_FIRST_STEP: Final = 65_536
_GROWTH: Final = 8
_META: Final = b'{"type":"meta"'


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """*meta* is the newest meta record, None where there is none; *modified_ms* is in epoch milliseconds."""

    session_id: str
    meta: Mapping[str, Any] | None
    modified_ms: int
    size_bytes: int


def read_summary(path: Path, session_id: str) -> StoredSummary | None:
    """Return the summary of the file *path*, or None when it cannot be read."""
    try:
        with path.open("rb") as file:
            stat = path.stat()
            step = _FIRST_STEP
            while True:
                start = max(0, stat.st_size - step)
                file.seek(start)
                meta = _newest_meta(file.read(stat.st_size - start), is_whole=start == 0)
                if meta is not None or start == 0:
                    return StoredSummary(session_id, meta, stat.st_mtime_ns // 1_000_000, stat.st_size)
                step *= _GROWTH
    except OSError:
        return None


def _newest_meta(data: bytes, *, is_whole: bool) -> Mapping[str, Any] | None:
    """Return the last meta record among the lines of *data*, whose first line may lack its beginning."""
    end = len(data)
    while (start := data.rfind(_META, 0, end)) >= 0:
        if (start == 0 and is_whole) or data[start - 1 : start] == b"\n":
            line_end = data.find(b"\n", start)
            record = parse_line(data[start : line_end if line_end >= 0 else len(data)])
            if record is not None:
                return record
        end = start
    return None
