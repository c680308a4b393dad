"""The way of a prompt: how many modules and functions it passes before the first model call. Only printed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import journeys


def test_the_way_of_a_prompt_to_the_model(tmp_path: Path) -> None:
    calls = asyncio.run(journeys.play(tmp_path.resolve()))["prompt"]
    first = next(at for at, (module, _) in enumerate(calls) if module.startswith("llmgateway/scripted"))
    functions = set(calls[:first])
    n_modules = len({module for module, _ in functions})
    print(f"\na prompt passes {n_modules} modules and {len(functions)} functions before its first model call")
