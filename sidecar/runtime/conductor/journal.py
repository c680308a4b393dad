"""Keeps a run's history in a journal: only what is new is written, and nothing ever waits on a broken disk.

Storing is advisory (R16): what could not be written stays due, and goes with the next write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from sidecar.conversation.sequence import AppendOnlySeq
from sidecar.llmgateway.contract import Turn
from sidecar.runtime.cadence import RunMessages
from sidecar.runtime.conductor.hooks import tell
from sidecar.runtime.wire import is_blank

__all__ = ["Journal", "JournalStore", "Keeper", "MemoryJournal", "StoreErrorHandler"]

StoreErrorHandler: TypeAlias = Callable[[Exception], None]
"""Hears that the journal fails, once until it works again. Contract: what it raises is swallowed."""


class Journal(Protocol):
    """Where one session's turns are kept, on a branch that ends at its head.

    Contract: calls never overlap. One that raises is made again later, with the same turns and what is new
    since; what it has done already is not done twice.
    """

    async def record(self, turns: Sequence[Turn]) -> None:
        """Append *turns*, at least one, after the head."""
        ...

    async def branch(self, turns: Sequence[Turn]) -> None:
        """Begin a new branch that holds exactly *turns*, possibly none, and move the head to its end."""
        ...

    async def load(self) -> Sequence[Turn]:
        """Return the turns up to the head, oldest first; none when the session is not stored."""
        ...


class JournalStore(Protocol):
    """A store of sessions that hands out their journals."""

    def journal(self, session_id: str) -> Journal:
        """Return the journal of *session_id*, which need not exist yet."""
        ...


class MemoryJournal:
    """A journal in memory, for tests: the branches so far, the newest last.

    >>> MemoryJournal().branches
    [()]
    """

    def __init__(self) -> None:
        self.branches: list[tuple[Turn, ...]] = [()]

    async def record(self, turns: Sequence[Turn]) -> None:
        """Append *turns* to the newest branch."""
        self.branches[-1] = (*self.branches[-1], *turns)

    async def branch(self, turns: Sequence[Turn]) -> None:
        """Begin a branch with *turns*."""
        self.branches.append(tuple(turns))

    async def load(self) -> Sequence[Turn]:
        """Return the newest branch."""
        return self.branches[-1]


class Keeper:
    """Writes to *journal* what it does not hold yet. Without a journal there is nothing to keep."""

    def __init__(self, journal: Journal | None, on_error: StoreErrorHandler | None) -> None:
        self._journal = journal
        self._on_error = on_error
        self._stored: AppendOnlySeq[Turn] | None = None
        self._is_failing = False

    def adopt(self, history: RunMessages) -> None:
        """Take note that the journal holds exactly the finished turns of *history*."""
        self._stored = history.finished

    def forget(self) -> None:
        """Take note that the journal holds another history: the next one is kept as a new branch."""
        self._stored = None

    async def keep(self, messages: Sequence[Turn]) -> None:
        """Write the finished turns of *messages*: those that are new, or all as a branch after a cut."""
        if self._journal is None:
            return
        finished = RunMessages.of(messages).finished
        try:
            await self._write(self._journal, finished)
        except Exception as error:
            # Advisory: the run goes on, and what is due goes with the next write.
            self._report(error)
        else:
            self._stored = finished
            self._is_failing = False

    async def _write(self, journal: Journal, finished: AppendOnlySeq[Turn]) -> None:
        added = None if self._stored is None else finished.since(self._stored)
        turns = tuple(turn for turn in (finished if added is None else added) if not is_blank(turn))
        if added is None:
            await journal.branch(turns)
        elif turns:
            await journal.record(turns)

    def _report(self, error: Exception) -> None:
        if not self._is_failing:
            self._is_failing = True
            tell(self._on_error, error)
