"""The cost of a chronicle: an entry costs its length once, and writing costs the room, in any talk."""

from __future__ import annotations

from functools import cache

from pytest_benchmark.fixture import BenchmarkFixture

from histories import entry_of
from measures import fastest, measured, tell
from sidecar.chronicle import Chronicle
from sidecar.conductor.token_estimate import estimate_text_tokens
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)

ROOM = 6_000


def exchange(number: int) -> list[Turn]:
    """A prompt, a round of tools and an answer: four turns of 300 tokens together."""
    call = ToolCallBlock(f"c{number}", "read", {"path": f"src/file{number}.py"})
    lines = "".join(f"value_{number}_{line} = parse({line})\n" for line in range(25))
    return [
        UserTurn((TextBlock(f"prompt {number}: what does the parser do here? " * 3),)),
        AssistantTurn((TextBlock("I look."), call)),
        ToolTurn((ToolResultBlock(call.id, lines),)),
        AssistantTurn((TextBlock("It keeps a stack of brackets. " * 8),)),
    ]


@cache
def entries() -> list[Entry]:
    """Return those of a hundred thousand turns."""
    return [entry_of(turn) for number in range(25_000) for turn in exchange(number)]


def chronicle_of(n_entries: int) -> Chronicle:
    chronicle = Chronicle()
    for entry in entries()[:n_entries]:
        chronicle.add(entry)
    return chronicle


def test_a_chronicle_costs_its_room(benchmark: BenchmarkFixture) -> None:
    """The same after a thousand turns and after a hundred thousand."""
    chronicles = [chronicle_of(n_turns) for n_turns in (1_000, 10_000, 100_000)]

    def write(chronicle: Chronicle) -> None:
        assert chronicle.write(ROOM, meter=estimate_text_tokens).text

    costs = fastest(*(lambda each=each: write(each) for each in chronicles), rounds=20)
    measured(benchmark, lambda: write(chronicles[0]))
    tell(", ".join(f"{cost * 1e3:.1f} ms" for cost in costs) + " for 1,000, 10,000 and 100,000 turns")
    assert costs[2] <= 3 * costs[0]


def test_an_entry_costs_its_length(benchmark: BenchmarkFixture) -> None:
    """Ranking is linear, and the same at the end of a long conversation as at its beginning."""
    short, long = fastest(lambda: chronicle_of(1_000), lambda: chronicle_of(10_000), rounds=3)
    measured(benchmark, lambda: chronicle_of(1_000))
    kb = sum(len(ranked.text) for ranked in chronicle_of(1_000).ranked) / 1e3
    cost = f"{short / kb * 1e6:.0f} us for a kB, {short / 1_000 * 1e6:.0f} us an entry"
    tell(f"{cost}; ten times as many cost {long / short:.1f} times as much")
    assert long <= 12 * short
