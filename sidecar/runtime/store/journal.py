"""The journal of one session: its history in memory and its lines on disk, always moved together.

New entries go behind the head; a compaction becomes a branch. A node is in the graph when its lines are on
their way to the file. The journal takes no lock of its own: its owner holds the store's lock on the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.conversation import Entry, History, count_shared, kind_by_role
from sidecar.llmgateway.contract import Turn
from sidecar.runtime.store.codec import encode_batch, encode_record, head_record, node_record, to_json
from sidecar.runtime.store.dag import Clock, SessionGraph, node_of, wall_clock_ms
from sidecar.runtime.store.errors import StoreUnavailable
from sidecar.runtime.store.lines import LineWriter, append_nowhere, seal
from sidecar.runtime.store.reading import HEALED, IntegrityReport, StoredSession, heal

_Read: TypeAlias = Callable[[], StoredSession]


class SessionBranch(Value):
    """A branch that is ready to begin: its path, and the lines of the last entries of it, which are new."""

    history: History
    encoded: Sequence[bytes]


class SessionJournal:
    """One session on disk, its active path and its writer.

    A call that raises ``StoreUnavailable`` has moved the history all the same, and its lines go with the next
    write. Recording the same turns again, as a caller that retries does, adds them once.

    Attributes:
        history: the active path; empty before :meth:`load`.
    """

    def __init__(self, writer: LineWriter, read: _Read) -> None:
        self._writer = writer
        self._writer.whole = self.snapshot
        self._read = read
        self._opening = asyncio.Lock()
        self._stored: StoredSession | None = None
        self.history = History()
        self._sound = History()
        self._unwritten: list[Turn] = []
        # The newest record of each type, and of each compaction.
        self._newest: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._held: list[bytes] | None = None
        self._is_healed = False

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns of the active path, as one sequence that grows with it."""
        return self.history.turns

    @property
    def head(self) -> str | None:
        """The newest node of the active path; None when it is empty, or before :meth:`load`."""
        return self.history.head

    @property
    def graph(self) -> SessionGraph:
        """Every branch and the head, for reading; empty before :meth:`load`."""
        return self._stored.graph if self._stored is not None else SessionGraph("")

    @property
    def integrity(self) -> IntegrityReport:
        """The report of :meth:`load` on the file, and on the conversation in it."""
        found = self._stored.integrity if self._stored is not None else IntegrityReport()
        return replace(found, repaired=(*found.repaired, HEALED)) if self._is_healed else found

    @property
    def is_behind(self) -> bool:
        """Whether lines wait for the next write."""
        return bool(self._writer.waiting)

    def start_empty(self, session_id: str) -> None:
        """Begin a session of which nothing is stored, without a look."""
        self._stored = StoredSession(SessionGraph(session_id), (), IntegrityReport())

    async def load(self) -> Sequence[Turn]:
        """Return the turns of the active path, healed; the file is read the first time only.

        The healed conversation is a branch of its own where it differs, written with the next write.

        Raises:
            StoreUnavailable: the file is there and cannot be read.
        """
        await self._graph()
        history = self.history
        # Held calls follow each other without giving way; else a long path is healed in a thread.
        healed = self.heal(history) if self._held is not None else await asyncio.to_thread(self.heal, history)
        if self._sound is not history:
            self._is_healed = True
            n_same = count_shared(healed, history.turns)
            new = self._as_entries(healed[n_same:])
            self._hold(self._stand_on(self.make_branch(new, behind=history.first(n_same))))
            self._sound = self.history
        return healed

    def heal(self, history: History) -> Sequence[Turn]:
        """Return the turns of *history* healed; costs the part that the path healed before does not share.

        A history that needs no healing is remembered, so a long one may be healed in a thread before a move.
        """
        turns = tuple(history.turns)
        healed = heal(turns, count_shared(self._sound, history))
        if healed == turns:
            self._sound = history
        return healed

    async def record(self, turns: Sequence[Turn]) -> None:
        """Append *turns* after the head, each of the kind of its role; as :meth:`append`."""
        n = len(self._unwritten)
        is_retry = len(turns) >= n and all(a is b for a, b in zip(turns, self._unwritten, strict=False))
        await self.append([Entry(turn, kind_by_role(turn)) for turn in (turns[n:] if is_retry else turns)])

    async def append(self, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        """Append *entries* after the head and return them as they are stored.

        Raises:
            StoreUnavailable: the entries wait for the next write.
        """
        graph = await self._graph()
        n_before = len(self.history)
        for entry in entries:
            stored = graph.make_entry(graph.leaf, entry)
            graph.add_made(stored)
            self.history = self.history.extended((stored,))
            self._unwritten.append(entry.turn)
            self._hold([_encode_node(stored), encode_record(head_record(stored.node_id))])
        await self._write()
        return self.history[n_before:]

    async def branch(self, turns: Sequence[Turn]) -> None:
        """Begin a branch that holds exactly *turns*, and move the head to its end; as :meth:`replace`.

        A turn of the active path keeps its entry.
        """
        await self.replace(self._as_entries(turns))

    async def replace(self, entries: Sequence[Entry]) -> None:
        """Begin a branch that holds exactly *entries*, and move the head to its end.

        Where *entries* begin like a stored path they share its nodes. On disk the head moves last: after a
        crash the session stands at the old head or at the new one.

        Raises:
            StoreUnavailable: the branch waits for the next write.
        """
        await self._graph()
        await self.begin(self.make_branch(entries))

    def make_branch(self, entries: Sequence[Entry], behind: History | None = None) -> SessionBranch:
        """Return the branch of :meth:`replace`, ready for :meth:`begin`; nothing changes before that.

        A thread may make it, unless nodes are added meanwhile. *behind* is a stored path in front of it.
        """
        graph = self.graph
        base = History((), graph.entries) if behind is None else behind
        shared = graph.shared_path([entry.turn for entry in entries], base.head)
        # Two summaries of the same words stand for different entries.
        pairs = enumerate(zip(shared, entries, strict=False))
        differing = (at for at, (stored, entry) in pairs if stored.origin != entry.origin)
        shared = shared[: next((at for at in differing if entries[at].kind == "summary"), len(shared))]
        parent, path = shared[-1].node_id if shared else base.head, [*shared]
        for entry in entries[len(shared) :]:
            path.append(graph.make_entry(parent, entry))
            parent = path[-1].node_id
        history = base.extended(path).share_originals(self.history)
        return SessionBranch(history, [*map(_encode_node, path[len(shared) :])])

    async def begin(self, branch: SessionBranch) -> None:
        """Stand at the end of *branch*; raises as :meth:`replace`."""
        if self._held is not None:
            await self._write(self._stand_on(branch))
            return
        # In a thread: the branch may be new from its beginning.
        lines = await asyncio.to_thread(lambda: b"".join(map(seal, self._stand_on(branch))))
        self._writer.waiting.append(lines)
        await self._write()

    async def adopt(
        self,
        records: Sequence[Mapping[str, Any]],
        entries: Sequence[Entry],
        leaf: str | None,
    ) -> None:
        """Store *records* and *entries* of another session with their ids in one piece, and stand at *leaf*.

        Args:
            records: records that are not nodes.
            entries: the stored entries, each after its parent; they replace all that this journal holds.
            leaf: the new head.

        Raises:
            StoreUnavailable: nothing is stored, also not later.
        """
        graph = await self._graph()
        self.hold()
        await self.append_records(records)
        first, self._held = self._held or [], None

        def take_over() -> tuple[History, bytes]:
            graph.restore(entries, leaf)
            graph.stand_at(leaf)
            encoded = map(_encode_node, entries)
            return self.history_at(leaf), encode_batch([*first, *encoded, encode_record(head_record(leaf))])

        # In a thread: a session that is taken over may have thousands of entries.
        history, line = await asyncio.to_thread(take_over)
        self._stand_at(history)
        self._writer.waiting.append(line)
        try:
            await self._write()
        except StoreUnavailable:
            await self._writer.abandon()
            raise

    def amend(self, entries: Sequence[Entry]) -> None:
        """Replace the entries of stored nodes in memory only: no line is written."""
        if self._stored is not None and entries:
            self._stored.graph.amend(entries)
            self.history = self.history_at(self.head)

    async def move_to(self, history: History) -> None:
        """Stand at the end of *history*, a stored path as :meth:`history_at` returns it.

        Raises:
            StoreUnavailable: the move waits for the next write.
        """
        self.graph.stand_at(history.head)
        self._stand_at(history)
        await self._write([encode_record(head_record(history.head))])

    async def append_records(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append *records* that are not nodes; each has its own ``type``.

        Raises:
            InvalidInput: a record has no type, or that of a node or a head.
            StoreUnavailable: the records wait for the next write.
        """
        for record in records:
            if not isinstance(record.get("type"), str) or record["type"] in ("node", "head"):
                raise InvalidInput(f"a record of type {record.get('type')!r} cannot be stored as a note")
        encoded = []
        for record in records:
            stored = {"type": record["type"], **to_json(record)}
            self._newest[stored["type"], str(stored.get("compaction_id"))] = stored
            encoded.append(encode_record(stored))
        await self._write(encoded)

    def hold(self) -> None:
        """Keep all records from now on for :meth:`release`, which writes them as one line.

        So a crash leaves all of them or none. The held calls must follow each other without giving way to
        other tasks.
        """
        self._held = []

    async def release(self) -> None:
        """Write the held records. Raises as :meth:`append`."""
        held, self._held = self._held or [], None
        self._writer.waiting.extend([encode_batch(held)] if len(held) > 1 else map(seal, held))
        await self._write()

    def take_records(self) -> Sequence[Mapping[str, Any]]:
        """Return the records that are not nodes, as :meth:`load` read them, once: there is one a turn."""
        if self._stored is None:
            return ()
        records, self._stored = self._stored.records, replace(self._stored, records=())
        return records

    def history_at(self, node_id: str | None) -> History:
        """Return the history as it stood at *node_id*, empty for None.

        Raises:
            ValueError: there is no such node, or :meth:`load` has not been called.
        """
        if self._stored is None:
            raise ValueError("the session has not been loaded; call load first")
        graph = self._stored.graph
        return History(graph.entry_path(node_id), graph.entries)

    def snapshot(self) -> Callable[[], bytes]:
        """Return a function that encodes the session as it is now, which may take some time."""
        graph, records = self.graph, tuple(self._newest.values())
        entries, leaf = tuple(graph.entries.values()), graph.leaf

        def encode() -> bytes:
            last = [encode_record(head_record(leaf)), *map(encode_record, records)]
            return b"".join(map(seal, [*map(_encode_node, entries), *last]))

        return encode

    def forget(self) -> None:
        """Let go of the session."""
        self._writer.whole = None
        self._stored, self.history, self._sound = None, History(), History()
        self._unwritten = []

    async def close(self) -> None:
        """Wait for the running writes, and write the waiting lines. Raises as :meth:`append`."""
        await self._writer.settle()

    async def _graph(self) -> SessionGraph:
        async with self._opening:
            if self._stored is None:

                def read() -> tuple[StoredSession, History]:
                    stored = self._read()
                    path = stored.graph.entry_path(stored.graph.leaf)
                    return stored, History(path, stored.graph.entries)

                stored, self.history = await asyncio.to_thread(read)
                self._stored = stored
                for record in stored.records:
                    self._newest[str(record.get("type")), str(record.get("compaction_id"))] = record
            return self._stored.graph

    def _as_entries(self, turns: Sequence[Turn]) -> list[Entry]:
        known = {id(entry.turn): entry for entry in self.history}
        return [known.get(id(turn)) or Entry(turn, kind_by_role(turn)) for turn in turns]

    def _stand_on(self, branch: SessionBranch) -> list[bytes]:
        """Stand at the end of *branch*, and return its lines."""
        for entry in branch.history[len(branch.history) - len(branch.encoded) :]:
            self.graph.add_made(entry)
        self.graph.stand_at(branch.history.head)
        self._stand_at(branch.history)
        return [*branch.encoded, encode_record(head_record(self.graph.leaf))]

    def _stand_at(self, history: History) -> None:
        self.history = history
        self._unwritten = []

    def _hold(self, encoded: Sequence[bytes]) -> None:
        if self._held is not None:
            self._held.extend(encoded)
        else:
            self._writer.waiting.extend(map(seal, encoded))

    async def _write(self, encoded: Sequence[bytes] = ()) -> None:
        self._hold(encoded)
        if self._held is not None:
            return
        await self._writer.write()
        if not self._writer.waiting:
            self._unwritten = []


def journal_in_memory(session_id: str, clock: Clock = wall_clock_ms) -> SessionJournal:
    """Return the journal of a session that is kept nowhere."""
    empty = StoredSession(SessionGraph(session_id, clock), (), IntegrityReport())
    return SessionJournal(LineWriter(session_id, append_nowhere), lambda: empty)


def _encode_node(entry: Entry) -> bytes:
    return encode_record(node_record(node_of(entry), entry))
