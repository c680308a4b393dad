"""The history of a session and its store: one value in memory, and its entries on disk.

The writer is also the journal of the session's agent: a turn that the agent records lands on disk first and
in memory then. A failing store is reported once and written again with the next entry; the conversation
goes on in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

from sidecar._internal.errors import LeaseLostError, SidecarError
from sidecar.conductor.record.queue import PromptQueue
from sidecar.conductor.records import FileRename, reads_by_call
from sidecar.conversation import (
    AppendOnlySeq,
    Entry,
    EntryKind,
    FileRead,
    History,
    UsageAnchor,
    count_shared,
    kind_by_role,
)
from sidecar.llmgateway.contract import ToolResultBlock, Turn, UserTurn
from sidecar.runtime.store import SessionBranch, SessionGraph, SessionJournal
from sidecar.text.results import exit_code_in

Watcher: TypeAlias = Callable[[tuple[Entry, ...] | None], None]
"""Is called after a move of the conversation, see :meth:`HistoryWriter.watch`."""


class Follower(Protocol):
    """Something that follows a conversation, as an :class:`Index` does."""

    def prepare(self, history: History) -> object:
        """Take in *history*, to which the conversation is about to move, in a thread."""
        ...

    def forget(self) -> object:
        """Let go of the conversation, which is closed, in a thread."""
        ...


class HistoryWriter:
    """Moves the history of one session, and stores each move.

    Facts about a turn that is not complete yet (the files that a tool read, the size of a call, the author
    of a steering prompt) are noted here and become part of its entry. A compaction by the agent is noted as
    well, and stored with its branch.

    Attributes:
        pending_anchor: the size of a call with an answer that is not part of the history yet, None for none.
        renames: the renames of files by the user, oldest first.
    """

    def __init__(
        self, journal: SessionJournal, queue: PromptQueue, on_trouble: Callable[[SidecarError], None]
    ) -> None:
        """Make a writer.

        Args:
            journal: stores the entries.
            queue: the prompts that wait; its record is stored together with the turns that leave it.
            on_trouble: called with the first failure of an incident.
        """
        self._journal = journal
        self._queue = queue
        self._on_trouble = on_trouble
        self._in_trouble = False
        self._in_transaction = False
        self._followers: list[Follower] = []
        self._watchers: list[Watcher] = []
        self._reads: dict[str, list[FileRead]] = {}
        self.pending_anchor: UsageAnchor | None = None
        self._authors: dict[int, tuple[Turn, str]] = {}
        self._with_branch: Callable[[], Awaitable[None]] | None = None
        self.renames: list[FileRename] = []

    @property
    def current(self) -> History:
        """The history as it stands now."""
        return self._journal.history

    @property
    def turns(self) -> AppendOnlySeq[Turn]:
        """The turns of :attr:`current`, which the agent follows."""
        return self._journal.history.turns

    @property
    def head(self) -> str | None:
        """The newest stored node."""
        return self._journal.history.head

    @property
    def graph(self) -> SessionGraph:
        """Every branch, not only the one that the session stands on."""
        return self._journal.graph

    @property
    def pending_reads(self) -> Sequence[FileRead]:
        """The files in tool results that are not part of the history yet, oldest first."""
        return [read for reads in self._reads.values() for read in reads]

    def history_at(self, node_id: str | None) -> History:
        """Return the history as it stood at *node_id*. Raises ValueError for an unknown one."""
        return self._journal.history_at(node_id)

    def follow(self, follower: Follower) -> None:
        """Let *follower* prepare for each move of the conversation."""
        self._followers.append(follower)

    def watch(self, watcher: Watcher) -> None:
        """Call *watcher* after each move, with the entries that were appended; None for another move."""
        self._watchers.append(watcher)

    def forget(self) -> None:
        """Let go of the stored conversation, in a thread, and let all that follows it do so.

        Its parts refer to each other, and Python would look at all other objects, while everything waits, to
        find that they can be freed. Here they are freed at once.
        """
        self._journal.forget()
        for follower in self._followers:
            follower.forget()

    async def prepare_move(self, node_id: str | None) -> History:
        """Return the history as it stood at *node_id*, and prepare the move to it in a thread.

        Everything that follows the conversation folds that history beside the present one, which goes on
        being used. Raises ValueError for an unknown node.
        """

        def prepare() -> History:
            history = self.history_at(node_id)
            n_sound = count_shared(self._journal.heal(history), history.turns)
            self._lead(history.first(n_sound))
            return history

        return await asyncio.to_thread(prepare)

    async def prepare_branch(
        self, entries: Iterable[Entry], size: UsageAnchor | None = None
    ) -> SessionBranch:
        """Return a branch of exactly *entries* for :meth:`replace`, with the move to it prepared in a thread.

        A provider's figure describes the conversation before that: *size*, or else the newest one. It goes on
        with the first entry, so that the meter knows the size of the branch as a share of the size before.
        Each kept entry names its first node, where it stands as it was said.
        """

        def prepare() -> SessionBranch:
            known = (entry.anchor for entry in reversed(self.current) if entry.anchor is not None)
            newest = size or self.pending_anchor or next(known, None)
            again = (
                replace(
                    each,
                    anchor=None if number else newest,
                    origin=each.origin or ((each.node_id,) if each.node_id else ()),
                    reads=tuple(self.read_now(read, each.created_at) for read in each.reads),
                )
                for number, each in enumerate(entries)
            )
            branch = self._journal.make_branch([*again])
            self._lead(branch.history)
            return branch

        return await asyncio.to_thread(prepare)

    def _lead(self, history: History) -> None:
        """Let all that follows the conversation prepare for the move to *history*."""
        for follower in self._followers:
            follower.prepare(history)

    def _notify(self, appended: tuple[Entry, ...] | None) -> None:
        for watcher in self._watchers:
            watcher(appended)

    def kinds_of(self, turns: Sequence[Turn]) -> Sequence[EntryKind | None]:
        """Return the kind of each of *turns*, None for a turn that is not part of the history."""
        known = {id(entry.turn): entry.kind for entry in self.current}
        return [known.get(id(turn)) for turn in turns]

    def note_read(self, read: FileRead) -> None:
        """Let the entry with the result of ``read.call_id`` show *read*."""
        self._reads.setdefault(read.call_id, []).append(read)

    def take_reads(self, call_id: str) -> tuple[FileRead, ...]:
        """Return the reads that were noted for *call_id*, which has no result in the history, without it."""
        return tuple(replace(read, call_id="") for read in self._reads.pop(call_id, ()))

    def read_now(self, read: FileRead, created_at: int) -> FileRead:
        """Return *read*, of an entry made at *created_at*, 0 for not yet, with the path of its file now."""
        for rename in self.renames if created_at else ():
            if created_at <= rename.at:
                read = rename.read_now(read)
        return read

    def note_rename(self, rename: FileRename) -> None:
        """Let everything that was read so far count under its new path."""
        self.renames.append(rename)
        self._reads = {call: [*map(rename.read_now, reads)] for call, reads in self._reads.items()}

    def note_usage(self, anchor: UsageAnchor) -> None:
        """Let the next answer carry the size of the call that it answers."""
        self.pending_anchor = anchor

    def note_author(self, turn: Turn, author: str) -> None:
        """Let *turn*, once the agent lets it in, name its author."""
        # By identity, with the turn held: two clients may send the same words.
        self._authors[id(turn)] = (turn, author)

    def note_branch(self, store: Callable[[], Awaitable[None]]) -> None:
        """Let *store* be awaited with the next branch of the agent; both are stored in one piece."""
        self._with_branch = store

    def forget_notes(self) -> None:
        """Drop the notes for turns that never came to be, at the end of a run."""
        self._reads.clear()
        self._authors.clear()
        self.pending_anchor = None

    async def load(self) -> Sequence[Turn]:
        """Read the active path from the store."""
        await self._journal.load()
        await asyncio.to_thread(self._lead, self.current)
        return self.turns

    async def append(self, *entries: Entry) -> str | None:
        """Append *entries* and the records of their turns, which no crash may part; return the new head."""
        n_before = len(self.current)
        records = self._queue.records_with([*map(attrgetter("turn"), entries)])
        if not records:
            await self._write(self._journal.append(entries))
        else:
            async with self.transaction():
                await self._write(self._journal.append(entries))
                await self.append_records(*records)
        appended = self.current[n_before:]
        self._notify(appended)
        return appended[-1].node_id if appended else self.head

    async def record(self, turns: Sequence[Turn]) -> None:
        """Append the *turns* of the agent."""
        await self.append(*map(self._as_entry, turns))

    async def branch(self, turns: Sequence[Turn]) -> None:
        """Take over a branch of the agent's own: it compacted the conversation in the middle of a run.

        Its first turn is the summary, with the newest prompt behind it where that was before the cut; the
        prompt becomes an entry of its own again. The other turns are the end of the history, and new ones.
        """
        known = {id(entry.turn): entry for entry in self.current}
        kept = [known.get(id(turn)) or self._as_entry(turn) for turn in turns[1:]]
        first_kept = next((entry.node_id for entry in kept if entry.node_id), None)
        ids = self.current.node_ids
        folded = ids[: ids.index(first_kept)] if first_kept else ids
        blocks = turns[0].blocks if turns else ()
        summary = [Entry(UserTurn((block,)), "summary", origin=folded) for block in blocks[:1]]
        prompts = (entry for entry in reversed(self.current) if entry.turn.blocks == blocks[1:])
        pinned = [next(prompts, Entry(UserTurn(blocks[1:]), "user"))] if blocks[1:] else []
        branch = await self.prepare_branch([*summary, *pinned, *kept])
        async with self.transaction():
            await self.replace(branch)
            if records := self._queue.records_with(turns):
                await self.append_records(*records)
            store, self._with_branch = self._with_branch, None
            if store is not None:
                await store()

    async def replace(self, branch: SessionBranch) -> None:
        """Replace the conversation by that of *branch*; the old one stays stored."""
        await self._write(self._journal.begin(branch))
        self._notify(None)

    async def move_to(self, history: History) -> None:
        """Stand at the end of *history*, see :meth:`prepare_move`; a call without a result is answered."""
        await self._write(self._journal.move_to(history))
        await self._journal.load()
        self._notify(None)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Store the moves inside the block in one piece: after a crash all of them are there, or none.

        Inside nothing may be awaited but this writer. A block inside of another one belongs to that one.
        """
        if self._in_transaction:
            yield
            return
        self._in_transaction = True
        self._journal.hold()
        try:
            yield
        finally:
            self._in_transaction = False
            await self._write(self._journal.release())

    async def append_records(self, *records: Mapping[str, Any]) -> None:
        """Store records that are not turns."""
        await self._write(self._journal.append_records(records))

    def _as_entry(self, turn: Turn) -> Entry:
        """Return a turn of the agent's with everything that was noted for it."""
        kind = kind_by_role(turn)
        _, author = self._authors.pop(id(turn), (turn, None))
        anchor = None
        if kind == "assistant":
            anchor, self.pending_anchor = self.pending_anchor, None
        reads = _reads_of(turn, self._reads)
        for block in turn.blocks:
            if isinstance(block, ToolResultBlock):
                self._reads.pop(block.call_id, None)
        return Entry(turn, kind, reads=reads, anchor=anchor, author=author)

    async def _write(self, writing: Awaitable[object]) -> None:
        if not self._journal.is_behind:  # the store may have caught up by itself
            self._in_trouble = False
        try:
            await writing
        except SidecarError as error:
            if isinstance(error, LeaseLostError):  # nothing goes on in memory
                raise
            if not self._in_trouble:
                self._in_trouble = True
                self._on_trouble(error)
        else:
            # In a transaction nothing is written before its end.
            self._in_trouble = self._in_trouble and self._in_transaction


def entries_with_earlier_reads(entries: Iterable[Entry], records: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return the *entries* that gain files from *records* of an earlier version.

    It stored the files that the model read beside the nodes, by tool call. Each belongs to the entry with the
    result of its call.
    """
    reads = reads_by_call(records)
    found = ((entry, _reads_of(entry.turn, reads)) for entry in entries if reads and not entry.reads)
    return [replace(entry, reads=shown) for entry, shown in found if shown]


def _reads_of(turn: Turn, by_call: Mapping[str, Sequence[FileRead]]) -> tuple[FileRead, ...]:
    """Return the reads *by_call* that the results in *turn* show.

    A call that ended in an error shows the model no file, but for a command: its output may show some from
    before its failure.
    """
    results = (
        block
        for block in turn.blocks
        if isinstance(block, ToolResultBlock)
        and (not block.is_error or exit_code_in(str(block.output)) is not None)
    )
    return tuple(read for block in results for read in by_call.get(block.call_id, ()))
