"""The way of a prompt: how many modules and functions it passes before the first model call. Only printed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import journeys

MADE = (
    ("briefs", "conductor/window/head", "write_brief"),
    ("sizes of the next request", "conductor/window/weights", "Weights.occupancy"),
    ("gates of its engine", "conductor/window/engines/", "Engine.gate"),
    ("looks at a card", "llmgateway/registry", "ModelRegistry.card"),
    ("weights of entries", "conductor/window/weights", "weigh_entry"),
)
"""The function by which each is made; the size is made for the engine, and for the usage that clients see."""


def test_the_way_of_a_prompt_to_the_model(tmp_path: Path) -> None:
    calls = asyncio.run(journeys.play(tmp_path.resolve()))["prompt"]
    first = next(at for at, (module, _) in enumerate(calls) if module.startswith("llmgateway/scripted"))
    functions = set(calls[:first])
    n_modules = len({module for module, _ in functions})
    print(f"\na prompt passes {n_modules} modules and {len(functions)} functions before its first model call")
    made = Counter(calls)
    for what, module, name in MADE:
        times = sum(
            n for (where, each), n in made.items() if where.startswith(module) and each.endswith(name)
        )
        print(f"made until it has settled: {times} {what}")
