"""What an engine costs a session for each prompt: its gate and its view, however long the conversation is."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from histories import entry_of, history_of
from model_cards import card
from sidecar._internal.cancel import CancelToken
from sidecar.conductor.engine import (
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    SessionEngine,
)
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
from stopwatch import fastest, measured, tell

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


def test_a_compaction_costs_what_it_keeps(benchmark: BenchmarkFixture) -> None:
    """Warm, of a conversation that was read as it arrived; cold, of one that was loaded, it is linear."""
    forced = CompactionRequest(force=True)
    sessions = [Session(WindowBudgetEngine(), n_turns, 200_000) for n_turns in (1_000, 10_000, 100_000)]

    async def is_done(session: Session, engine: SessionEngine) -> bool:
        deps, given = EngineDeps(None, CancelToken(), 60.0), session.engine_input
        plan = engine.plan(given, forced)
        assert isinstance(plan, CompactionPlan)
        return isinstance(await engine.compact(given, forced, plan, deps), CompactionResult)

    def compact(session: Session, engine: SessionEngine) -> None:
        # The runner prints the result of its coroutine to itself, so that is none of the size of the session.
        assert asyncio.run(is_done(session, engine))

    warm = fastest(*(lambda each=each: compact(each, each.engine) for each in sessions), rounds=20)
    cold = fastest(
        *(lambda each=each: compact(each, WindowBudgetEngine()) for each in sessions[:2]), rounds=3
    )
    measured(benchmark, lambda: compact(sessions[0], sessions[0].engine))
    tell(
        "warm: " + ", ".join(f"{each * 1e3:.1f} ms" for each in warm) + " for 1,000, 10,000 and 100,000 turns"
    )
    tell("cold: " + ", ".join(f"{each * 1e3:.0f} ms" for each in cold) + " for 1,000 and 10,000")
    assert warm[2] <= 3 * warm[0]
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
