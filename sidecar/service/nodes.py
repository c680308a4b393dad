"""Stored nodes as clients see them, and which of them a view shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.branching import node_kind
from sidecar.conductor.context import turn_tokens
from sidecar.conductor.errors import CompactionNotFound
from sidecar.conductor.history import GraphPort
from sidecar.conductor.hub import Hub
from sidecar.protocol.messages import NodeView, TreeNode
from sidecar.runtime.contract import SessionNode
from sidecar.runtime.store import turn_to_record

__all__ = ["node_view", "path_to", "tree_node", "viewed_nodes"]


def node_view(node: SessionNode) -> NodeView:
    """Return *node* as a client sees it."""
    record = turn_to_record(node.turn)
    return NodeView(node.id, node.parent, record["role"], tuple(record["blocks"]), node.created_at)


def tree_node(node: SessionNode) -> TreeNode:
    """Return *node* as a tree shows it."""
    return TreeNode(node.id, node.parent, node_kind(node.turn), turn_tokens(node.turn), node.created_at)


def path_to(graph: GraphPort, head: str | None) -> Sequence[SessionNode]:
    """Return the nodes from the root to *head*; none where that is before everything."""
    return () if head is None else graph.node_path(head)


async def viewed_nodes(hub: Hub, sid: str, view: str | Mapping[str, str]) -> Sequence[SessionNode]:
    """Return the nodes of the active path, of all branches, or as they were at ``{compactionId, at}``.

    Raises SessionNotFound, CompactionNotFound, InvalidInput.
    """
    graph = await hub.graph(sid)
    if view == "full":
        return graph.nodes
    if not isinstance(view, Mapping):
        return path_to(graph, graph.leaf)
    wanted, at = view.get("compactionId", ""), view.get("at", "before")
    if at not in ("before", "after"):
        raise InvalidInput(f"a view is before or after a compaction, not {at!r:.100}")
    for done in await hub.compactions(sid):
        if done.compaction_id == wanted:
            changed = at == "after" and done.after_head is not None
            return path_to(graph, done.after_head if changed else done.before_head)
    raise CompactionNotFound(sid, wanted)
