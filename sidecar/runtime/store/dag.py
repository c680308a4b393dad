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
        self._nodes: dict[str, SessionNode] = {}
        self._entries: dict[str, Entry] = {}
        # The links of the first nodes, made when a branch needs them: they are a tenth of the memory of a
        # session. Most nodes have one child, and a list for each would be as much again.
        self._n_linked = 0
        self._first_child: dict[str | None, str] = {}
        self._further_children: dict[str | None, list[str]] = {}
        self._rewired: dict[str, str | None] = {}
        self._leaf: str | None = None
        # The path that was walked last, for its further pages; a path to a node never changes.
        self._walked: tuple[SessionNode, ...] = ()

    @property
    def leaf(self) -> str | None:
        """The head: the newest node of the active path, None before there is one."""
        return self._leaf

    @property
    def nodes(self) -> tuple[SessionNode, ...]:
        """Every node, in the order they were added."""
        return tuple(self._nodes.values())

    def node(self, node_id: str) -> SessionNode:
        """Return the node *node_id*. Raises KeyError for an unknown one."""
        return self._nodes[node_id]

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The entry of every node, by its id; the mapping grows with the graph."""
        return self._entries

    def append(self, turn: Turn) -> SessionNode:
        """Add *turn* under the head, move the head to it and return its node.

        A turn that would get an id that is there already only moves the head. The node's turn is as a
        reload would bring it back: values that are not JSON are converted.
        """
        return self._add(self._leaf, Entry(turn, kind_by_role(turn)))

    def append_entry(self, entry: Entry) -> Entry:
        """Add *entry* under the head as :meth:`append` does, and return it with its node."""
        return self._entries[self._add(self._leaf, entry).id]

    def make_node(self, parent: str | None, entry: Entry) -> tuple[SessionNode, Entry]:
        """Return the node of *entry* under *parent*, and its stored entry; nothing is added.

        A node that the graph has already is returned with the entry that it has.
        """
        settled, record = settled_turn(entry.turn)
        created_at = self._clock()
        node = SessionNode(hash_record(parent, record, created_at), parent, settled, created_at)
        while node.id in self._nodes and self._entries[node.id].origin != entry.origin:
            # A summary of the same words, in the same millisecond, that stands for other entries.
            created_at += 1
            node = SessionNode(hash_record(parent, record, created_at), parent, settled, created_at)
        if node.id in self._nodes:
            return self._nodes[node.id], self._entries[node.id]
        return node, replace(entry, turn=settled, node_id=node.id)

    def add_made(self, node: SessionNode, entry: Entry) -> None:
        """Add a node and its entry as :meth:`make_node` returned them, and move the head to it."""
        if node.id not in self._nodes:
            self._nodes[node.id] = node
            self._entries[node.id] = entry
        self._leaf = node.id

    def amend(self, entries: Iterable[Entry]) -> None:
        """Replace the entries of nodes; an entry of an unknown node is left out."""
        self._entries |= {entry.node_id: entry for entry in entries if entry.node_id in self._nodes}

    def branch_from(self, node_id: str | None, turn: Turn) -> SessionNode:
        """Add *turn* under *node_id*, or as a root for None, and move the head to it.

        Raises:
            UnknownNodeError: also a ValueError.
        """
        if node_id is not None and node_id not in self._nodes:
            raise UnknownNodeError(self.session_id, node_id)
        return self._add(node_id, Entry(turn, kind_by_role(turn)))

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
        if node_id is not None and node_id not in self._nodes:
            raise UnknownNodeError(self.session_id, node_id)
        self._leaf = node_id

    def path_to(self, node_id: str) -> tuple[Turn, ...]:
        """Return the turns from the root to *node_id*; raises as :meth:`node_path`."""
        return tuple(node.turn for node in self.node_path(node_id))

    def node_path(self, node_id: str) -> tuple[SessionNode, ...]:
        """Return the nodes from the root to *node_id*.

        Raises:
            UnknownNodeError: *node_id*, or a parent on the way, is not there. Also a ValueError.
            ValueError: the parents run in a circle.
        """
        if not self._walked or self._walked[-1].id != node_id:
            self._walked = tuple(self._walk(node_id))
        return self._walked

    def entry_path(self, node_id: str | None) -> tuple[Entry, ...]:
        """Return the entries from the root to *node_id*, none for None; raises as :meth:`node_path`."""
        return () if node_id is None else tuple([self._entries[node.id] for node in self._walk(node_id)])

    def hydrate(
        self,
        nodes: Iterable[SessionNode],
        leaf: str | None = None,
        rewired: Mapping[str, str | None] | None = None,
        entries: Mapping[str, Entry] | None = None,
    ) -> None:
        """Replace everything by *nodes*.

        Args:
            nodes: every node, in the order they were stored.
            leaf: the head. Without one that is among *nodes*, the newest node without children is adopted,
                so that no history is lost from view.
            rewired: the new parents of nodes that lost theirs.
            entries: the entries of the nodes by id; a node without one gets the kind of its role.
        """
        self._nodes = {node.id: node for node in nodes}
        known = entries or {}
        self._entries = {
            node.id: known.get(node.id) or Entry(node.turn, kind_by_role(node.turn), node_id=node.id)
            for node in self._nodes.values()
        }
        self._rewired = dict(rewired or {})
        self._walked = ()
        self._n_linked, self._first_child, self._further_children = 0, {}, {}
        self._leaf = leaf if leaf in self._nodes else self._newest_leaf()

    def shared_path(self, turns: Sequence[Turn], behind: str | None = None) -> tuple[SessionNode, ...]:
        """Return the longest path behind a node that *turns* begin with; of equal ones the active.

        Args:
            turns: the turns.
            behind: the node before the first of them, None for the beginning.
        """
        ends: list[str | None] = [behind]
        n_shared = 0
        for turn in turns:
            children = [child for end in ends for child in self.children_of(end)]
            is_same = all(self._nodes[child].turn is turn for child in children)
            # There are as many beginnings as branches, so what is stored is compared as it is.
            stored = turn if is_same else settled_turn(turn)[0]
            alike: list[str | None] = [child for child in children if self._nodes[child].turn == stored]
            if not alike:
                break
            ends, n_shared = alike, n_shared + 1
        end = ends[0]
        if len(ends) > 1 and self._leaf is not None:
            active = {node.id for node in self.node_path(self._leaf)}
            end = max(ends, key=active.__contains__)
        return self.node_path(end)[-n_shared:] if end is not None and n_shared else ()

    def _add(self, parent: str | None, entry: Entry) -> SessionNode:
        node, stored = self.make_node(parent, entry)
        self.add_made(node, stored)
        return node

    def children_of(self, parent: str | None) -> Iterator[str]:
        """Yield the ids of the nodes that follow on *parent*, of the roots for None."""
        if self._n_linked < len(self._nodes):
            nodes = tuple(self._nodes.values())  # in one step: others may add nodes while a thread links them
            for node in nodes[self._n_linked :]:
                before = self._parent_of(node)
                if self._first_child.setdefault(before, node.id) is not node.id:
                    self._further_children.setdefault(before, []).append(node.id)
            self._n_linked = len(nodes)
        if parent in self._first_child:
            yield self._first_child[parent]
            yield from self._further_children.get(parent, ())

    def _parent_of(self, node: SessionNode) -> str | None:
        return self._rewired.get(node.id, node.parent)

    def _walk(self, node_id: str) -> list[SessionNode]:
        path: list[SessionNode] = []
        nodes, rewired = self._nodes, self._rewired
        at: str | None = node_id
        # Step by step and in Python, for a thread that others do not have to wait for.
        while at is not None:
            node = nodes.get(at)
            if node is None:
                raise UnknownNodeError(self.session_id, at)
            if len(path) == len(nodes):
                raise ValueError(f"session {self.session_id!r}: the parents of {node_id!r} run in a circle")
            path.append(node)
            at = rewired.get(at, node.parent) if rewired else node.parent
        path.reverse()
        return path

    def _newest_leaf(self) -> str | None:
        parents = set(map(self._parent_of, self._nodes.values()))
        leaves = [node for node in self._nodes.values() if node.id not in parents]
        candidates = reversed(leaves or tuple(self._nodes.values()))
        newest = max(candidates, key=lambda node: node.created_at, default=None)
        return newest.id if newest is not None else None
