"""Bounds of a process on its clients together: on connections without a proof, and on bytes that wait.

Each connection has limits of its own. They add up: a hundred clients that read nothing hold a hundred times
the limit of one, and silent strangers take the places of clients. So all connections of a process share one
object for each of the two bounds.

:class:`Strangers` bounds connections that have not shown a token. Of too many, the one that has waited
longest is closed: a client shows its token at once, and strangers that came before cannot keep it out.

:class:`HeldBytes` bounds the bytes that wait in memory: messages that are not whole yet, and messages that
are not read. Neither can be dropped alone, as each request has its answer. When all together pass the bound,
one connection ends: the first one, by the time since its bytes moved last, that holds the average or more.
A client that takes a long answer bit by bit stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Struct

HELD_BYTES: Final = 256 * 1024 * 1024
"""The most bytes that wait for all clients of a process; one message may have a quarter of it."""

_log = logging.getLogger("sidecar.transport")


class Strangers:
    """The connections that have not proved yet to belong here.

    Args:
        most: the most of them at a time.
        seconds: the time that each has.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._waiting: dict[asyncio.Timeout, None] = {}

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[None]:
        """Count the connection inside the block. Raises TimeoutError there when its time is over.

        That is also the case when too many others have come since.
        """
        if len(self._waiting) >= self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.reschedule(0)
        timeout = asyncio.timeout(self._seconds)
        try:
            async with timeout:
                self._waiting[timeout] = None
                yield
        finally:
            self._waiting.pop(timeout, None)


class Account(Struct, eq=False):
    """The bytes that wait in one place of one connection; *drop* ends the connection."""

    held: HeldBytes
    drop: Callable[[], None]
    n_bytes: int = 0
    is_over: bool = False

    def set(self, n_bytes: int) -> None:
        """Note that *n_bytes* wait now."""
        if n_bytes != self.n_bytes and not self.is_over:
            self.held.change(self, n_bytes)


class HeldBytes:
    """The bytes that wait in a process for all its clients, at most *limit*."""

    def __init__(self, limit: int = HELD_BYTES) -> None:
        self._limit = limit
        self._total = 0
        self._waiting: dict[Account, None] = {}  # the one that has not moved for longest comes first

    def open(self, drop: Callable[[], None]) -> Account:
        """Return an account for one connection, which *drop* ends; it is called from the event loop."""
        return Account(self, drop)

    def change(self, account: Account, n_bytes: int) -> None:
        """Note that *n_bytes* wait for *account*, and end a connection where all hold too much."""
        has_moved = n_bytes < account.n_bytes
        self._total += n_bytes - account.n_bytes
        account.n_bytes = n_bytes
        if has_moved:
            self._waiting.pop(account, None)
        if n_bytes:
            self._waiting[account] = None
        if self._total > self._limit:
            average = self._total / len(self._waiting)
            stuck = next(each for each in self._waiting if each.n_bytes >= average)
            _log.warning("a client is dropped, for which %d of %d bytes wait", stuck.n_bytes, self._total)
            self.change(stuck, 0)
            stuck.is_over = True
            asyncio.get_running_loop().call_soon(stuck.drop)
