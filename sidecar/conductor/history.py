"""A session's conversation and where it is stored: the active path in memory, its nodes on disk.

It is the agent's journal: what the agent records lands on disk first and in memory then. A store that fails
is told once and written again with the next record; the conversation goes on in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from sidecar._internal.errors import SidecarError
from sidecar.llmgateway.contract import Turn
from sidecar.runtime.contract import SessionNode

__all__ = ["GraphPort", "History", "JournalPort"]


class GraphPort(Protocol):
    """Every branch of a stored session, for reading (``runtime.store.SessionGraph``)."""

    @property
    def leaf(self) -> str | None:
        """The head: the newest node of the active path."""
        ...

    @property
    def nodes(self) -> Sequence[SessionNode]:
        """Every node of every branch, in the order they were stored."""
        ...

    def node_path(self, node_id: str) -> Sequence[SessionNode]:
        """Return the nodes from the root to *node_id*. Raises ValueError for an unknown one."""
        ...


class JournalPort(Protocol):
    """The writer of one session's file (``runtime.store.SessionJournal``, or one in memory)."""

    @property
    def head(self) -> str | None:
        """The newest node of the active path."""
        ...

    @property
    def node_ids(self) -> Sequence[str]:
        """The nodes of the active path, oldest first."""
        ...

    @property
    def graph(self) -> GraphPort:
        """Every branch, for reading."""
        ...

    def turns_at(self, node_id: str) -> Sequence[Turn]:
        """Return the turns from the root to *node_id*. Raises ValueError for an unknown one."""
        ...

    async def load(self) -> Sequence[Turn]:
        """Return the turns of the active path."""
        ...

    async def record(self, turns: Sequence[Turn]) -> None:
        """Append *turns* after the head, on disk when this returns."""
        ...

    async def branch(self, turns: Sequence[Turn]) -> None:
        """Begin a branch that holds exactly *turns*, and move the head to it."""
        ...

    async def move_head(self, node_id: str | None) -> None:
        """Make *node_id* the head, or nothing at all for None."""
        ...

    async def append_records(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records that are not nodes."""
        ...

    def hold(self) -> None:
        """Let what is written from now on wait for :meth:`release`."""
        ...

    async def release(self) -> None:
        """Write what was held in one piece: a crash leaves all of it or nothing."""
        ...


class History:
    """The conversation of one session.

    ``turns`` is the same list while the conversation only grows, and another one after a branch.
    *on_trouble* hears of the first failure of an incident, with what may be told to the user; *on_branch*
    follows a branch that the agent began by itself.
    """

    def __init__(
        self,
        journal: JournalPort,
        *,
        on_trouble: Callable[[SidecarError], None],
        on_branch: Callable[[], Awaitable[None]],
    ) -> None:
        self._journal = journal
        self._on_trouble = on_trouble
        self._on_branch = on_branch
        self._in_trouble = False
        self._appended_prompt: Turn | None = None
        self.turns: list[Turn] = []

    @property
    def head(self) -> str | None:
        """The newest stored node."""
        return self._journal.head

    @property
    def node_ids(self) -> Sequence[str]:
        """The stored nodes of the active path; as long as ``turns`` unless the store is failing."""
        return self._journal.node_ids

    @property
    def graph(self) -> GraphPort:
        """Every branch, those the session does not stand on included."""
        return self._journal.graph

    def turns_at(self, node_id: str) -> Sequence[Turn]:
        """Return the conversation as it stood at *node_id*. Raises ValueError for an unknown one."""
        return self._journal.turns_at(node_id)

    async def load(self) -> Sequence[Turn]:
        """Read the active path from the store."""
        self.turns = list(await self._journal.load())
        return self.turns

    async def append_prompt(self, turn: Turn) -> str | None:
        """Store a prompt before the agent sees it, and return its node; the agent's own record skips it."""
        await self.record((turn,))
        self._appended_prompt = turn
        return self._journal.head

    async def record(self, turns: Sequence[Turn]) -> None:
        """Append *turns*, but for a prompt that was stored ahead."""
        is_ahead = bool(turns) and turns[0] is self._appended_prompt
        self._appended_prompt = None
        new = turns[1:] if is_ahead else turns
        if new:
            self.turns.extend(new)
            await self._write(self._journal.record(new))

    async def branch(self, turns: Sequence[Turn]) -> None:
        """Take a branch of the agent's own: it has condensed the conversation in the middle of a run."""
        async with self.transaction():
            await self.replace(turns)
            await self._on_branch()

    async def replace(self, turns: Sequence[Turn]) -> None:
        """Replace the conversation by *turns* on a branch of its own; the old one stays stored."""
        self._appended_prompt = None
        self.turns = list(turns)
        await self._write(self._journal.branch(turns))

    async def move_head(self, node_id: str | None) -> Sequence[Turn]:
        """Stand at *node_id*, before everything for None, and return the conversation up to there."""
        self._appended_prompt = None
        await self._write(self._journal.move_head(node_id))
        return await self.load()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Store in one piece what happens inside: after a crash all of it is there, or nothing.

        Inside nothing may be waited for but this room.
        """
        self._journal.hold()
        try:
            yield
        finally:
            await self._write(self._journal.release())

    async def append_records(self, *records: Mapping[str, Any]) -> None:
        """Store records that are not turns."""
        await self._write(self._journal.append_records(records))

    async def _write(self, writing: Awaitable[None]) -> None:
        try:
            await writing
        except SidecarError as error:
            if not self._in_trouble:
                self._in_trouble = True
                self._on_trouble(error)
        else:
            self._in_trouble = False
