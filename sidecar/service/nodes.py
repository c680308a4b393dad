"""Stored nodes as clients see them, and the paths through them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.conductor.history import GraphPort
from sidecar.protocol.messages import NodeView
from sidecar.runtime.contract import SessionNode
from sidecar.runtime.store import turn_to_record

__all__ = ["node_view", "path_to"]


def node_view(node: SessionNode) -> NodeView:
    """Return *node* as a client sees it."""
    record = turn_to_record(node.turn)
    return NodeView(node.id, node.parent, record["role"], tuple(record["blocks"]), node.created_at)


def path_to(graph: GraphPort, head: str | None) -> Sequence[SessionNode]:
    """Return the nodes from the root to *head*; none where that is before everything."""
    return () if head is None else graph.node_path(head)
