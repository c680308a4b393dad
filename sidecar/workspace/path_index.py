"""The paths of a folder, for completion: walked in a thread, kept, and ranked against a few letters.

The problem: every key of a prompt may ask for paths, and a folder may have 50,000 files, which takes a second
to walk. So the walk runs once in a thread, and a question is answered from the paths that it has by then.
The list is used while it is walked anew, which happens only when it is old: older than two seconds, and than
twenty times the time that the walk took. Ignored files are never in it, and no file is opened.

Ranking has five classes: the name begins with the letters, the path begins with them, the name has them, the
path has them, the path has them in their order with others between. In a class the shorter path comes first.
For example ``pars`` finds ``parser.py``, ``src/parser.py``, ``src/sparse.c`` and ``plan/areas.md`` in this
order. The cost is one search of each path, 10 to 40 ms for 50,000; it belongs in a thread.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import Final

from sidecar.workspace.ignore import is_folder, walk

MAX_PATHS: Final = 200_000
_FIRST_WAIT_S: Final = 0.5
_MIN_AGE_S: Final = 2.0
_COSTS: Final = 20.0


class PathIndex:
    """The files and folders below *folder*, relative to it; a folder ends with a slash.

    Attributes:
        is_walking: whether the list may be incomplete.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: list[str] = []
        self._walked_at = float("-inf")
        self._took_s = 0.0
        self._walk: asyncio.Future[None] | None = None

    @property
    def is_walking(self) -> bool:
        """Whether the first walk is still under way."""
        return self._walk is not None and self._walked_at == float("-inf")

    async def find(self, letters: str, limit: int) -> Sequence[str]:
        """Return the *limit* best paths for *letters*. The first call waits half a second at most."""
        age_s = time.monotonic() - self._walked_at
        if self._walk is None and age_s > max(_MIN_AGE_S, _COSTS * self._took_s):
            self._walk = asyncio.ensure_future(asyncio.to_thread(self.walk))
            self._walk.add_done_callback(self.end_walk)
        if self.is_walking and self._walk is not None:
            await asyncio.wait((self._walk,), timeout=_FIRST_WAIT_S)
        return await asyncio.to_thread(rank_paths, tuple(self._paths), letters, limit)

    def walk(self) -> None:
        """Read the folder anew; takes up to seconds."""
        started = time.monotonic()
        is_first = self._walked_at == float("-inf")
        found = self._paths if is_first else []
        n_prefix = len(os.path.join(self._folder, ""))
        for entry in walk(self._folder, self._folder, cap=MAX_PATHS):
            path = entry.path[n_prefix:]
            path = path if os.sep == "/" else path.replace(os.sep, "/")
            found.append(f"{path}/" if is_folder(entry) else path)
        self._paths, self._walked_at = found, time.monotonic()
        self._took_s = self._walked_at - started

    def end_walk(self, walk: asyncio.Future[None]) -> None:
        """Note that *walk* has ended, and how does not matter: the next question walks again."""
        self._walk = None
        if not walk.cancelled():
            walk.exception()


class PathIndexes:
    """The indexes of some folders, the least recently used ones dropped."""

    def __init__(self, n_kept: int = 8) -> None:
        self._n_kept = n_kept
        self._indexes: dict[Path, PathIndex] = {}

    def of(self, folder: Path) -> PathIndex:
        """Return the index of *folder*."""
        index = self._indexes.pop(folder, None) or PathIndex(folder)
        self._indexes[folder] = index
        while len(self._indexes) > self._n_kept:
            del self._indexes[next(iter(self._indexes))]
        return index


def rank_paths(paths: Sequence[str], letters: str, limit: int) -> list[str]:
    """Return the *limit* best of *paths* for *letters*, in any case; without letters the highest ones.

    >>> rank_paths(["plan/areas.md", "src/sparse.c", "src/parser.py", "parser.py", "x"], "pars", 9)
    ['parser.py', 'src/parser.py', 'src/sparse.c', 'plan/areas.md']
    """
    wanted = letters.lower()
    if not wanted:
        return nsmallest(limit, paths, key=lambda path: (path.rstrip("/").count("/"), path))
    ranked = list(find_whole(paths, wanted))
    if len(ranked) < limit:
        found = {path for *_, path in ranked}
        scattered = re.compile("[^\n]*?".join(map(re.escape, wanted)), re.IGNORECASE)
        ranked += [
            (4, len(path), path) for path in paths if path not in found and scattered.search(path) is not None
        ]
    return [path for *_, path in nsmallest(limit, ranked)]


def find_whole(paths: Sequence[str], wanted: str) -> Iterator[tuple[int, int, str]]:
    """Yield the class, the length and the path of each path that has *wanted* in one piece."""
    for path in paths:
        lower = path.lower()
        if wanted in lower:
            name = lower.rstrip("/").rpartition("/")[2]
            starts = (name.startswith(wanted), lower.startswith(wanted), wanted in name, True)
            yield starts.index(True), len(path), path
