"""Which nodes a view shows: the active path, every branch, or a moment of the past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import Compaction
from sidecar.conductor.errors import CompactionNotFound
from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.runtime.contract import SessionNode
from sidecar.service.nodes import viewed_nodes

PARENTS = {"a": None, "b": "a", "digest": None, "c": "digest"}
NODES = {name: SessionNode(name, parent, UserTurn((TextBlock(name),)), 0) for name, parent in PARENTS.items()}


class Graph:
    """A conversation that was condensed after its second turn, and went on."""

    nodes: Sequence[SessionNode] = tuple(NODES.values())
    leaf = "c"

    def node_path(self, leaf_id: str) -> Sequence[SessionNode]:
        node = NODES[leaf_id]
        return (*(self.node_path(node.parent) if node.parent else ()), node)


def compaction(name: str, after_head: str | None) -> Compaction:
    return Compaction(name, "none", "manual", "completed", 0, 0, 0, 0, 0, "b", True, after_head=after_head)


class FakeHub:
    """What a view asks of the hub."""

    async def graph(self, sid: str) -> Graph:
        return Graph()

    async def compactions(self, sid: str) -> Sequence[Compaction]:
        return (compaction("done", "digest"), compaction("noop", None))


async def viewed(view: Any) -> list[str]:
    hub: Any = FakeHub()
    return [node.id for node in await viewed_nodes(hub, "s", view)]


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param("active", ["digest", "c"], id="the path to the head"),
        pytest.param("full", ["a", "b", "digest", "c"], id="every branch"),
        pytest.param({"compactionId": "done"}, ["a", "b"], id="before a compaction"),
        pytest.param({"compactionId": "done", "at": "before"}, ["a", "b"], id="the same, said"),
        pytest.param({"compactionId": "done", "at": "after"}, ["digest"], id="after it"),
        pytest.param({"compactionId": "noop", "at": "after"}, ["a", "b"], id="after one that did nothing"),
    ],
)
async def test_a_view(view: Any, expected: list[str]) -> None:
    assert await viewed(view) == expected


async def test_an_unknown_moment_is_refused() -> None:
    with pytest.raises(CompactionNotFound):
        await viewed({"compactionId": "other"})
    with pytest.raises(InvalidInput, match="before or after"):
        await viewed({"compactionId": "done", "at": "during"})
