"""Lists of sessions: their order, their filters, and how a page follows on the one before.

The newest session is first, by the time of its last change and then by its id. A page begins behind a line,
and not after so many lines. So when sessions begin, change or go between two pages, no other session is shown
twice or left out. A session that changes meanwhile moves to the beginning of the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from typing import Final, Protocol, TypeAlias, TypeVar

from sidecar._internal.values import Value

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
    """

    limit: int | None = None
    after: ListKey | None = None
    cwd: str | None = None
    words: tuple[str, ...] = ()
    archived: bool = True
    ids: Set[str] | None = None

    def matches(self, line: ListedSession) -> bool:
        """Whether *line* is listed on this page or a later one."""
        return (
            (self.after is None or key_of(line) < self.after)
            and (self.archived or not line.archived)
            and (self.cwd is None or line.cwd == self.cwd)
            and (self.ids is None or line.sid in self.ids)
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
