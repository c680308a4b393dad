"""A session as a graph of immutable nodes with one moving head. In memory; it touches no disk.

Branching is two nodes with one parent; the model's context is the path from a root to the head. Nothing is
ever removed, so every earlier state stays within reach.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from uuid import uuid4

from sidecar.conversation import Entry, kind_by_role
from sidecar.llmgateway.contract import Turn
from sidecar.runtime.contract import SessionNode
from sidecar.runtime.store.codec import hash_record, settled_turn
from sidecar.runtime.store.errors import UnknownNodeError

Clock: TypeAlias = Callable[[], int]
"""Returns the time in epoch milliseconds."""


def wall_clock_ms() -> int:
    """Return the time of day in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def new_id() -> str:
    """Return an id of its own: 32 hex digits, of a session, a turn or a client."""
    return uuid4().hex


class SessionGraph:
    """The nodes of one session and its head.

    >>> from sidecar.llmgateway.contract import TextBlock, UserTurn
    >>> graph = SessionGraph("s1", clock=lambda: 0)
    >>> node = graph.append(UserTurn((TextBlock("hi"),)))
    >>> graph.path_to(node.id)
    (UserTurn(blocks=(TextBlock(text='hi'),)),)
    """

    def __init__(self, session_id: str, clock: Clock = wall_clock_ms) -> None:
        self.session_id = session_id
        self._clock = clock
        self._entries: dict[str, Entry] = {}
        # The links of the first nodes, made when a branch needs them: they are a tenth of the memory of a
        # session. Most nodes have one child, and a list for each would be as much again.
        self._n_linked = 0
        self._first_child: dict[str | None, str] = {}
        self._further_children: dict[str | None, list[str]] = {}
        self._rewired: dict[str, str | None] = {}
        self._leaf: str | None = None
        # The path that was walked last, for its further pages; a path to a node never changes.
        self._walked: tuple[Entry, ...] = ()

    @property
    def leaf(self) -> str | None:
        """The head: the newest node of the active path, None before there is one."""
        return self._leaf

    @property
    def nodes(self) -> tuple[SessionNode, ...]:
        """Every node, in the order they were added."""
        return tuple(map(node_of, self._entries.values()))

    def node(self, node_id: str) -> SessionNode:
        """Return the node *node_id*. Raises KeyError for an unknown one."""
        return node_of(self._entries[node_id])

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The entry of every node, by its id; the mapping grows with the graph."""
        return self._entries

    def append(self, turn: Turn) -> SessionNode:
        """Add *turn* under the head, move the head to it and return its node.

        A turn that would get an id that is there already only moves the head. The node's turn is as a
        reload would bring it back: values that are not JSON are converted.
        """
        return node_of(self.append_entry(Entry(turn, kind_by_role(turn))))

    def append_entry(self, entry: Entry) -> Entry:
        """Add *entry* under the head as :meth:`append` does, and return it as it is stored."""
        stored = self.make_entry(self._leaf, entry)
        self.add_made(stored)
        return stored

    def make_entry(self, parent: str | None, entry: Entry) -> Entry:
        """Return *entry* as it is stored under *parent*; nothing is added.

        For a node that the graph has already this is the entry that it has.
        """
        settled, record = settled_turn(entry.turn)
        created_at = self._clock()
        node_id = hash_record(parent, record, created_at)
        while node_id in self._entries and self._entries[node_id].origin != entry.origin:
            # A summary of the same words, in the same millisecond, that stands for other entries.
            created_at += 1
            node_id = hash_record(parent, record, created_at)
        return self._entries.get(node_id) or replace(
            entry, turn=settled, node_id=node_id, parent=parent, created_at=created_at
        )

    def add_made(self, entry: Entry) -> None:
        """Add an entry as :meth:`make_entry` returned it, and move the head to it."""
        self._leaf = self._entries.setdefault(entry.node_id, entry).node_id

    def amend(self, entries: Iterable[Entry]) -> None:
        """Replace the entries of nodes; an entry of an unknown node is left out."""
        self._entries |= {entry.node_id: entry for entry in entries if entry.node_id in self._entries}
        self._walked = ()

    def branch_from(self, node_id: str | None, turn: Turn) -> SessionNode:
        """Add *turn* under *node_id*, or as a root for None, and move the head to it.

        Raises:
            UnknownNodeError: also a ValueError.
        """
        self.stand_at(node_id)
        return self.append(turn)

    def resume(self, node_id: str | None) -> tuple[Turn, ...]:
        """Move the head to *node_id*, or before every node for None, and return the turns up to there.

        Raises:
            UnknownNodeError: also a ValueError.
        """
        turns = () if node_id is None else self.path_to(node_id)
        self.stand_at(node_id)
        return turns

    def stand_at(self, node_id: str | None) -> None:
        """Move the head as :meth:`resume` does; costs the same however long the path is."""
        if node_id is not None and node_id not in self._entries:
            raise UnknownNodeError(self.session_id, node_id)
        self._leaf = node_id

    def path_to(self, node_id: str) -> tuple[Turn, ...]:
        """Return the turns from the root to *node_id*; raises as :meth:`entry_path`."""
        return tuple(entry.turn for entry in self._walk(node_id))

    def entry_path(self, node_id: str | None) -> tuple[Entry, ...]:
        """Return the entries from the root to *node_id*, none for None.

        Raises:
            UnknownNodeError: *node_id*, or a parent on the way, is not there. Also a ValueError.
            ValueError: the parents run in a circle.
        """
        return () if node_id is None else tuple(self._walk(node_id))

    def kept_path(self, node_id: str | None) -> tuple[Entry, ...]:
        """Return :meth:`entry_path`, and keep it for the further pages of a reader.

        To walk a path of 100,000 entries takes a tenth of a second, which a page on the event loop may not.
        """
        if not self._walked or self._walked[-1].node_id != node_id:
            self._walked = self.entry_path(node_id)
        return self._walked

    def page(self, page: range, *, of_path: bool) -> Sequence[Entry]:
        """Return the entries with the numbers *page*, on the path to the head or in the order they came."""
        entries = self.kept_path(self._leaf) if of_path else tuple(self._entries.values())
        return entries[page.start : page.stop]

    def hydrate(self, nodes: Iterable[SessionNode], leaf: str | None = None) -> None:
        """Replace everything by *nodes*, each an entry of the kind of its role; else as :meth:`restore`."""
        self.restore(map(entry_of, nodes), leaf)

    def restore(
        self,
        entries: Iterable[Entry],
        leaf: str | None = None,
        rewired: Mapping[str, str | None] | None = None,
    ) -> None:
        """Replace everything by *entries*.

        Args:
            entries: the entry of every node, in the order they were stored.
            leaf: the head. Without one that is among them, the newest node without children is adopted,
                so that no history is lost from view.
            rewired: the new parents of nodes that lost theirs.
        """
        self._entries = {entry.node_id: entry for entry in entries}
        self._rewired = dict(rewired or {})
        self._walked = ()
        self._n_linked, self._first_child, self._further_children = 0, {}, {}
        self._leaf = leaf if leaf in self._entries else self._newest_leaf()

    def shared_path(self, turns: Sequence[Turn], behind: str | None = None) -> tuple[Entry, ...]:
        """Return the longest path behind a node that *turns* begin with; of equal ones the active.

        Args:
            turns: the turns.
            behind: the node before the first of them, None for the beginning.
        """
        ends: list[str | None] = [behind]
        n_shared = 0
        for turn in turns:
            children = [child for end in ends for child in self.children_of(end)]
            is_same = all(self._entries[child].turn is turn for child in children)
            # There are as many beginnings as branches, so what is stored is compared as it is.
            stored = turn if is_same else settled_turn(turn)[0]
            alike: list[str | None] = [child for child in children if self._entries[child].turn == stored]
            if not alike:
                break
            ends, n_shared = alike, n_shared + 1
        end = ends[0]
        if len(ends) > 1 and self._leaf is not None:
            active = {entry.node_id for entry in self._walk(self._leaf)}
            end = max(ends, key=active.__contains__)
        return self.entry_path(end)[-n_shared:] if n_shared else ()

    def children_of(self, parent: str | None) -> Iterator[str]:
        """Yield the ids of the nodes that follow on *parent*, of the roots for None."""
        if self._n_linked < len(self._entries):
            # In one step: others may add entries while a thread links them.
            entries = tuple(self._entries.values())
            for entry in entries[self._n_linked :]:
                before = self._parent_of(entry)
                if self._first_child.setdefault(before, entry.node_id) is not entry.node_id:
                    self._further_children.setdefault(before, []).append(entry.node_id)
            self._n_linked = len(entries)
        if parent in self._first_child:
            yield self._first_child[parent]
            yield from self._further_children.get(parent, ())

    def _parent_of(self, entry: Entry) -> str | None:
        return self._rewired.get(entry.node_id, entry.parent)

    def _walk(self, node_id: str) -> list[Entry]:
        path: list[Entry] = []
        entries, rewired = self._entries, self._rewired
        at: str | None = node_id
        # Step by step and in Python, for a thread that others do not have to wait for.
        while at is not None:
            entry = entries.get(at)
            if entry is None:
                raise UnknownNodeError(self.session_id, at)
            if len(path) == len(entries):
                raise ValueError(f"session {self.session_id!r}: the parents of {node_id!r} run in a circle")
            path.append(entry)
            at = rewired.get(at, entry.parent) if rewired else entry.parent
        path.reverse()
        return path

    def _newest_leaf(self) -> str | None:
        parents = set(map(self._parent_of, self._entries.values()))
        leaves = [entry for entry in self._entries.values() if entry.node_id not in parents]
        candidates = reversed(leaves or tuple(self._entries.values()))
        newest = max(candidates, key=lambda entry: entry.created_at, default=None)
        return newest.node_id if newest is not None else None


def node_of(entry: Entry) -> SessionNode:
    """Return the node of a stored *entry*."""
    return SessionNode(entry.node_id, entry.parent, entry.turn, entry.created_at)


def entry_of(node: SessionNode) -> Entry:
    """Return the entry of a *node* of which no more is known."""
    kind = kind_by_role(node.turn)
    return Entry(node.turn, kind, node_id=node.id, parent=node.parent, created_at=node.created_at)
