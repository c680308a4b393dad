"""Keeping the history: only what is new is written, a cut history is a branch, a broken disk stops nobody."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from memory_journal import MemoryJournal
from sidecar.conversation import AppendOnlySeq
from sidecar.llmgateway.contract import AssistantTurn, Turn
from sidecar.llmgateway.scripted import Say, ScriptedModel
from sidecar.runtime.cadence import Draft, RunMessages
from sidecar.runtime.conductor import AgentDeps, create_agent
from sidecar.runtime.conductor.journal import JournalWriter, NodeJournal
from sidecar.runtime.contract import AgentConfig, SessionNode
from sidecar.runtime.store import SessionGraph, SessionStore
from turns import assistant, user

A, B, C, D = map(user, "abcd")
BLANK = AssistantTurn(())


class Flaky(MemoryJournal):
    """A journal that fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False
        self.n_calls = 0

    async def record(self, turns: Sequence[Turn]) -> None:
        self._check()
        await super().record(turns)

    async def branch(self, turns: Sequence[Turn]) -> None:
        self._check()
        await super().branch(turns)

    def _check(self) -> None:
        self.n_calls += 1
        if self.fails:
            raise OSError("disk full")


def keeper(
    journal: MemoryJournal, *turns: Turn, errors: list[Exception] | None = None
) -> tuple[JournalWriter, RunMessages]:
    """Return a writer and the history of *turns*, which it takes for stored."""
    writer, history = (
        JournalWriter(journal, errors.append if errors is not None else None),
        RunMessages.of(turns),
    )
    writer.adopt(history)
    return writer, history


async def test_only_what_is_new_is_written() -> None:
    journal = Flaky()
    keep, history = keeper(journal)
    for turn in (A, B, C):
        history = history.with_turns((turn,))
        await keep.store(history)
        await keep.store(history)
    assert (journal.branches, journal.n_calls) == ([(A, B, C)], 3)


async def test_a_blank_turn_is_never_stored() -> None:
    journal = Flaky()
    keep, history = keeper(journal)
    history = history.with_turns((A, BLANK))
    await keep.store(history.with_open(Draft()))
    await keep.store(history.with_turns((BLANK,)))
    await keep.store(RunMessages.of((BLANK, B)))
    assert (journal.branches, journal.n_calls) == ([(A,), (B,)], 2)


async def test_a_history_that_did_not_grow_out_of_the_stored_one_is_a_branch() -> None:
    journal = Flaky()
    keep, history = keeper(journal, A, B)
    await keep.store(RunMessages.of((C, B)))
    await keep.store(history)
    assert journal.branches == [(), (C, B), (A, B)]


async def test_what_could_not_be_written_goes_with_the_next_write() -> None:
    journal, errors = Flaky(), list[Exception]()
    keep, history = keeper(journal, errors=errors)
    journal.fails = True
    for turn in (A, B):
        history = history.with_turns((turn,))
        await keep.store(history)
    assert (journal.branches, [str(error) for error in errors]) == ([()], ["disk full"])
    journal.fails = False
    history = history.with_turns((C,))
    await keep.store(history)
    assert journal.branches == [(A, B, C)]
    journal.fails = True
    await keep.store(history.with_turns((D,)))
    assert len(errors) == 2, "each outage is reported once"


async def test_a_branch_that_failed_is_tried_again() -> None:
    journal = Flaky()
    keep = JournalWriter(journal, None)
    journal.fails = True
    await keep.store((A,))
    journal.fails = False
    await keep.store((A, B))
    assert journal.branches == [(), (A, B)]


async def test_nobody_needs_to_have_a_journal() -> None:
    await JournalWriter(None, None).store((A,))


class SeedStore:
    """A store with the three documented methods and no other."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[SessionNode]] = {}
        self.fails = False

    async def append_node(self, session_id: str, node: SessionNode) -> None:
        if self.fails:
            raise OSError("disk full")
        self.nodes.setdefault(session_id, []).append(node)

    async def load_session(self, session_id: str) -> SessionGraph:
        graph = SessionGraph(session_id)
        nodes = self.nodes.get(session_id, [])
        graph.hydrate(nodes, nodes[-1].id if nodes else None)
        return graph

    async def list_sessions(self) -> list[str]:
        return sorted(self.nodes)


@pytest.mark.parametrize("fails", [False, True], ids=["sound", "fails at first"])
async def test_an_agent_keeps_its_session_in_a_store_of_the_three_documented_methods(fails: bool) -> None:
    store, model = SeedStore(), ScriptedModel([[Say("one")], [Say("two")]])
    config = AgentConfig(model="m")
    agent = create_agent(
        config, AgentDeps(model, store=store, session_id="s", get_card=lambda model_id: None)
    )
    store.fails = fails
    await agent.submit("a")
    store.fails = False
    await agent.submit("b")
    resumed = create_agent(config, AgentDeps(model, store=store, get_card=lambda model_id: None))
    assert await store.list_sessions() == ["s"]
    assert (await resumed.resume("s")).messages == (
        *(user("a"), assistant("one")),
        *(user("b"), assistant("two")),
    )
    journal = NodeJournal(store, "s")
    await journal.load()
    await journal.branch([user("a"), assistant("one"), user("c"), assistant("three")])
    assert (await agent.resume("s")).messages == (
        *(user("a"), assistant("one")),
        *(user("c"), assistant("three")),
    )
    assert len({node.id for node in store.nodes["s"]}) == 6


async def test_turns_that_wait_for_a_broken_disk_are_sent_once(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where the folder should be")
    model = ScriptedModel([[Say("one")], [Say("two")]])
    deps = AgentDeps(model, store=SessionStore(tmp_path / "blocked"), get_card=lambda model_id: None)
    agent = create_agent(AgentConfig(model="m"), deps)
    await agent.submit("a")
    await agent.submit("b")
    assert model.calls[1].conversation.turns == (user("a"), assistant("one"), user("b"))


async def test_a_move_that_was_prepared_costs_the_turns_since() -> None:
    journal = MemoryJournal()
    keep, history = keeper(journal, A)
    await journal.branch((A, BLANK, B))
    prepared = keep.prepare(journal.turns)
    await journal.record((C,))
    moved = keep.follow(history)
    assert moved == (A, B, C)
    assert moved is not None
    assert moved.finished.since(prepared.finished) == (C,)
    assert keep.follow(moved) is None


async def test_a_prepared_path_that_is_taken_up_again_costs_the_turns_since() -> None:
    """It ends where another branch goes on, so that its continuation is a sequence of its own."""
    journal = MemoryJournal()
    keep, history = keeper(journal, A)
    longer: AppendOnlySeq[Turn] = AppendOnlySeq((A, B, A))
    prepared = keep.prepare(longer.first(2))
    await journal.branch((A, B, C))
    moved = keep.follow(history)
    assert moved is not None
    assert moved.finished.since(prepared.finished) == (C,)
