"""The one thread that owns an index, and the way to it from an event loop.

SQLite connections belong to the thread that made them; so all work on the index is put to one thread, in the
order it was asked for, and the event loop never waits on a disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from sidecar.rooms.knowledge.index import TextIndex, is_broken, open_index, set_aside

__all__ = ["IndexThread"]

T = TypeVar("T")


class IndexThread:
    """The index at *path* (None: in memory), opened when it is first needed.

    *on_lost* is told, in the event loop, that what was in the index is gone and must be given again: the file
    was broken or of another version. The work that met it was done on the new, empty index.
    """

    def __init__(self, path: Path | None, on_lost: Callable[[], None]) -> None:
        self._path = path
        self._on_lost = on_lost
        self._index: TextIndex | None = None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="knowledge-index")

    async def call(self, work: Callable[[TextIndex], T]) -> T:
        """Do *work* in the index's thread and return what it returns, or raise what it raises."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._run, work, loop)

    async def close(self) -> None:
        """Close the index after the work already asked for, and end the thread."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self._shut)
        self._executor.shutdown()

    def _run(self, work: Callable[[TextIndex], T], loop: asyncio.AbstractEventLoop) -> T:
        try:
            return work(self._opened(loop))
        except sqlite3.DatabaseError as error:
            if self._path is None or not is_broken(error):
                raise
            self._shut()
            set_aside(self._path)
        loop.call_soon_threadsafe(self._on_lost)
        return work(self._opened(loop))

    def _opened(self, loop: asyncio.AbstractEventLoop) -> TextIndex:
        if self._index is None:
            self._index, lost = open_index(self._path)
            if lost:
                loop.call_soon_threadsafe(self._on_lost)
        return self._index

    def _shut(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
