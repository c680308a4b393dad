"""What the agentcore engine costs; only ratios of one run are asserted.

A call between two crossings costs what is new: fed its own view it does not know how long the conversation
is. Fed the raw history it compares one pointer a message, which is how an edit is noticed. A whole
compaction is linear.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from statistics import median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from chat_model import ScriptedChatModel
from sidecar.agentcore.memory import CompactionConfig, new_compaction
from sidecar.agentcore.messages import (
    AgentMessage,
    Message,
    call_block,
    compaction_convert_to_llm,
    repair_message_sequence,
    text_block,
    text_message,
    tool_message,
)

WINDOW = 48_000


def pair(index: int) -> list[AgentMessage]:
    call = call_block(f"c{index}", "read", f'{{"path":"src/module_{index}.py"}}')
    return [Message("assistant", (text_block("Next."), call)), tool_message(f"c{index}", "x" * 2000)]


async def time_calls(n_messages: int, *, raw: bool, whole_step: bool) -> float:
    """Return the median seconds of a call between crossings, past *n_messages* of a conversation."""
    crossings: list[object] = []
    transform = new_compaction(CompactionConfig(ScriptedChatModel(), WINDOW, on_compaction=crossings.append))
    history: list[AgentMessage] = [text_message("user", "go")]
    view, seconds, index = list(history), [], 0
    while len(history) < n_messages + 400:
        new = pair(index)
        index += 1
        history += new
        view += new
        n_crossings = len(crossings)
        started = time.perf_counter()
        shown = await transform(history if raw else view)
        if whole_step and len(history) > n_messages:
            repair_message_sequence(compaction_convert_to_llm(shown))
        spent = time.perf_counter() - started
        view = view if raw else list(shown)
        if len(history) > n_messages and len(crossings) == n_crossings:
            seconds.append(spent)
    return median(seconds)


def growth(benchmark: BenchmarkFixture, measure: Callable[[int], float], small: int, large: int) -> float:
    """Return how many times more *measure* takes at *large* than at *small*, the best of two rounds."""

    def compare() -> float:
        gc.disable()
        try:
            return min(measure(large) for _ in range(2)) / min(measure(small) for _ in range(2))
        finally:
            gc.enable()

    ratio: float = benchmark.pedantic(compare, rounds=1)  # type: ignore[no-untyped-call]  # it has no types
    print(f"\n{large:,} messages cost {ratio:.2f} times {small:,}")
    return ratio


@pytest.mark.parametrize(
    ("raw", "whole_step", "most"),
    [
        pytest.param(False, False, 1.5, id="the transform, fed its view"),
        pytest.param(False, True, 1.5, id="transform, convert, repair, fed its view"),
        pytest.param(True, True, 1.5, id="transform, convert, repair, fed the raw history"),
        pytest.param(True, False, 5.0, id="the transform, fed the raw history"),
    ],
)
def test_a_call_between_crossings(
    benchmark: BenchmarkFixture, raw: bool, whole_step: bool, most: float
) -> None:
    def measure(n_messages: int) -> float:
        return asyncio.run(time_calls(n_messages, raw=raw, whole_step=whole_step))

    assert growth(benchmark, measure, 100, 10_000) <= most


def time_whole(n_messages: int) -> float:
    """Return the seconds of the first compaction of a history of *n_messages*."""
    history: list[AgentMessage] = [text_message("user", "go")]
    for index in range(n_messages // 2):
        history += pair(index)
    transform = new_compaction(CompactionConfig(ScriptedChatModel(), WINDOW))

    async def feed() -> float:
        started = time.perf_counter()
        await transform(history)
        return time.perf_counter() - started

    return asyncio.run(feed())


def test_a_whole_compaction_is_linear(benchmark: BenchmarkFixture) -> None:
    assert growth(benchmark, time_whole, 10_000, 100_000) <= 20
