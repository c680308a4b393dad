"""What a turn costs as its session grows: gate, agent, events, store, all together.

Processor time is compared, for the disk and the neighbours have times of their own.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import Any

from sidecar.boot import build
from sidecar.conductor.hub import NewSession
from sidecar.llmgateway.scripted import Say, ScriptedModel

N_PROMPTS = 1_000
GROUP = 100
NOISE = 1.5


async def time_prompts(folder: Path) -> list[float]:
    """Return the processor seconds of each of a thousand prompts in one session."""
    daemon = build(folder / "home")
    answer = [Say("A short answer of a few words, said in several deltas.", 10)]
    model = ScriptedModel([answer], when_exhausted="repeat")
    daemon.models.add_scripted({"fake-1": {"scripted": [[{"text": "unused"}]], "contextWindow": 10_000_000}})
    daemon.models.providers = {**daemon.models.providers, "scripted:fake-1": lambda _: model}
    session = await daemon.service.hub.new(NewSession(str(folder), model="fake-1"))
    seconds: list[float] = []
    for number in range(N_PROMPTS):
        started = time.process_time()
        taken = await session.submit(({"type": "text", "text": f"prompt {number}"},))
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
