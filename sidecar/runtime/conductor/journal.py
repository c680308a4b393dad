"""The journal of a run: only new turns are written, and a run never waits on a broken disk.

Storing is advisory: turns that could not be written stay due and go with the next write. A host may move the
journal while its agent is at rest, or between two model calls; the agent then follows the journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import filterfalse
from operator import is_
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from sidecar.conversation import AppendOnlySeq
from sidecar.llmgateway.contract import Turn
from sidecar.runtime.cadence import RunMessages
from sidecar.runtime.contract import SessionNode
from sidecar.runtime.ledger import notify
from sidecar.runtime.wire import is_blank

if TYPE_CHECKING:
    from sidecar.runtime.store import SessionGraph

StoreErrorHandler: TypeAlias = Callable[[Exception], None]
"""Called when the journal fails, once until it works again. Contract: an exception of it is swallowed."""


class Journal(Protocol):
    """The stored turns of one session, on a branch that ends at its head.

    Contract: calls never overlap. A call that raises is made again later, with the same turns and the new
    ones behind them; the journal stores each turn once.
    """

    @property
    def turns(self) -> AppendOnlySeq[Turn]:
        """The turns up to the head as far as they are loaded; one sequence while they only grow."""
        ...

    async def record(self, turns: Sequence[Turn]) -> None:
        """Append *turns*, at least one, after the head."""
        ...

    async def branch(self, turns: Sequence[Turn]) -> None:
        """Begin a new branch that holds exactly *turns*, possibly none, and move the head to its end."""
        ...

    async def load(self) -> Sequence[Turn]:
        """Return the turns up to the head, oldest first; none when the session is not stored."""
        ...


@runtime_checkable
class JournalStore(Protocol):
    """A store of sessions that hands out their journals."""

    def journal(self, session_id: str) -> Journal:
        """Return the journal of *session_id*, which need not exist yet."""
        ...


class NodeStore(Protocol):
    """A store of sessions that takes and returns nodes; a :class:`NodeJournal` writes into it."""

    async def append_node(self, session_id: str, node: SessionNode) -> None:
        """Store *node* and make it the head; a node that is stored already only becomes the head."""
        ...

    async def load_session(self, session_id: str) -> SessionGraph:
        """Return the graph of *session_id*, empty when nothing is stored."""
        ...


class NodeJournal:
    """The journal of one session in a :class:`NodeStore`.

    Nodes that could not be stored wait and go first with the next call.
    """

    def __init__(self, store: NodeStore, session_id: str) -> None:
        self.turns: AppendOnlySeq[Turn] = AppendOnlySeq()
        self._store = store
        self._session_id = session_id
        self._graph: SessionGraph | None = None
        self._waiting: deque[SessionNode] = deque()
        self._unstored: list[Turn] = []

    async def record(self, turns: Sequence[Turn]) -> None:
        """Append *turns* after the head; turns of a call that failed may be among them again."""
        graph = self._graph or await self._load()
        n = len(self._unstored)
        is_retry = len(turns) >= n and all(a is b for a, b in zip(turns, self._unstored, strict=False))
        new = turns[n:] if is_retry else turns
        self._waiting.extend(graph.append(turn) for turn in new)
        self._unstored.extend(new)
        await self._write()
        self.turns = self.turns.extended(turns)

    async def branch(self, turns: Sequence[Turn]) -> None:
        """Begin a branch with *turns*; where a stored path begins like that, its nodes are shared."""
        graph = self._graph or await self._load()
        shared = graph.shared_path(turns)
        graph.resume(shared[-1].node_id if shared else None)
        self._waiting.extend(graph.node(entry.node_id) for entry in shared[-1:])
        self._waiting.extend(graph.append(turn) for turn in turns[len(shared) :])
        self._unstored.clear()
        await self._write()
        self.turns = AppendOnlySeq(turns)

    async def load(self) -> Sequence[Turn]:
        """Return the turns up to the head."""
        await self._load()
        return tuple(self.turns)

    async def _load(self) -> SessionGraph:
        graph = self._graph = await self._store.load_session(self._session_id)
        self.turns = AppendOnlySeq(graph.path_to(graph.leaf) if graph.leaf is not None else ())
        return graph

    async def _write(self) -> None:
        while self._waiting:
            await self._store.append_node(self._session_id, self._waiting[0])
            self._waiting.popleft()
        self._unstored.clear()


class JournalWriter:
    """Keeps a run and its journal equal: writes new turns, and follows a journal that the host moved.

    Without a journal there is nothing to keep.
    """

    def __init__(self, journal: Journal | None, on_error: StoreErrorHandler | None) -> None:
        self._journal = journal
        self._on_error = on_error
        self._stored: AppendOnlySeq[Turn] = AppendOnlySeq()
        self._seen: AppendOnlySeq[Turn] = AppendOnlySeq()
        self._ahead: tuple[AppendOnlySeq[Turn], RunMessages] = (AppendOnlySeq(), RunMessages.of(()))
        self._is_failing = False

    def prepare(self, turns: AppendOnlySeq[Turn]) -> RunMessages:
        """Return the transcript of *turns*, to which the journal is about to move, for :meth:`follow`.

        For 100,000 turns that takes a fifth of a second, which no other session waits for in a thread.
        """
        self._ahead = turns, RunMessages.of(tuple(filterfalse(is_blank, turns)))
        return self._ahead[1]

    def begin(self, history: RunMessages) -> None:
        """Record that the finished turns of *history* need not be written; the journal may hold more."""
        self._stored = history.finished

    def adopt(self, history: RunMessages) -> None:
        """Record that the journal holds exactly the finished turns of *history*."""
        self.begin(history)
        if self._journal is not None:
            self._seen = self._journal.turns

    def follow(self, history: RunMessages) -> RunMessages | None:
        """Return the transcript after *history* where the host has moved the journal, else None.

        A prompt that the host appended costs only itself; a compaction, an undo or a rewind costs the path,
        unless that was prepared.
        """
        if self._journal is None:
            return None
        turns = self._journal.turns
        added, self._seen = turns.since(self._seen), turns
        if added == ():
            return None
        if added is None:
            known, history = self._ahead
            self._ahead = AppendOnlySeq(), RunMessages.of(())
            # By identity, since a path that goes on where it had gone on before is another sequence.
            if len(turns) >= len(known) and all(map(is_, turns, known)):
                added = turns[len(known) :]
        if added is None:
            moved = RunMessages.of(tuple(filterfalse(is_blank, turns)))
        else:
            moved = history.with_turns(filterfalse(is_blank, added))
        self._stored = moved.finished
        return moved

    async def store(self, messages: Sequence[Turn]) -> None:
        """Write the finished turns of *messages*: the new ones, or all of them as a branch after a cut."""
        if self._journal is None:
            return
        finished = RunMessages.of(messages).finished
        try:
            added = finished.since(self._stored)
            turns = tuple(filterfalse(is_blank, finished if added is None else added))
            if added is None:
                await self._journal.branch(turns)
            elif turns:
                await self._journal.record(turns)
        except Exception as error:
            # Advisory: the run goes on, and the turns are written with the next ones.
            if not self._is_failing:
                notify(self._on_error, error)
            self._is_failing = True
        else:
            self._stored = finished
            self._seen = self._journal.turns
            self._is_failing = False
