"""What a turn costs as its session grows: gate, agent, events, store, all together.

Processor time is compared, for the disk and the neighbours have times of their own.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

from sidecar.boot import build
from sidecar.conductor.hub import NewSession
from sidecar.llmgateway.scripted import Say, ScriptedModel

N_PROMPTS = 1_000
GROUP = 100
NOISE = 1.5


async def time_prompts(folder: Path, window: int = 10_000_000, n_words: int = 1) -> list[float]:
    """Return the processor seconds of each of a thousand prompts in one session.

    Args:
        folder: the place of the daemon's files.
        window: the tokens of the model's window.
        n_words: how often a prompt and its answer say what they say.
    """
    daemon = build(folder / "home")
    answer = [Say("A short answer of a few words, said in several deltas. " * n_words, 10)]
    model = ScriptedModel([answer], when_exhausted="repeat")
    daemon.models.add_scripted({"fake-1": {"scripted": [[{"text": "unused"}]], "contextWindow": window}})
    daemon.models.providers = {**daemon.models.providers, "scripted:fake-1": model}
    session = await daemon.service.hub.new(NewSession(str(folder), model="fake-1"))
    seconds: list[float] = []
    for number in range(N_PROMPTS):
        started = time.process_time()
        text = f"prompt {number} about src/mod_{number % 200}.py. " * n_words
        taken = await session.submit(({"type": "text", "text": text},))
        await taken.outcome
        seconds.append(time.process_time() - started)
        model.calls.clear()
    await daemon.service.aclose()
    return seconds


def test_the_last_prompts_of_a_long_session_cost_what_the_first_did(benchmark: Any, tmp_path: Path) -> None:
    seconds = benchmark.pedantic(lambda: asyncio.run(time_prompts(tmp_path)), rounds=1)
    first, last = median(seconds[:GROUP]), median(seconds[-GROUP:])
    print(f"\nprompts 1-100: {first * 1e3:.2f} ms, 901-1000: {last * 1e3:.2f} ms, ratio {last / first:.2f}")
    assert last / first <= NOISE


def test_a_prompt_costs_the_same_after_many_compactions(benchmark: Any, tmp_path: Path) -> None:
    """A window of 16,000 tokens is full every fifteen prompts; the mean counts its compactions."""
    seconds = benchmark.pedantic(lambda: asyncio.run(time_prompts(tmp_path, 16_000, 12)), rounds=1)
    first, last = mean(seconds[GROUP : 3 * GROUP]), mean(seconds[-2 * GROUP :])
    print(f"\nprompts 101-300: {first * 1e3:.2f} ms, 801-1000: {last * 1e3:.2f} ms, ratio {last / first:.2f}")
    assert last / first <= NOISE
