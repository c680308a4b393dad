"""The contract of a place where sessions are kept, a folder of files or a database, and of the lists of them.

The newest session is first in a list, by the time of its last change and then by its id. A page begins behind
a line, and not after so many lines. So when sessions begin, change or go between two pages, no other session
is shown twice or left out. A session that changes meanwhile moves to the beginning of the list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from sidecar._internal.values import Value
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import Amount, CostBudget
from sidecar.runtime.store.journal import SessionJournal
from sidecar.runtime.store.lines import Hold
from sidecar.runtime.store.reading import StoredSession

ListKey: TypeAlias = tuple[int, str]
"""The position of a session in a list: the time of its last change in epoch milliseconds, and its id."""


class ListedSession(Protocol):
    """The part of a list's line that lists are ordered and filtered by."""

    @property
    def sid(self) -> str:
        """The id of the session."""
        ...

    @property
    def updated_at(self) -> int:
        """The time of its last change in epoch milliseconds."""
        ...

    @property
    def cwd(self) -> str:
        """Its folder."""
        ...

    @property
    def title(self) -> str:
        """Its title, which may be empty."""
        ...

    @property
    def archived(self) -> bool:
        """Whether it is left out of lists that do not ask for it."""
        ...

    @property
    def kind(self) -> str | None:
        """The kind of a session that no user has begun, such as ``subagent``; None for others."""
        ...

    @property
    def parent(self) -> str | None:
        """The session that it comes from, None for none."""
        ...


T = TypeVar("T", bound=ListedSession)


class SessionQuery(Value, kw_only=True):
    """The sessions to list; without any choice, all of them.

    Attributes:
        limit: the most lines, None for no limit.
        after: the position of the last line of the page before, None for the first page.
        cwd: the folder of the sessions, None for any.
        words: words in casefolded form that all stand in the title.
        archived: whether archived sessions are listed, too.
        ids: the only sessions to list, None for any.
        children: whether sessions of a kind, such as sub-agents, are listed, too.
        parent: the session of which only the children are listed, None for any.
    """

    limit: int | None = None
    after: ListKey | None = None
    cwd: str | None = None
    words: tuple[str, ...] = ()
    archived: bool = True
    ids: Set[str] | None = None
    children: bool = True
    parent: str | None = None

    def matches(self, line: ListedSession) -> bool:
        """Whether *line* is listed on this page or a later one."""
        return (
            (self.after is None or key_of(line) < self.after)
            and (self.archived or not line.archived)
            and (self.cwd is None or line.cwd == self.cwd)
            and (self.ids is None or line.sid in self.ids)
            and (self.children or line.kind is None)
            and (self.parent is None or (line.kind is not None and line.parent == self.parent))
            and (not self.words or all(word in line.title.casefold() for word in self.words))
        )

    def widen(self, n_more: int) -> SessionQuery:
        """Return the query for up to *n_more* further lines."""
        return self if self.limit is None else replace(self, limit=self.limit + n_more)

    def select(self, lines: Iterable[T]) -> list[T]:
        """Return the page of *lines*, which may be in any order."""
        return sorted(filter(self.matches, lines), key=key_of, reverse=True)[: self.limit]


ALL_SESSIONS: Final = SessionQuery()


def key_of(line: ListedSession) -> ListKey:
    """Return the position of *line*."""
    return line.updated_at, line.sid


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


class DaySum(Value):
    """All that a day took so far, in every session, and whether the newest amount is in it."""

    sum: Amount
    is_added: bool = True


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

    async def holders(self, session_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the other processes of this machine that hold sessions and that no summary names."""
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

    async def spend(self, day: str, amount: Amount, budget: CostBudget | None = None) -> DaySum:
        """Add *amount* to the sum of *day*, which all daemons of the user share, and return the sum.

        With a *budget* it is added only where the budget allows it. Raises StoreUnavailable.
        """
        ...
