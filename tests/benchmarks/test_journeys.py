"""The way of a prompt: how many modules and functions it passes before the first model call."""

from __future__ import annotations

import asyncio
from pathlib import Path

import journeys

MOST_MODULES = 59
MOST_FUNCTIONS = 249
N_PLAYS = 4
"""The least of so many plays counts: a thread or a timer that wakes meanwhile is not on the way."""


def test_the_way_of_a_prompt_to_the_model(tmp_path: Path) -> None:
    found = list[tuple[int, int]]()
    for number in range(N_PLAYS):
        folder = tmp_path.resolve() / str(number)
        folder.mkdir()
        calls = asyncio.run(journeys.play(folder))["prompt"]
        first = next(at for at, (module, _) in enumerate(calls) if module.startswith("llmgateway/scripted"))
        functions = set(calls[:first])
        found.append((len({module for module, _ in functions}), len(functions)))
    n_modules, n_functions = map(min, zip(*found, strict=True))
    print(f"\na prompt passes {n_modules} modules and {n_functions} functions before its first model call")
    assert n_modules <= MOST_MODULES
    assert n_functions <= MOST_FUNCTIONS
