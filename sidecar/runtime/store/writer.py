"""The one writer of a session's file: lines in the order they came, off the event loop.

Lines that could not be written wait and go first with the next write, so nothing is lost and nothing
overtakes. It holds no file open between writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from sidecar.runtime.store.errors import StoreUnavailable
from sidecar.runtime.store.lines import append_lines

__all__ = ["Append", "LineWriter", "append_nowhere", "append_to"]

Append: TypeAlias = Callable[[bytes], None]
"""Writes whole lines. Contract: blocks until they are on disk; all or, raising OSError, none of them."""


def append_to(path: Path) -> Append:
    """Return the append to the file *path*."""
    return partial(append_lines, path)


def append_nowhere(data: bytes) -> None:
    """Keep nothing: the append of a session that is not to be stored."""


class LineWriter:
    """Writes the lines of one session."""

    def __init__(self, session_id: str, append: Append) -> None:
        self._session_id = session_id
        self._append = append
        self._waiting: list[bytes] = []
        self._turn = asyncio.Lock()
        self._writes: set[asyncio.Task[None]] = set()

    @property
    def n_waiting(self) -> int:
        """How many lines are not on disk yet."""
        return len(self._waiting)

    def hold(self, lines: Sequence[bytes]) -> None:
        """Let *lines* wait for the next write."""
        self._waiting.extend(lines)

    async def write(self, lines: Sequence[bytes] = ()) -> None:
        """Write what waits, then *lines*; on disk when this returns. One write, one fsync.

        Cancelling the caller does not cancel the write.

        Raises:
            StoreUnavailable: they wait for the next write.
        """
        self.hold(lines)
        write = asyncio.ensure_future(self._drain())
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)
        await asyncio.shield(write)

    async def settle(self) -> None:
        """Wait for the writes that run, then write what still waits; raises as :meth:`write`."""
        await asyncio.gather(*self._writes, return_exceptions=True)
        if self._waiting:
            await self.write()

    async def abandon(self) -> None:
        """Drop what waits, and wait for the writes that run."""
        self._waiting.clear()
        await asyncio.gather(*self._writes, return_exceptions=True)

    async def _drain(self) -> None:
        async with self._turn:
            batch = tuple(self._waiting)
            if not batch:
                return
            try:
                await asyncio.to_thread(self._append, b"".join(batch))
            except OSError as error:
                raise StoreUnavailable(self._session_id, error) from error
            del self._waiting[: len(batch)]
