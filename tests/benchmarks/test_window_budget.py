"""What the window budget costs as a session grows.

A message costs its weight and its facts when it arrives; a list seen for the first time is linear, and
everything is a ratio. Gates and plans are measured for every engine, in test_engines.py.
"""

from __future__ import annotations

import gc
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import log
from statistics import median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sidecar.chronicle import Chronicle
from sidecar.conductor.session_ops import messages_to_turns
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import (
    TextBlock,
    ToolCallBlock,
)
from sidecar.window_budget import (
    AssistantMessage,
    Message,
    PrefixMeter,
    ToolResultMessage,
    Transcript,
    UserMessage,
    local_fallback_digest,
)
from sidecar.window_budget.message import blocks_of


def turn(number: int) -> list[Message]:
    path, key = f"src/module_{number % 500}.py", f"call-{number}"
    return [
        UserMessage(f"Please look at item {number} of the list.", number),
        AssistantMessage((TextBlock(f"Reading part {number}."), ToolCallBlock(key, "read", {"path": path}))),
        ToolResultMessage(key, "read", (TextBlock(f"def item_{number}(): return {number}"),)),
        AssistantMessage((TextBlock(f"Item {number} does what its name says."),)),
    ]


def session(n_messages: int) -> list[Message]:
    return [message for number in range(n_messages // 4) for message in turn(number)]


def best(action: Callable[[], object], rounds: int = 7) -> float:
    """Return the seconds of processor time of the fastest of *rounds* calls."""
    seconds = []
    for _ in range(rounds):
        started = time.process_time()
        action()
        seconds.append(time.process_time() - started)
    return min(seconds)


def report(benchmark: BenchmarkFixture, measure: Callable[[], dict[int, float]]) -> dict[int, float]:
    """Return seconds by number of messages, measured without the collector, and print them."""

    def quietly() -> dict[int, float]:
        gc.collect()
        gc.disable()
        try:
            return measure()
        finally:
            gc.enable()

    found: dict[int, float] = benchmark.pedantic(quietly, rounds=1)  # type: ignore[no-untyped-call]  # no types
    print("\n" + ", ".join(f"{size:,}: {seconds * 1e3:.4f} ms" for size, seconds in found.items()))
    return found


def slope(found: dict[int, float]) -> float:
    """Return the exponent of growth between the smallest and the largest size."""
    small, large = min(found), max(found)
    exponent = log(found[large] / found[small]) / log(large / small)
    print(f"log-log slope {exponent:.2f}")
    return exponent


def test_the_meter_costs_the_same_up_to_a_million_messages(benchmark: BenchmarkFixture) -> None:
    """Weigh one more message, compare, find the cut."""
    new = turn(1)

    def measure() -> dict[int, float]:
        found = {}
        meter = PrefixMeter()
        for size in (1000, 10_000, 100_000, 1_000_000):
            while len(meter) < size:
                meter = meter.extend(session(1000))
            seconds = []
            for _ in range(500):
                started = time.perf_counter()
                for message in new:
                    meter = meter.extend([message])
                    assert meter.total > 0
                    meter.tail_start(6000)
                seconds.append((time.perf_counter() - started) / len(new))
            found[size] = median(seconds)
        return found

    found = report(benchmark, measure)
    assert found[1_000_000] < 2 * found[1000]


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(local_fallback_digest, id="local digest"),
        pytest.param(Transcript.of, id="weights and facts"),
    ],
)
def test_a_list_seen_for_the_first_time_is_linear(
    benchmark: BenchmarkFixture, action: Callable[[Sequence[Message]], object]
) -> None:
    """Nothing is quadratic."""

    def measure() -> dict[int, float]:
        lists = {size: session(size) for size in (1000, 4000, 16_000)}
        return {size: best(lambda messages=messages: action(messages), 5) for size, messages in lists.items()}  # type: ignore[misc]  # bound at once

    assert slope(report(benchmark, measure)) <= 1.1


def test_reading_a_message_costs_a_few_times_its_json(benchmark: BenchmarkFixture) -> None:
    """Weights of short messages, against the least that any of them takes."""
    messages = session(400)
    texts = [[asdict(block) for block in blocks_of(each.content)] for each in messages]  # type: ignore[union-attr]  # none of these is a command

    def measure() -> dict[int, float]:
        return {
            1: best(lambda: [json.dumps(each) for each in texts], 60) / len(messages),
            2: best(lambda: Transcript().extend(messages), 60) / len(messages),
        }

    found = report(benchmark, measure)
    print(f"{found[2] * 1e6:.0f} us a message, {found[2] / found[1]:.1f}x of its JSON")
    assert found[2] <= 5 * found[1]


PROSE = (
    "The parser keeps a stack of open brackets, and each time it meets a closing one it takes the last. "
    "So an error shows where the block began; reading lines in small parts keeps the memory flat. "
)
LOG = "2026-11-{0} 10:07:0{0} INFO worker.pool finished step {0}{0} of the import in {0} ms\n"
LINES = "".join(LOG.format(n % 9 + 1) for n in range(200))[:9000]
SHELL = AssistantMessage((TextBlock("I run it."), ToolCallBlock("c", "bash", {"command": "make all"})))


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([AssistantMessage((TextBlock(PROSE * 50),))], id="an answer"),
        pytest.param([UserMessage(PROSE * 50)], id="a prompt"),
        pytest.param([SHELL, ToolResultMessage("c", "bash", (TextBlock(LINES),))], id="a command"),
        pytest.param(
            [SHELL, ToolResultMessage("c", "bash", (TextBlock(LINES + "error: no"),), is_error=True)],
            id="a command that failed",
        ),
        pytest.param(
            [
                *turn(1),
                UserMessage(PROSE),
                AssistantMessage((TextBlock(PROSE * 8),)),
                *(SHELL, ToolResultMessage("c", "bash", (TextBlock(LINES[:8000]),))),
            ],
            id="a turn",
        ),
    ],
)
def test_folding_ten_kilobytes_costs_a_few_searches(
    benchmark: BenchmarkFixture, messages: list[Message]
) -> None:
    """The lines of what is new, ranked once: a few times what splitting it into words takes."""
    entries = [
        Entry(turn, "user" if turn.role == "user" else "assistant") for turn in messages_to_turns(messages)
    ]

    def measure() -> dict[int, float]:
        split = re.compile(r"\w+").findall
        return {1: best(lambda: split(LINES + PROSE * 5), 40), 2: best(fold, 40)}

    def fold() -> None:
        chronicle = Chronicle()
        for entry in entries:
            chronicle.add(entry)

    found = report(benchmark, measure)
    print(f"{found[2] * 1e3:.2f} ms, {found[2] / found[1]:.1f}x of splitting it into words")
    assert found[2] <= 4.5 * found[1]
