"""The contract of a place where sessions are kept: a folder of files, or a database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, TypeVar

from sidecar._internal.errors import LeaseLostError
from sidecar._internal.values import Value
from sidecar.conversation import Entry
from sidecar.runtime.contract.listing import ListedSession, SessionQuery
from sidecar.runtime.store.errors import SessionLockedError, StoreUnavailable
from sidecar.runtime.store.journal import SessionJournal
from sidecar.runtime.store.lines import Append, InThread, LineWriter
from sidecar.runtime.store.reading import StoredSession

T = TypeVar("T", bound=ListedSession)


class StoredSummary(Value):
    """A stored session in short.

    *meta* is the newest meta record, None where there is none; *modified_ms* is in epoch milliseconds;
    *host* and *pid* name the machine and the process that have a lease of the session, where the place has
    leases, and *leased_until_ms* says how long it lasts.
    """

    session_id: str
    meta: Mapping[str, Any] | None
    modified_ms: int
    size_bytes: int
    host: str | None = None
    pid: int | None = None
    leased_until_ms: int | None = None


class Hold(Protocol):
    """The right to write one session, until it is released; a second release does nothing."""

    def release(self) -> None:
        """Let another holder have it."""
        ...


Describe: TypeAlias = Callable[[StoredSummary], T | None]
"""Makes the line of a list from a session's summary, None for a session that is not listed. Pure."""

ListSessions: TypeAlias = Callable[[SessionQuery], Awaitable[list[T]]]
"""Returns the lines of a page of sessions, the newest first. Raises StoreUnavailable."""


class SessionPlace(Protocol):
    """A place where sessions are kept. One holder writes a session; readers need no hold."""

    async def hold(self, session_id: str) -> Hold:
        """Take the right to write *session_id*; that of a holder which died is taken over.

        Raises:
            SessionLockedError: another holder has it.
            StoreUnavailable: the place does not answer.
        """
        ...

    async def take_over(self, session_id: str) -> Hold:
        """Take the right to write *session_id* as :meth:`hold`; an idle holder elsewhere hands it over.

        That takes some seconds.
        """
        ...

    async def wait_free(self, session_id: str) -> None:
        """Return once others may hold *session_id*, which was released."""
        ...

    def journal(self, session_id: str) -> SessionJournal:
        """Return the journal of *session_id*, stored or not."""
        ...

    def close(self, session_id: str) -> None:
        """Let go of the journal of *session_id*; lines that could not be written wait for the next one."""
        ...

    async def write_waiting(self, session_id: str) -> None:
        """Write the lines that wait since *session_id* was closed. Raises StoreUnavailable."""
        ...

    async def settle(self) -> None:
        """Write the waiting lines of closed sessions, and keep them where that fails again."""
        ...

    async def aclose(self) -> None:
        """Settle, and close all connections."""
        ...

    async def open(self, session_id: str) -> StoredSession:
        """Return the stored *session_id*, empty when there is none. Raises StoreUnavailable."""
        ...

    async def page(self, session_id: str, page: range, *, of_path: bool) -> Sequence[Entry]:
        """Return the nodes of *session_id* with the numbers *page*, from 0; fewer at the end.

        They are numbered on the path to the head, or in the order they were added. Raises StoreUnavailable.
        """
        ...

    async def exists(self, session_id: str) -> bool:
        """Whether anything is stored under *session_id*."""
        ...

    async def delete(self, session_id: str) -> bool:
        """Remove *session_id* for good and say whether there was anything; raises as :meth:`hold`."""
        ...

    async def summaries(self) -> list[StoredSummary]:
        """Return the summaries of all sessions, the newest first."""
        ...

    def lister(self, kind: type[T], describe: Describe[T]) -> ListSessions[T]:
        """Return a function that lists sessions by lines of *kind*, a dataclass that JSON can hold.

        The cost of a page is that of its lines; only the first page of a folder looks at all files.
        """
        ...

    async def search(self, words: Sequence[str]) -> Set[str]:
        """Return the ids of the sessions with all *words* in them, on any branch; upper case is ignored.

        A file is searched as it is, a database knows whole words alone. Raises StoreUnavailable.
        """
        ...

    async def read_raw(self, session_id: str) -> bytes:
        """Return the sound records of *session_id* as sealed lines, one a record. Raises StoreUnavailable."""
        ...

    async def write_raw(self, session_id: str, lines: bytes) -> None:
        """Append sealed *lines* to *session_id*, which the caller holds. Raises StoreUnavailable."""
        ...


class SessionWriters:
    """The writers of a place, one a session; a closed session's stays while lines of it wait.

    Args:
        append_to: returns the append of a session.
        hold: takes the right to write a session, as :meth:`SessionPlace.hold`.
        in_thread: runs an append.
    """

    def __init__(
        self,
        append_to: Callable[[str], Append],
        hold: Callable[[str], Awaitable[Hold]],
        in_thread: InThread = asyncio.to_thread,
    ) -> None:
        self._append_to = append_to
        self._hold = hold
        self._in_thread = in_thread
        self._writers: dict[str, LineWriter] = {}
        self._settling = asyncio.Lock()

    def of(self, session_id: str) -> LineWriter:
        """Return the writer of *session_id*."""
        if session_id not in self._writers:
            self._writers[session_id] = LineWriter(session_id, self._append_to(session_id), self._in_thread)
        return self._writers[session_id]

    def close(self, session_id: str) -> None:
        """Forget the writer of *session_id* unless lines wait."""
        writer = self._writers.get(session_id)
        if writer is not None:
            writer.whole = None
            if not writer.waiting:
                del self._writers[session_id]

    async def write_waiting(self, session_id: str) -> None:
        """Write the lines of *session_id* that wait. Raises StoreUnavailable."""
        writer = self._writers.get(session_id)
        if writer is not None and writer.waiting:
            await writer.settle()

    @property
    def are_waiting(self) -> bool:
        """Whether lines of any session wait for the next write."""
        return any(writer.waiting for writer in self._writers.values())

    async def write_all(self) -> None:
        """Write the waiting lines of every session, and keep them where that fails again."""
        for writer in tuple(self._writers.values()):
            if writer.waiting and writer.whole is not None:
                with suppress(LeaseLostError, StoreUnavailable):
                    await writer.write()
        await self.settle()

    async def settle(self) -> None:
        """Write the waiting lines of closed sessions, and keep them where that fails again."""
        async with self._settling:
            for session_id, writer in tuple(self._writers.items()):
                if writer.whole is None and writer.waiting:
                    with suppress(SessionLockedError, LeaseLostError, StoreUnavailable):
                        held = await self._hold(session_id)
                        try:
                            await writer.settle()
                        finally:
                            self.close(session_id)
                            held.release()

    async def abandon(self, session_id: str) -> None:
        """Drop the lines of *session_id* that wait, and its writer."""
        writer = self._writers.pop(session_id, None)
        if writer is not None:
            await writer.abandon()
