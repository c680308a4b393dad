"""What an engine costs a session for each prompt: its gate and its view, however long the conversation is."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TypeVar

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from histories import entry_of, history_of
from measures import fastest, measured, tell
from model_cards import card
from sidecar.conductor.engine import (
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineInput,
    PlannedCompaction,
    SessionEngine,
)
from sidecar.conductor.window.compaction.chronicling import (
    SessionChronicle,
    add_chronicle,
    fold_without_note,
)
from sidecar.conductor.window.compaction.loss import count_loss
from sidecar.conductor.window.compaction.planner import weigh_result
from sidecar.conductor.window.engines.agentcore import AgentcoreEngine
from sidecar.conductor.window.engines.runtime_memory import RuntimeEngine
from sidecar.conductor.window.engines.sliding_window import SlidingWindowEngine
from sidecar.conductor.window.engines.summarizing import SummarizingEngine
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from use_of_views import text_of

ENGINES = (WindowBudgetEngine, RuntimeEngine, AgentcoreEngine, SummarizingEngine, SlidingWindowEngine)
VIEWS = (SummarizingEngine, SlidingWindowEngine)
SHORT, LONG = 100, 10_000
ROUNDS = 60
AUTO = CompactionRequest(force=False)

T = TypeVar("T")


def exchange(number: int) -> list[Turn]:
    """A prompt, a round of tools and an answer: four turns of 300 tokens together."""
    call = ToolCallBlock(f"c{number}", "read", {"path": f"src/file{number}.py"})
    return [
        UserTurn((TextBlock(f"prompt {number}: what does the parser do here? " * 3),)),
        AssistantTurn((TextBlock("I look."), call)),
        ToolTurn((ToolResultBlock(call.id, "value = 1  # a line\n" * 40),)),
        AssistantTurn((TextBlock("It keeps a stack of brackets. " * 8),)),
    ]


class Session:
    """One engine and a conversation of *n_turns*, which grows with every prompt."""

    def __init__(self, engine: SessionEngine, n_turns: int, window: int) -> None:
        self.engine = engine
        self.history = history_of(turn for number in range(n_turns // 4) for turn in exchange(number))
        self.card = card(window)
        self.prompt()

    @property
    def engine_input(self) -> EngineInput:
        return EngineInput(
            history=self.history,
            card=self.card,
            overhead_tokens=500,
            context_tokens=0,
        )

    def prompt(self) -> None:
        """One more exchange, and the gate before the next."""
        self.history = self.history.extended(map(entry_of, exchange(len(self.history))))
        self.engine.gate(self.engine_input, AUTO)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_a_gate_costs_what_is_new(benchmark: BenchmarkFixture, engine: type[SessionEngine]) -> None:
    """The same for the prompt after a hundred turns and after ten thousand."""
    short, long = (Session(engine(), n_turns, 100_000_000) for n_turns in (SHORT, LONG))
    short_s, long_s = fastest(short.prompt, long.prompt, rounds=ROUNDS)
    measured(benchmark, long.prompt)
    tell(f"{engine.name} gate: {short_s * 1e6:.0f} us, {long_s * 1e6:.0f} us: {long_s / short_s:.2f}x")
    assert long_s / short_s <= 2


async def compact(session: Session, engine: SessionEngine, chronicle: SessionChronicle) -> None:
    """Compact without a model as a session does it, with the chronicle and the counts of the loss report."""
    given, forced = session.engine_input, CompactionRequest(force=True)
    gate, found = engine.gate(given, forced), engine.plan(given, forced)
    assert isinstance(found, CompactionPlan)
    plan = chronicle.add_to_plan(found, engine, given, 0)
    planned = PlannedCompaction(engine, forced, given, gate, plan)
    done = await weigh_result(planned, fold_without_note(planned))
    assert isinstance(done, CompactionResult)
    done = add_chronicle(planned, done, chronicle)
    done = await count_loss(given.history, done, chronicle)
    assert done.loss is not None


def test_a_compaction_costs_what_it_keeps(benchmark: BenchmarkFixture) -> None:
    """Warm, of a conversation that was read as it arrived, it follows the view, and not the conversation.

    Only the counts of the loss report follow the number of files and commands, of which each has some here.
    Cold, of one that was loaded, it is linear; beside it stands one pass of a regex over the text.
    """
    sessions = [Session(WindowBudgetEngine(), n_turns, 200_000) for n_turns in (1_000, 10_000, 100_000)]
    chronicles = [SessionChronicle() for _ in sessions]

    def warm_one(at: int) -> None:
        asyncio.run(compact(sessions[at], sessions[at].engine, chronicles[at]))

    def cold_one(session: Session) -> None:
        asyncio.run(compact(session, WindowBudgetEngine(), SessionChronicle()))

    texts = ["".join(map(text_of, session.history)) for session in sessions[:2]]
    cold = fastest(*(partial(cold_one, session) for session in sessions[:2]), rounds=3)
    regex = fastest(*(partial(re.compile(r"\w+").findall, text) for text in texts), rounds=3)
    warm = fastest(*(partial(warm_one, at) for at in range(3)), rounds=10)
    measured(benchmark, partial(warm_one, 0))
    tell(
        "warm: " + ", ".join(f"{each * 1e3:.1f} ms" for each in warm) + " for 1,000, 10,000 and 100,000 turns"
    )
    rows = [
        f"{each * 1e3:.0f} ms, {each / one:.1f} passes of a regex"
        for each, one in zip(cold, regex, strict=True)
    ]
    tell("cold: " + "; ".join(rows) + " for 1,000 and 10,000")
    assert warm[2] <= 4 * warm[1]
    assert cold[1] <= 12 * cold[0]


def test_a_plan_costs_the_same_at_any_length(benchmark: BenchmarkFixture) -> None:
    """It looks at the tail, the newest files and as many facts as the digest holds."""
    forced = CompactionRequest(force=True)
    short, long = (Session(WindowBudgetEngine(), n_turns, 200_000) for n_turns in (2_000, 20_000))
    works = [lambda each=each: each.engine.plan(each.engine_input, forced) for each in (short, long)]
    short_s, long_s = fastest(*works, rounds=ROUNDS)
    measured(benchmark, works[1])
    tell(f"windowBudget plan: {short_s * 1e3:.1f} ms, {long_s * 1e3:.1f} ms: {long_s / short_s:.2f}x")
    assert long_s / short_s <= 2
