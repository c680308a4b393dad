"""What a session takes of the memory: a message of a long one, and ten thousand prompts in a daemon.

A message is weighed in a process of its own: the resident memory that a loaded session adds, without the
objects and texts of its turns, which are there for every design.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pytest

from sidecar.boot import build
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.hub import NewSession
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    UserTurn,
)
from sidecar_client import SidecarClient

pytestmark = [pytest.mark.processes, pytest.mark.e2e]

N_MESSAGES = 100_000
MOST_BYTES = 600
"""The most bytes of a message beside its turn."""

N_PROMPTS = int(os.environ.get("MEMORY_PROMPTS", "1000"))
MOST_MB = 300.0
PROMPTS = (
    "What is in README.md?",
    "where is VALUE set?",
    "Please always keep the tests green, task {n}.",
    "list the files",
    "explain item {n} of the plan in a few words",
)


def work() -> Iterator[Entry]:
    """Yield the messages of somebody's work: prompts, calls of tools with their results, and answers."""
    number = 0
    while True:
        number += 1
        file, read, run = f"src/mod_{number % 200}.py", f"call-{number}a", f"call-{number}b"
        rule = f" Never touch legacy_{number}.py." if number % 20 == 0 else ""
        shown = "".join(f"{line:>6}\tvalue_{line} = {number}\n" for line in range(15))
        tests = f"pytest -q tests/test_{number % 300}.py -k item_{number}"
        yield Entry(UserTurn((TextBlock(f"Please change item {number} of {file}.{rule}"),)), "user")
        call = ToolCallBlock(read, "read", {"path": file, "offset": number % 50 + 1, "limit": 40})
        yield Entry(AssistantTurn((TextBlock(f"I look at {file} first."), call)), "assistant")
        yield Entry(ToolTurn((ToolResultBlock(read, shown, is_error=False),)), "tool")
        yield Entry(AssistantTurn((ToolCallBlock(run, "bash", {"command": tests}),)), "assistant")
        yield Entry(ToolTurn((ToolResultBlock(run, f"{number} passed\n[exit 0]", is_error=False),)), "tool")
        yield Entry(
            AssistantTurn((TextBlock(f"Item {number} of {file} is done, the tests pass."),)), "assistant"
        )


def size_of(value: Any) -> int:
    """Return the bytes of a turn, with its blocks and their texts."""
    size = sys.getsizeof(value)
    if isinstance(value, tuple):
        return size + sum(map(size_of, value))
    if isinstance(value, dict):
        return size + sum(map(size_of, value.values()))
    if hasattr(value, "__dataclass_fields__"):
        return size + sum(
            size_of(getattr(value, field.name)) for field in fields(value) if field.name != "name"
        )
    return size if not isinstance(value, bool) else 0


async def store_session(folder: Path) -> str:
    """Store a session of 100,000 messages and return its id."""
    daemon = build(folder / "home")
    session = await daemon.service.hub.new(NewSession(str(folder), model="offline-1"))
    await session.record.history.append(*islice(work(), N_MESSAGES))
    await daemon.service.aclose()
    return session.sid


async def weigh_session(folder: Path, sid: str) -> dict[str, float]:
    """Return the bytes of a message beside its turn, of a session that is loaded, and read for facts."""
    daemon, process = build(folder / "home"), psutil.Process()
    hub = daemon.service.hub
    warm = await hub.new(NewSession(str(folder), model="offline-1", ephemeral=True))
    await (await warm.submit(({"type": "text", "text": "hello"},))).outcome
    await hub.close(warm.sid)
    before = process.memory_info().rss
    session = (await hub.load(sid)).session
    turns = sum(size_of(turn) for turn in session.record.history.turns)

    def weigh() -> float:
        return (process.memory_info().rss - before - turns) / N_MESSAGES

    weights = {"turn": turns / N_MESSAGES, "loaded": weigh()}
    await session.preview(CompactionRequest())
    weights["with facts"] = weigh()
    await daemon.service.aclose()
    return weights


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory means something else elsewhere")
def test_a_message_of_a_long_session_takes_little_beside_its_turn(benchmark: Any, tmp_path: Path) -> None:
    def weigh() -> dict[str, float]:
        for arguments in (["store"], ["weigh"]):
            command = [sys.executable, __file__, str(tmp_path), *arguments]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        weights: dict[str, float] = json.loads(printed)
        return weights

    found = benchmark.pedantic(weigh, rounds=1)
    print(
        f"\na message of {N_MESSAGES:,}: {found['turn']:.0f} bytes of turn, {found['loaded']:.0f} beside it, "
        f"{found['loaded'] / MOST_BYTES:.2f}x of the goal; {found['with facts']:.0f} with its facts"
    )
    assert found["loaded"] <= MOST_BYTES


async def drive_prompts(folder: Path) -> list[float]:
    """Return the megabytes of a daemon at ten moments of many prompts in one session."""
    project = folder / "project"
    project.mkdir()
    (project / "README.md").write_text(
        "".join(f"line {n} says something of the project\n" for n in range(40))
    )
    (project / "a.py").write_text("VALUE = 1\n" + "x = 2\n" * 100)
    sizes = []
    env = {**os.environ, "INDUSAGI_HOME": str(folder / "home")}
    async with SidecarClient.spawn(cwd=str(project), env=env) as client:
        session = await client.start_session(str(project))
        for number in range(N_PROMPTS):
            await session.run(PROMPTS[number % len(PROMPTS)].format(n=number))
            if (number + 1) % (N_PROMPTS // 10) == 0:
                sizes.append((await client.status()).rss_bytes / 1e6)
    return sizes


def test_ten_thousand_prompts_fit_in_a_daemon(benchmark: Any, tmp_path: Path) -> None:
    """With ``MEMORY_PROMPTS=10000`` they are driven; fewer are continued in a line, which is too high.

    The first prompts grow more than those behind them: the log of events keeps 50,000 events at most.
    """
    sizes = benchmark.pedantic(lambda: asyncio.run(drive_prompts(tmp_path)), rounds=1)
    growth = (sizes[-1] - sizes[1]) / (0.8 * N_PROMPTS)
    at_the_end = sizes[-1] + growth * (10_000 - N_PROMPTS)
    print(
        f"\n{N_PROMPTS:,} prompts: {sizes[-1]:.0f} MB, {growth * 1000:.1f} kB each; "
        f"10,000: {at_the_end:.0f} MB, {at_the_end / MOST_MB:.2f}x of the goal"
    )
    assert at_the_end <= MOST_MB


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if sys.argv[2] == "store":
        (place / "sid").write_text(asyncio.run(store_session(place)))
    else:
        print(json.dumps(asyncio.run(weigh_session(place, (place / "sid").read_text()))))
