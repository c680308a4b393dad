"""The journal of one session: what an agent says goes after the head, a compaction becomes a branch.

Memory and disk move together: a node is in the graph when its lines are on their way to the file. It takes no
lock of its own; whoever writes holds the store's lock on the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sidecar._internal.errors import InvalidInput
from sidecar.llmgateway.contract import Turn
from sidecar.runtime.contract import SessionNode
from sidecar.runtime.store.codec import encode_line, head_record, node_record
from sidecar.runtime.store.dag import Clock, SessionGraph, wall_clock_ms
from sidecar.runtime.store.integrity import HEALED, Integrity, heal
from sidecar.runtime.store.jsonable import to_json
from sidecar.runtime.store.reading import StoredSession
from sidecar.runtime.store.writer import LineWriter, append_nowhere

__all__ = ["SessionJournal", "journal_in_memory"]

_Read: TypeAlias = Callable[[], StoredSession]


class SessionJournal:
    """One session on disk, its active path and its writer.

    A call that raises ``StoreUnavailable`` has moved the graph all the same, and its lines go with the next
    write. Recording the same turns again, as a caller that retries does, adds them once.
    """

    def __init__(self, writer: LineWriter, read: _Read) -> None:
        self._writer = writer
        self._read = read
        self._opening = asyncio.Lock()
        self._stored: StoredSession | None = None
        self._path: list[str] = []
        self._path_view: tuple[str, ...] | None = ()
        self._unwritten: list[Turn] = []
        self._is_held = False
        self._is_healed = False

    @property
    def head(self) -> str | None:
        """The newest node of the active path; None when it is empty, or before :meth:`load`."""
        return self._path[-1] if self._path else None

    @property
    def node_ids(self) -> Sequence[str]:
        """The nodes of the active path, oldest first: one for each turn of :meth:`load`."""
        if self._path_view is None:
            self._path_view = tuple(self._path)
        return self._path_view

    @property
    def nodes(self) -> tuple[SessionNode, ...]:
        """Every node of every branch, in the order they were stored; none before :meth:`load`."""
        return self._stored.graph.nodes if self._stored is not None else ()

    @property
    def graph(self) -> SessionGraph:
        """Every branch and the head, for reading; empty before :meth:`load`."""
        return self._stored.graph if self._stored is not None else SessionGraph("")

    @property
    def integrity(self) -> Integrity:
        """What :meth:`load` found wrong with the file, and with the conversation in it."""
        found = self._stored.integrity if self._stored is not None else Integrity()
        return replace(found, repaired=(*found.repaired, HEALED)) if self._is_healed else found

    @property
    def n_unwritten_lines(self) -> int:
        """How many lines wait for a store that fails."""
        return self._writer.n_waiting

    async def load(self) -> Sequence[Turn]:
        """Return the turns of the active path, healed; the file is read the first time only.

        What healing changed is a branch of its own, written with the next write.

        Raises:
            StoreUnavailable: the file is there and cannot be read.
        """
        graph = await self._graph()
        turns = graph.path_to(self._path[-1]) if self._path else ()
        healed = heal(turns)
        if healed != turns:
            self._is_healed = True
            self._writer.hold(self._branch(graph, healed))
        return healed

    async def record(self, turns: Sequence[Turn]) -> None:
        """Append *turns* after the head; they are on disk when this returns.

        Raises:
            StoreUnavailable: the turns wait for the next write.
        """
        graph = await self._graph()
        for turn in self._new(turns):
            node = graph.append(turn)
            self._path.append(node.id)
            self._path_view = None
            self._unwritten.append(turn)
            self._writer.hold((encode_line(node_record(node)), encode_line(head_record(node.id))))
        await self._write()

    async def branch(self, turns: Sequence[Turn]) -> None:
        """Begin a branch that holds exactly *turns*, and move the head to its end.

        Where *turns* begin like a stored path they share its nodes. On disk the head moves last: after a
        crash the session stands at the old head or at the new one. Raises as :meth:`record`.
        """
        graph = await self._graph()
        await self._write(self._branch(graph, turns))

    async def move_head(self, node_id: str | None) -> None:
        """Make *node_id* the head, or nothing at all for None. Raises as :meth:`record`, and:

        Raises:
            UnknownNode: also a ValueError.
        """
        graph = await self._graph()
        graph.resume(node_id)
        self._stand_at(graph)
        await self._write([encode_line(head_record(node_id))])

    async def append_records(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append *records* that are no nodes; each has its own ``type``. Raises as :meth:`record`, and:

        Raises:
            InvalidInput: a record has no type, or that of a node or a head.
        """
        for record in records:
            if not isinstance(record.get("type"), str) or record["type"] in ("node", "head"):
                raise InvalidInput(f"a record of type {record.get('type')!r} cannot be stored as a note")
        await self._write([encode_line({"type": record["type"], **to_json(record)}) for record in records])

    def hold(self) -> None:
        """Let what is written from now on wait for :meth:`release`, which writes it in one piece.

        So a crash leaves all of it or nothing. What is held must follow without giving way to other tasks.
        """
        self._is_held = True

    async def release(self) -> None:
        """Write what was held. Raises as :meth:`record`."""
        self._is_held = False
        await self._write()

    def take_records(self) -> Sequence[Mapping[str, Any]]:
        """Return the records that are no nodes, as :meth:`load` read them, once: there is one a turn."""
        if self._stored is None:
            return ()
        records, self._stored = self._stored.records, replace(self._stored, records=())
        return records

    def turns_at(self, node_id: str) -> Sequence[Turn]:
        """Return the turns from the root to *node_id*.

        Raises:
            ValueError: there is no such node, or :meth:`load` has not been called.
        """
        if self._stored is None:
            raise ValueError("the session has not been loaded; call load first")
        return self._stored.graph.path_to(node_id)

    async def close(self) -> None:
        """Wait for the writes that run, and write what still waits. Raises as :meth:`record`."""
        await self._writer.settle()

    async def _graph(self) -> SessionGraph:
        async with self._opening:
            if self._stored is None:
                self._stored = await asyncio.to_thread(self._read)
                self._stand_at(self._stored.graph)
            return self._stored.graph

    def _new(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Leave out what an earlier call, which raised, has added already."""
        n = len(self._unwritten)
        begun = len(turns) >= n and all(a is b for a, b in zip(turns, self._unwritten, strict=False))
        return turns[n:] if n and begun else turns

    def _branch(self, graph: SessionGraph, turns: Sequence[Turn]) -> list[bytes]:
        shared = graph.shared_path(turns)
        graph.resume(shared[-1].id if shared else None)
        nodes = [graph.append(turn) for turn in turns[len(shared) :]]
        self._stand_at(graph)
        return [
            *(encode_line(node_record(node)) for node in nodes),
            encode_line(head_record(graph.leaf)),
        ]

    def _stand_at(self, graph: SessionGraph) -> None:
        self._path = [node.id for node in graph.node_path(graph.leaf)] if graph.leaf is not None else []
        self._path_view = None
        self._unwritten = []

    async def _write(self, lines: Sequence[bytes] = ()) -> None:
        if self._is_held:
            self._writer.hold(lines)
            return
        await self._writer.write(lines)
        if not self._writer.n_waiting:
            self._unwritten = []


def journal_in_memory(session_id: str, clock: Clock = wall_clock_ms) -> SessionJournal:
    """Return the journal of a session that is kept nowhere."""
    empty = StoredSession(SessionGraph(session_id, clock), (), Integrity())
    return SessionJournal(LineWriter(session_id, append_nowhere), lambda: empty)
