"""Expansion: turns behind a summary come back as they were said, within the limit, and undo leads back."""

from __future__ import annotations

from typing import Any

import pytest

from fake_tools import FakeTool
from long_talks import DIGEST, LONG
from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import Compaction
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.errors import CompactionNotFound, ExpansionTooLargeError, NodeNotFound
from sidecar.conductor.hub import ForkOf
from sidecar.conductor.record.compactions import with_undoable_now
from sidecar.conductor.session import Session
from sidecar.conductor.window.compaction.expanding import ExpandRequest, expand_entries, find_originals
from sidecar.conversation import Entry, EntryKind, History
from sidecar.llmgateway.contract import Turn
from sidecar.llmgateway.scripted import Call, Say
from turns import user

WHOLE = ExpandRequest()


async def expand(session: Session, request: ExpandRequest = WHOLE) -> Compaction:
    done = await session.expand(request, expect_head=None)
    assert isinstance(done, Compaction)
    return done


async def a_summary(
    make_stage: Any, engine: str = "windowBudget", **options: Any
) -> tuple[Any, Session, Compaction, tuple[Turn, ...]]:
    """A compacted session, its compaction, and the turns as they were before it."""
    calls = [Call("run", {"command": "make"})]
    script = [[Say(LONG)], calls, [Say(LONG)], [Say(LONG)], [Say(DIGEST)], [Say("ok")]]
    stage = await make_stage(script, tools=[FakeTool("run")], repeat=True, **options)
    session = await stage.session(engine=engine)
    for prompt in ("one", "two", "three"):
        await stage.ask(session, prompt)
    before = tuple(session.record.history.turns)
    done = await session.compact(CompactionRequest()).outcome
    assert done.status == "completed", done
    return stage, session, done, before


@pytest.mark.parametrize("engine", ["windowBudget", "agentcore", "runtime"])
async def test_the_originals_stand_in_the_place_of_the_summary(make_stage: Any, engine: str) -> None:
    stage, session, done, before = await a_summary(make_stage, engine)
    await stage.ask(session, "and now?")
    later = tuple(session.record.history.turns)[-2:]
    expanded = await expand(session)
    assert (expanded.trigger, expanded.status) == ("expand", "completed")
    assert tuple(session.record.history.turns) == before + later
    assert expanded.post_tokens is not None
    assert expanded.post_tokens > expanded.pre_tokens
    await stage.ask(session, "go on")
    assert str(before[1]) in str(stage.model.calls[-1].conversation.turns)
    undone = (await session.undo(None, force=False, expect_head=None)).compaction
    assert undone.compaction_id == expanded.compaction_id
    assert session.record.history.current[0].kind == "summary"
    assert [entry.kind for entry in session.record.history.current[-2:]] == ["user", "assistant"]
    undone = (await session.undo(None, force=False, expect_head=None)).compaction
    assert undone.compaction_id == done.compaction_id
    assert tuple(session.record.history.turns)[: len(before)] == before


async def test_a_compaction_after_an_expansion_folds_again(make_stage: Any) -> None:
    _, session, _, before = await a_summary(make_stage)
    await expand(session)
    again = await session.compact(CompactionRequest()).outcome
    assert again.status == "completed"
    assert [entry.turn for entry in session.record.history.current.originals()] == [*before]
    listed = with_undoable_now(session.record.compactions.all, session.record.history.current)
    assert [(each.trigger, each.undoable) for each in listed] == [
        ("manual", False),
        ("expand", False),
        ("manual", True),
    ]


async def test_some_nodes_come_back_with_their_results_and_the_summary_stands_for_the_rest(
    make_stage: Any,
) -> None:
    stage, session, _, before = await a_summary(make_stage)
    folded = session.record.history.current.list_folded()
    call = next(entry for entry in folded if entry.kind == "assistant" and "make" in str(entry.turn))
    done = await expand(session, ExpandRequest(node_ids=(call.node_id,)))
    assert (done.info or {})["expandedCount"] == 2
    kinds = [entry.kind for entry in session.record.history.current]
    assert kinds[:3] == ["summary", "assistant", "tool"]
    assert [entry.turn for entry in session.record.history.current.originals()] == [*before]
    left = session.record.history.current.list_folded()
    assert len(left) == len(folded) - 2
    await stage.ask(session, "go on")
    rest = await expand(session)
    assert (rest.info or {})["expandedCount"] == len(left)
    assert tuple(session.record.history.turns)[: len(before)] == before


async def test_a_range_comes_back(make_stage: Any) -> None:
    _, session, _, before = await a_summary(make_stage)
    folded = session.record.history.current.list_folded()
    await expand(session, ExpandRequest(last=folded[1].node_id))
    assert tuple(session.record.history.turns)[1:3] == before[:2]
    with pytest.raises(NodeNotFound):
        await expand(session, ExpandRequest(first="nowhere"))
    ids = [entry.node_id for entry in session.record.history.current.list_folded()]
    with pytest.raises(InvalidInput, match="the range is empty"):
        await expand(session, ExpandRequest(first=ids[-1], last=ids[0]))


async def test_originals_that_do_not_fit_are_refused_with_how_much_does(make_stage: Any) -> None:
    stage, session, done, _ = await a_summary(make_stage)
    head = session.record.history.head
    stage.smaller_window(done.pre_tokens + 2_700)
    with pytest.raises(ExpansionTooLargeError) as refused:
        await expand(session)
    assert "and the limit is" in refused.value.message
    hint = refused.value.hint or ""
    assert hint.startswith("the newest ")
    assert session.record.history.head == head
    told = (await stage.ask(session, "/expand")).text
    command = hint.partition("fit: ")[2].removesuffix(" brings them back")
    assert command in told
    assert "back in view" in (await stage.ask(session, command)).text


async def test_what_cannot_be_expanded_is_refused(make_stage: Any) -> None:
    stage, session, done, _ = await a_summary(make_stage)
    with pytest.raises(CompactionNotFound):
        await expand(session, ExpandRequest(compaction_id="x"))
    await expand(session, ExpandRequest(compaction_id=done.compaction_id))
    with pytest.raises(InvalidInput, match="no summary stands"):
        await expand(session)
    again = await session.compact(CompactionRequest()).outcome
    assert again.status == "completed"
    with pytest.raises(NodeNotFound):
        await expand(session, ExpandRequest(node_ids=("x",)))
    assert "has no node 'x'" in (await stage.ask(session, "/expand x")).text


async def test_an_expansion_is_there_after_a_restart_and_in_a_fork(make_stage: Any) -> None:
    stage, session, _, before = await a_summary(make_stage)
    await expand(session)
    fork = await stage.hub.fork(ForkOf(session.sid))
    assert tuple(fork.record.history.turns) == before
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert tuple(loaded.record.history.turns) == before
    assert loaded.record.compactions.all[-1].trigger == "expand"
    assert "The expansion is undone" in (await stage.ask(loaded, "/undo")).text
    assert loaded.record.history.current[0].kind == "summary"


def entry(node: str, kind: EntryKind = "user", *origin: str) -> Entry:
    return Entry(user(f"{kind} {origin[0] if origin else node}"), kind, origin=origin, node_id=node)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        pytest.param("abc", ["a", "b", "p2", "c", "f2", "d2", "e"], id="all of them"),
        pytest.param("bc", ["S", "b", "p2", "c", "f2", "d2", "e"], id="some of them"),
        pytest.param("a", ["S", "a", "p2", "f2", "d2", "e"], id="the oldest"),
    ],
)
def test_the_order_is_that_in_which_it_was_said(chosen: str, expected: list[str]) -> None:
    """A pinned prompt returns between its neighbours; files follow what the summary stood for."""
    first = [entry(node, "tool" if node == "b" else "user") for node in "abpcd"]
    summary = entry("S", "summary", "a", "b", "c")
    after = [
        summary,
        entry("f2", "file", "b"),
        entry("p2", "user", "p"),
        entry("d2", "user", "d"),
        entry("e"),
    ]
    archive = {each.node_id: each for each in (*first, *after)}
    history = History(after, archive)
    folded = find_originals(history, summary, archive)
    entries = expand_entries(history, summary, folded, chosen, archive)
    assert [each.node_id for each in entries] == expected
    assert (
        entries[0].kind != "summary"
        or entries[0].origin == tuple(set("abc") - set(chosen))
        or len(chosen) == 1
    )
