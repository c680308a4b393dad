"""A conversation is replayed as its user saw it, however often it was compacted since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import Location, ToolActivity
from sidecar.conductor.contract import Compaction
from sidecar.conductor.errors import CompactionNotFound
from sidecar.conductor.events import Message, ToolFinished, ToolLocation, ToolStarted, UserMessage
from sidecar.conversation import Entry, EntryKind, History, kind_by_role
from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.contract import SessionNode, ToolCall
from sidecar.runtime.store import SessionGraph
from sidecar.service.replay import entries_of_view, last_turns, replay_timeline, timeline

PARENTS = {
    "a": None,
    "b": "a",
    "c": "b",
    "digest-1": None,
    "kept-1": "digest-1",
    "d": "kept-1",
    "digest-2": None,
    "e": "digest-2",
}


def conversation() -> SessionGraph:
    """A conversation a, b, c that was condensed after c, went on with d, was condensed again, and has e."""
    return graph_of(PARENTS, "e")


def graph_of(parents: Mapping[str, str | None], leaf: str) -> SessionGraph:
    graph = SessionGraph("s")
    nodes = [SessionNode(name, parent, UserTurn((TextBlock(name),)), 0) for name, parent in parents.items()]
    graph.hydrate(nodes, leaf)
    return graph


def compaction(name: str, before: str | None, after: str | None, status: Any = "completed") -> Compaction:
    return Compaction(name, "none", "manual", status, 0, 0, 0, 0, 0, before, True, after_head=after)


FIRST = compaction("1", "c", "kept-1")
SECOND = compaction("2", "d", "digest-2")


@pytest.mark.parametrize(
    ("compactions", "head", "expected"),
    [
        pytest.param((), "c", "a b c", id="never compacted"),
        pytest.param((), None, "", id="nothing yet"),
        pytest.param((FIRST,), "d", "a b c [1] d", id="the compacted turns stand before it"),
        pytest.param((FIRST,), "kept-1", "a b c [1]", id="no turn since"),
        pytest.param((FIRST, SECOND), "e", "a b c [1] d [2] e", id="compacted twice"),
        pytest.param((SECOND,), "e", "digest-1 kept-1 d [2] e", id="an unknown summary is replayed as it is"),
        pytest.param((FIRST, SECOND), "c", "a b c", id="undone"),
        pytest.param(
            (compaction("1", "c", "kept-1", "undone"),),
            "d",
            "digest-1 kept-1 d",
            id="an undone one did nothing",
        ),
        pytest.param((compaction("n", None, "d"),), "d", "digest-1 kept-1 d", id="nor one of nothing"),
        pytest.param(
            (compaction("x", "d", "d"),), "d", "digest-1 kept-1 d [x]", id="one that ends where it began"
        ),
    ],
)
def test_the_timeline(compactions: tuple[Compaction, ...], head: str | None, expected: str) -> None:
    parts = timeline(conversation(), compactions, head)
    shown = (f"[{part.compaction_id}]" if isinstance(part, Compaction) else part.node_id for part in parts)
    assert " ".join(shown) == expected


PLACE = (ToolLocation(str(Path("/project"))),)


def describe(call: ToolCall) -> ToolActivity:
    title, place = f"List {call.input['path']}", Location(Path("/project"))
    return ToolActivity(
        phase="started",
        call_id=call.id,
        name=call.name,
        title=title,
        kind="search",
        input=call.input,
        locations=(place,),
    )


def test_the_events_of_a_timeline() -> None:
    turns: tuple[Turn, ...] = (
        UserTurn((TextBlock("look"),)),
        AssistantTurn((TextBlock("so"), ToolCallBlock("c1", "ls", {"path": "."}))),
        ToolTurn((ToolResultBlock("c1", "a.py", is_error=False),)),
    )
    entries = [Entry(turn, kind_by_role(turn), node_id=str(n)) for n, turn in enumerate(turns)]
    replayed = [event.data for event in replay_timeline("s", [*entries, FIRST], describe, {})]
    assert replayed == [
        UserMessage("0", ({"type": "text", "text": "look"},)),
        Message("1", ({"type": "text", "text": "so"},)),
        ToolStarted("c1", "ls", "List .", "search", {"path": "."}, PLACE),
        ToolFinished("c1", "ls", "List .", "search", "a.py", False, PLACE),
        FIRST,
    ]


def test_the_last_turns_begin_with_prompts_and_show_no_text_for_the_model() -> None:
    """Restored files and summaries stand under the user's role, and looked like prompts after a resume."""
    kinds: list[EntryKind] = ["summary", "file", "user", "assistant", "file", "note", "user", "assistant"]
    history = History(
        Entry((AssistantTurn if kind == "assistant" else UserTurn)((TextBlock(kind),)), kind, node_id=str(at))
        for at, kind in enumerate(kinds)
    )
    shown = [
        [event.data for event in replay_timeline("s", last_turns(history, n_prompts), describe, {})]
        for n_prompts in (1, 2, 3)
    ]
    prompt, answer = (({"type": "text", "text": kind},) for kind in ("user", "assistant"))
    older, newest = ([UserMessage(at, prompt), Message(then, answer)] for at, then in ("23", "67"))
    assert shown == [newest, [*older, *newest], [*older, *newest]]


def test_a_result_without_its_call_has_no_name() -> None:
    turn = ToolTurn((ToolResultBlock("c1", "a.py", is_error=True),))
    (event,) = replay_timeline("s", [Entry(turn, "tool", node_id="n")], describe, {})
    assert event.data == ToolFinished("c1", "tool", "tool", "other", "a.py", True)


# Views: the active path, every branch, or a moment of the past.

VIEW_PARENTS = {"a": None, "b": "a", "digest": None, "c": "digest"}


class FakeHub:
    """What a view asks of the hub: a conversation that was condensed after its second turn, and went on."""

    async def graph(self, sid: str) -> SessionGraph:
        return graph_of(VIEW_PARENTS, "c")

    async def compactions(self, sid: str) -> Sequence[Compaction]:
        return (compaction("done", "b", "digest"), compaction("noop", "b", None))


async def viewed(view: Any) -> list[str]:
    hub: Any = FakeHub()
    return [entry.node_id for entry in await entries_of_view(hub, "s", view)]


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param("active", ["digest", "c"], id="the path to the head"),
        pytest.param("full", ["a", "b", "digest", "c"], id="every branch"),
        pytest.param({"compactionId": "done"}, ["a", "b"], id="before a compaction"),
        pytest.param({"compactionId": "done", "at": "before"}, ["a", "b"], id="the same, spelled out"),
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
