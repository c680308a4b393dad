"""Stored nodes as clients see them, and the paths through them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.conductor.errors import CompactionNotFound
from sidecar.protocol.messages import NodeView
from sidecar.runtime.contract import SessionNode
from sidecar.runtime.store import turn_to_record

__all__ = ["active_path", "compaction_path", "dropped_nodes", "node_view"]


def node_view(node: SessionNode) -> NodeView:
    """Return *node* as a client sees it."""
    record = turn_to_record(node.turn)
    return NodeView(node.id, node.parent, record["role"], tuple(record["blocks"]), node.created_at)


def active_path(nodes: Sequence[SessionNode], head: str | None) -> list[SessionNode]:
    """Return the nodes from the root to *head*."""
    by_id = {node.id: node for node in nodes}
    path: list[SessionNode] = []
    while head is not None and head in by_id:
        path.append(by_id.pop(head))
        head = path[-1].parent
    return path[::-1]


def compaction_path(
    sid: str,
    nodes: Sequence[SessionNode],
    records: Sequence[Mapping[str, Any]],
    view: Mapping[str, str],
) -> list[SessionNode]:
    """Return the conversation as it stood before the compaction that *view* names."""
    wanted = view.get("compactionId", "")
    for record in records:
        if record.get("type") == "compaction" and record.get("compaction_id") == wanted:
            return active_path(nodes, record.get("before_head"))
    raise CompactionNotFound(sid, wanted)


def dropped_nodes(nodes: Sequence[SessionNode], before_head: str | None, cut: int) -> list[SessionNode]:
    """Return the nodes a compaction folded away."""
    return active_path(nodes, before_head)[:cut]
