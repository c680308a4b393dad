"""The graph of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import TextBlock, ToolResultBlock, ToolTurn, Turn, UserTurn
from sidecar.runtime.contract import SessionNode
from sidecar.runtime.store import SessionGraph, UnknownNodeError
from turns import user

Clock = Callable[[], int]


def node(name: str, parent: str | None, created_at: int = 0) -> SessionNode:
    return SessionNode(name, parent, UserTurn((TextBlock(name),)), created_at)


def test_a_branch_shares_its_parent_and_the_old_one_stays(clock: Clock) -> None:
    graph = SessionGraph("s", clock)
    a, b = graph.append(user("a")), graph.append(user("b"))
    c = graph.branch_from(a.id, user("c"))
    assert (graph.leaf, c.parent) == (c.id, a.id)
    assert graph.path_to(b.id) == (user("a"), user("b"))
    assert graph.nodes == (a, b, c)


def test_resuming_moves_the_head_and_returns_the_turns(clock: Clock) -> None:
    graph = SessionGraph("s", clock)
    a = graph.append(user("a"))
    graph.append(user("b"))
    assert graph.resume(a.id) == (user("a"),)
    assert graph.append(user("c")).parent == a.id
    assert graph.resume(None) == ()
    assert graph.append(user("d")).parent is None


def test_appending_the_same_again_only_moves_the_head() -> None:
    graph = SessionGraph("s", clock=lambda: 0)
    a = graph.append(user("a"))
    graph.append(user("b"))
    assert graph.branch_from(None, user("a")) == a
    assert (graph.leaf, len(graph.nodes)) == (a.id, 2)


@pytest.mark.parametrize("act", ["path_to", "resume", "branch_from"])
def test_an_unknown_node_is_a_value_error(act: str) -> None:
    graph = SessionGraph("s")
    arguments = ("nope", user("x")) if act == "branch_from" else ("nope",)
    with pytest.raises(ValueError, match="no node 'nope'"):
        getattr(graph, act)(*arguments)


def test_a_missing_parent_is_a_value_error() -> None:
    graph = SessionGraph("s")
    graph.hydrate([node("b", "a")], "b")
    with pytest.raises(ValueError, match="no node 'a'"):
        graph.path_to("b")


@pytest.mark.parametrize(
    ("leaf", "adopted"),
    [
        pytest.param("a", "a", id="a known head"),
        pytest.param(None, "d", id="no head: the newest leaf"),
        pytest.param("gone", "d", id="an unknown head: the newest leaf"),
    ],
)
def test_hydrating_never_loses_history_from_view(leaf: str | None, adopted: str) -> None:
    graph = SessionGraph("s")
    graph.hydrate([node("a", None, 1), node("c", "a", 9), node("d", "a", 9), node("b", "c", 3)], leaf)
    assert graph.leaf == adopted


def test_a_node_holds_what_a_reload_would_bring_back(clock: Clock) -> None:
    graph = SessionGraph("s", clock)
    stored = graph.append(ToolTurn((ToolResultBlock("c1", {"rows": {2, 1}}),)))
    assert stored.turn == ToolTurn((ToolResultBlock("c1", {"rows": [1, 2]}),))


def test_shared_path_prefers_the_active_branch(clock: Clock) -> None:
    graph = SessionGraph("s", clock)
    first = graph.append(user("a"))
    graph.append(user("b"))
    second = graph.branch_from(None, user("a"))
    graph.append(user("c"))
    assert [each.node_id for each in graph.shared_path([user("a"), user("x")])] == [second.id]
    graph.resume(first.id)
    assert [each.node_id for each in graph.shared_path([user("a"), user("b")])] == [
        node.id for node in graph.nodes[:2]
    ]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=30))
def test_random_trees_keep_every_path(steps: list[tuple[int, int]]) -> None:
    """Each step branches from some node, or appends; every node keeps the path it was made with."""
    graph = SessionGraph("s", clock=lambda: len(graph.nodes))
    paths: dict[str | None, tuple[Turn, ...]] = {None: ()}
    for at, text in steps:
        parent = list(paths)[at % len(paths)]
        turn = UserTurn((TextBlock(str(text)),))
        made = graph.branch_from(parent, turn)
        paths.setdefault(made.id, (*paths[parent], turn))
    copy = SessionGraph("s")
    copy.hydrate(graph.nodes, graph.leaf)
    for name, turns in paths.items():
        if name is not None:
            assert copy.path_to(name) == graph.path_to(name) == turns
            assert tuple(each.turn for each in graph.shared_path(turns)) == turns


def test_a_path_is_walked_once_for_all_of_its_pages(clock: Clock) -> None:
    graph = SessionGraph("s", clock)
    first, second = graph.append(user("a")), graph.append(user("b"))
    path = graph.kept_path(second.id)
    assert [entry.node_id for entry in path] == [first.id, second.id]
    third = graph.append(user("c"))
    assert graph.kept_path(second.id) is path
    assert [entry.node_id for entry in graph.kept_path(third.id)] == [first.id, second.id, third.id]
    graph.amend([replace(path[0], kind="note")])
    assert [entry.kind for entry in graph.kept_path(third.id)] == ["note", "user", "user"]
    graph.hydrate([first], first.id)
    with pytest.raises(UnknownNodeError):
        graph.kept_path(third.id)


def test_children_are_linked_when_they_are_asked_for(clock: Clock) -> None:
    graph = SessionGraph("s", clock)
    first = graph.append(user("a"))
    assert list(graph.children_of(None)) == [first.id]
    children = [graph.branch_from(first.id, user(text)).id for text in "bc"]
    assert list(graph.children_of(first.id)) == children
    children.append(graph.branch_from(first.id, user("d")).id)
    assert list(graph.children_of(first.id)) == children
    graph.hydrate([first], first.id)
    assert list(graph.children_of(first.id)) == []
