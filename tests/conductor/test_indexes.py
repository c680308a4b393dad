"""Every index over a conversation, held to the same two rules.

Advanced step by step through a real session it equals one that is folded anew, and growing costs only what
is new. An index that is added to ``INDEXES`` is held to both.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bare_sessions import compaction_settings
from properties import sample
from sidecar.capabilities.edit import WRITE
from sidecar.capabilities.read import READ
from sidecar.conductor.engine import CompactionRequest, EngineInput
from sidecar.conductor.errors import CompactionNotFound, NotSteerableError, NotUndoableError
from sidecar.conductor.hub import ForkOf
from sidecar.conductor.session import Session
from sidecar.conductor.window.engines.agentcore import AgentcoreEngine
from sidecar.conductor.window.engines.runtime_memory import RuntimeEngine
from sidecar.conductor.window.engines.sliding_window import SlidingWindowEngine
from sidecar.conductor.window.engines.summarizing import SummarizingEngine
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from sidecar.conductor.window.knowledge import _add_id
from sidecar.conductor.window.weights import weights_index
from sidecar.conductor.workbench.files import _tokens_of_read
from sidecar.conductor.workbench.rule_files import folders_reached_index
from sidecar.conversation import Entry, EntryKind, FileRead, History, Index, UsageAnchor, files_seen_index
from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock, ToolTurn, Turn, Usage, UsageEmission
from sidecar.llmgateway.scripted import Call, Say
from turns import assistant, calling, text, user

LONG = "The parser keeps a stack of open brackets and reports the first that is not closed. " * 20
COMMITTING = ("windowBudget", "runtime", "agentcore")


def seen_files(index: Any, given: EngineInput) -> Any:
    seen = index.of(given.history)
    return (seen.n_prompts, list(seen.files.items()))


def transcript(engine: Any, given: EngineInput) -> Any:
    found = engine.index.of(given.history)
    return (list(found), found.meter.total, found.meter.last_prompt, found.meter.digests(len(found)))


def room(engine: Any, given: EngineInput) -> Any:
    found = engine.index.of(given.history)
    # The time at which an event was made is all that may differ.
    events = [(e.id, e.index, e.source, e.content, e.channel_data) for e in found.events]
    return (events, found.starts, found.before, found.prompt, found.n_turns)


def messages(engine: Any, given: EngineInput) -> Any:
    found = engine.index.of(given.history)
    return (found.messages, found.starts, found.names, found.tokens)


@dataclass(frozen=True)
class Probe:
    """One index: as it lives in a session, made anew, its state as a value, and its step."""

    live: Callable[[Session], Any]
    fresh: Callable[[], Any]
    state: Callable[[Any, EngineInput], Any]
    step: Callable[[Any], tuple[Any, str]]


def engine_of(name: str) -> Callable[[Session], Any]:
    return lambda session: session.window.engines.get(name)


def itself(index: Any) -> tuple[Any, str]:
    return index, "_step"


def state_of(index: Any, given: EngineInput) -> Any:
    return index.of(given.history)


INDEXES = {
    "token weights": Probe(
        live=lambda session: session.window.request._weights, fresh=weights_index, state=state_of, step=itself
    ),
    "files seen": Probe(
        live=lambda session: session.workbench.files._index,
        fresh=lambda: files_seen_index(_tokens_of_read),
        state=seen_files,
        step=itself,
    ),
    "folders reached": Probe(
        live=lambda session: session.workbench.rule_files.reached,
        fresh=lambda: folders_reached_index(
            lambda: {tool.descriptor.name: tool.effects for tool in (READ, WRITE)}, Path("/project")
        ),
        state=lambda index, given: [Path(folder).name for folder in index.of(given.history).folders],
        step=itself,
    ),
    "searchable ids": Probe(
        live=lambda session: session.window.knowledge._ids,
        fresh=lambda: Index(list, _add_id),
        state=lambda index, given: list(index.of(given.history)),
        step=itself,
    ),
    "windowBudget": Probe(
        live=engine_of("windowBudget"),
        fresh=WindowBudgetEngine,
        state=transcript,
        step=lambda engine: (engine.index, "_step"),
    ),
    "runtime": Probe(
        live=engine_of("runtime"),
        fresh=RuntimeEngine,
        state=lambda engine, given: engine.index.of(given.history),
        step=lambda engine: (engine.index, "_step"),
    ),
    "agentcore": Probe(
        live=engine_of("agentcore"),
        fresh=AgentcoreEngine,
        state=messages,
        step=lambda engine: (engine.index, "_step"),
    ),
    "summarizing": Probe(
        live=engine_of("summarizing"),
        fresh=SummarizingEngine,
        state=room,
        step=lambda engine: (engine.index, "_step"),
    ),
    "slidingWindow": Probe(
        live=engine_of("slidingWindow"),
        fresh=SlidingWindowEngine,
        state=room,
        step=lambda engine: (engine.index, "_step"),
    ),
}


def check(session: Session, done: list[str]) -> None:
    """Every live index, advanced to here, equals one that is folded anew."""
    given = session.window.request.make_input()
    for name, index in INDEXES.items():
        live = index.state(index.live(session), given)
        assert live == index.state(index.fresh(), given), (name, done)


def an_answer(rng: random.Random) -> list[Any]:
    path = {"path": f"{rng.choice('abc')}.py"}
    usage = UsageEmission(Usage(input_tokens=rng.randrange(100, 9_000), output_tokens=9))
    return rng.choice(
        [
            [Call("read", path), usage],
            [Call("read", path | {"offset": 2, "limit": 1})],
            [Call("read", path), Call("write", path | {"content": f"y = {rng.random()}\n" * 3})],
            [Say(LONG), usage],
            [Say("# Objective\nFix the parser.\n# Guardrails\nnone\n# Carryover\nnone")],
        ]
    )


class Player:
    """Plays operations, chosen at random, in one session after another."""

    def __init__(self, stage: Any, session: Session, rng: random.Random) -> None:
        self.stage, self.session, self.rng = stage, session, rng

    async def append(self) -> None:
        self.stage.workspace.put(self.stage.folder / "a.py", f"x = {self.rng.random()}\n" * 3)
        await self.stage.ask(self.session, f"prompt {self.rng.random()}")

    async def steer(self) -> None:
        started = await self.session.submit(text("first"))
        try:
            self.session.turns.prompts.steer(text("and then"), started.turn_id)
        except NotSteerableError:
            return
        finally:
            await started.outcome
            while self.session.is_busy:
                await self.stage.settle()

    async def compact(self) -> None:
        await self.session.compact(CompactionRequest(engine=self.rng.choice(COMMITTING))).outcome

    async def undo(self) -> None:
        try:
            await self.session.undo(None, force=True, expect_head=None)
        except (CompactionNotFound, NotUndoableError):
            return

    async def rewind(self) -> None:
        ids = self.session.record.history.current.node_ids
        if ids:
            await self.session.rewind(self.rng.choice(ids[len(ids) // 2 :]), expect_head=None)

    async def drop(self) -> None:
        ids = self.session.record.history.current.node_ids
        if len(ids) > 6:
            await self.session.drop([self.rng.choice(ids)], expect_head=None)

    async def rehydrate(self) -> None:
        await self.session.rehydrate(None, None)

    async def fork(self) -> None:
        self.session = await self.stage.hub.fork(ForkOf(self.session.sid))
        await self.session.choose("permissions", "allowAll")

    async def reload(self) -> None:
        await self.stage.hub.close(self.session.sid)
        self.session = (await self.stage.hub.load(self.session.sid)).session
        await self.session.choose("permissions", "allowAll")


OPERATIONS = ("append", "steer", "compact", "undo", "rewind", "drop", "rehydrate", "fork", "reload")


@pytest.mark.parametrize("seed", sample(range(4)))
async def test_an_index_that_is_advanced_equals_one_that_is_rebuilt(make_stage: Any, seed: int) -> None:
    rng = random.Random(seed)
    script = [an_answer(rng) for _ in range(600)]
    stage = await make_stage(
        [*script, [Say("enough")]],
        tools=[READ, WRITE],
        window=200_000,
        repeat=True,
        compaction=compaction_settings(branch_digests=True),
    )
    for name in "abc":
        stage.workspace.put(stage.folder / f"{name}.py", f"{name} = 1\n" * 3)
    player = Player(stage, await stage.session(), rng)
    await player.session.choose("permissions", "allowAll")
    done: list[str] = []
    for name in rng.choices(OPERATIONS, (6, 2, 3, 2, 1, 1, 1, 1, 1), k=36):
        await getattr(player, name)()
        done.append(name)
        check(player.session, done)


def a_history(n_turns: int) -> list[Entry]:
    """Return prompts, calls, results with their files and answers with their sizes, four of them a round."""
    entries: list[Entry] = []
    for n in range(n_turns):
        name, call_id = f"{n // 4 % 50}.py", f"c{n // 4}"
        read = FileRead(
            path=f"/p/{name}", uri=f"file:///p/{name}", hash=f"{n}", source="disk", call_id=call_id
        )
        result = ToolTurn((ToolResultBlock(call_id, "x = 1"),))
        call = ToolCallBlock(call_id, "read", {"path": name})
        turns: list[tuple[Turn, EntryKind]] = [
            (user(f"prompt {n}"), "user"),
            (calling(call), "assistant"),
            (result, "tool"),
            (assistant(f"answer {n}"), "assistant"),
        ]
        turn, kind = turns[n % 4]
        reads = (read,) if kind == "tool" else ()
        anchor = UsageAnchor(n, n) if n % 4 == 3 else None
        entries.append(Entry(turn, kind, reads=reads, anchor=anchor, node_id=f"n{n}"))
    return entries


def given_of(history: History) -> EngineInput:
    return EngineInput(history=history, card=None, overhead_tokens=0, context_tokens=0)


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_that_grows_costs_only_what_is_new(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index, counted = INDEXES[name], [0]
    thing = index.fresh()
    holder, attribute = index.step(thing)
    step = getattr(holder, attribute)

    def counting(*arguments: Any) -> Any:
        # The transcript takes what is new in one step.
        counted[0] += len(arguments[0]) if attribute == "take" else 1
        return step(*arguments)

    monkeypatch.setattr(holder, attribute, counting)
    history, entries = History(), a_history(2_000)
    for start in range(0, len(entries), 20):
        history = history.extended(entries[start : start + 20])
        before = counted[0]
        index.state(thing, given_of(history))
        assert counted[0] - before == 20
        if start % 500 == 0:
            index.state(thing, given_of(history))
            assert counted[0] - before == 20
