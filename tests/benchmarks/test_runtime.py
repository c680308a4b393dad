"""The cost of a run grows with its new part: ratios of two measurements of the same run."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from time import process_time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    DoneEmission,
    Emission,
    StreamOptions,
    TextBlock,
    TextEmission,
    ThinkingEmission,
    ToolCallDeltaEmission,
    Turn,
    UserTurn,
)
from sidecar.runtime import AgentConfig, AgentDeps, cadence, create_agent, initial_snapshot
from sidecar.runtime.contract import EmissionSignal, RunSnapshot, Signal, StreamEndSignal, SubmitSignal

STEP = cadence(AgentConfig(model="m"))
PROMPT = SubmitSignal((UserTurn((TextBlock("hi"),)),))
N_DELTAS = 20_000


def text(at: int) -> Emission:
    return TextEmission("a hundred characters of prose, more or less " * 2)


def arguments(at: int) -> Emission:
    return ToolCallDeltaEmission("c", '"a hundred characters of arguments, more or less", ' * 2)


def many_blocks(at: int) -> Emission:
    return TextEmission("so ") if at % 2 else ThinkingEmission("hm ")


@pytest.mark.parametrize("delta", [text, arguments, many_blocks])
def test_twice_the_deltas_cost_twice_the_time(
    benchmark: BenchmarkFixture, delta: Callable[[int], Emission]
) -> None:
    def stream(n_deltas: int) -> Callable[[], float]:
        deltas = (EmissionSignal(delta(at)) for at in range(n_deltas))
        signals: list[Signal] = [PROMPT, *deltas, StreamEndSignal()]
        return lambda: _play(initial_snapshot(session_id="s", model="m"), signals)

    _check(benchmark, f"40k : 20k deltas, {delta.__name__}", stream(N_DELTAS), stream(2 * N_DELTAS), 2.3)


def test_a_delta_costs_the_same_in_a_long_session(benchmark: BenchmarkFixture) -> None:
    def stream(n_turns: int) -> Callable[[], float]:
        state = STEP(
            replace(initial_snapshot(session_id="s", model="m"), messages=_chat(n_turns)), PROMPT
        ).state
        signals: list[Signal] = [EmissionSignal(text(at)) for at in range(N_DELTAS)]
        return lambda: _play(state, signals)

    _check(benchmark, "deltas in 10,000 : 10 turns", stream(10), stream(10_000), 1.5)


def _play(state: RunSnapshot, signals: list[Signal]) -> float:
    """Return the seconds that feeding *signals* takes."""
    gc.collect()
    began = process_time()
    for signal in signals:
        state = STEP(state, signal).state
    return process_time() - began


def _chat(n_turns: int) -> tuple[Turn, ...]:
    pair: tuple[Turn, ...] = (UserTurn((TextBlock("question"),)), AssistantTurn((TextBlock("answer"),)))
    return pair * (n_turns // 2)


def test_the_thousandth_prompt_costs_what_the_tenth_did(benchmark: BenchmarkFixture) -> None:
    def prompts_after(n_prompts: int) -> Callable[[], float]:
        return lambda: asyncio.run(_seconds_of_prompts(n_prompts))

    _check(benchmark, "submit, 1000th : 10th prompt", prompts_after(10), prompts_after(1_000), 1.5)


async def _seconds_of_prompts(n_before: int) -> float:
    agent = create_agent(AgentConfig(model="mock-1"), AgentDeps(_answer))
    for _ in range(n_before):
        await agent.submit("hi")
    gc.collect()
    began = process_time()
    for _ in range(50):
        await agent.submit("hi")
    return process_time() - began


def _answer(conversation: Conversation, options: StreamOptions) -> AsyncIterator[Emission]:
    return _answer_with(DoneEmission(AssistantTurn((TextBlock("answer"),))))


async def _answer_with(emission: Emission) -> AsyncIterator[Emission]:
    yield emission


def _check(
    benchmark: BenchmarkFixture,
    what: str,
    small: Callable[[], float],
    large: Callable[[], float],
    limit: float,
) -> None:
    """Measure both in turns, so that a busy machine slows both, and compare the best of each.

    Seconds are those of this process, without what others take of the machine meanwhile.
    """

    def compare() -> float:
        pairs = [(small(), large()) for _ in range(5)]
        return min(seconds for _, seconds in pairs) / min(seconds for seconds, _ in pairs)

    ratio: float = benchmark.pedantic(compare, rounds=1)  # type: ignore[no-untyped-call]  # it has no types
    print(f"\n{what}: {ratio:.2f} (limit {limit})")
    assert ratio <= limit
