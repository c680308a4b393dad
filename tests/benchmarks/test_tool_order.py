"""Calls that only read cost no more in their order than all at once; work is real reads, and waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fake_tools import RecordedReads
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import PermissionDecision, PermissionQuestion, ToolContext
from sidecar.capabilities.toolbox import SessionToolBox, default_tools
from sidecar.runtime.contract import ToolCall, ToolOutcome
from sidecar.runtime.dispatch import CallOrder, create_scheduler, is_independent
from sidecar.workspace.workspace import Workspace

N_CALLS = 64
N_ROUNDS = 15
MOST_RATIO = 1.25
"""For noise: both run the same tasks."""


class Waiting:
    """A runner whose calls wait for a moment."""

    async def run(self, call: ToolCall, cancel: CancelToken) -> ToolOutcome:
        await asyncio.sleep(0.002)
        return ToolOutcome(call.id, "", is_error=False)


async def allow(question: PermissionQuestion) -> PermissionDecision:
    return PermissionDecision(True)


def make_box(folder: Path) -> SessionToolBox:
    """Return the tools of a session in *folder*."""
    workspace = Workspace(check_delay_s=0)

    def make_context(call_id: str) -> ToolContext:
        return ToolContext(
            call_id=call_id,
            cwd=folder,
            roots=(folder,),
            workspace=workspace,
            reads=RecordedReads(),
            ask=allow,
            progress=lambda text: None,
            set_plan=lambda plan: None,
            child_started=lambda pid, what: lambda: None,
            max_output_chars=30_000,
        )

    return SessionToolBox(default_tools(), make_context, lambda activity: None)


@pytest.mark.parametrize("work", ["waiting", "reads"])
def test_readers_in_order_are_as_fast_as_all_at_once(
    tmp_path: Path, work: str, benchmark: BenchmarkFixture
) -> None:
    for number in range(N_CALLS):
        (tmp_path / f"{number}.txt").write_text("a line\n" * 200)
    calls = [ToolCall(str(number), "read", {"path": f"{number}.txt"}) for number in range(N_CALLS)]
    box = make_box(tmp_path.resolve())
    runner = Waiting() if work == "waiting" else box

    def play(order: CallOrder) -> Callable[[], Awaitable[float]]:
        async def run() -> float:
            scheduler = create_scheduler(runner, may_change=order)
            began = perf_counter()
            outcomes = [each async for each in scheduler.run(calls, CancelToken())]
            assert len(outcomes) == N_CALLS
            return perf_counter() - began

        return run

    async def measure() -> float:
        in_order = play(lambda call: box.effects()[call.name].may_change)
        at_once = play(is_independent)
        await in_order(), await at_once()
        ordered, parallel = [], []
        for _ in range(N_ROUNDS):  # in turns, so that a busy machine slows both
            ordered.append(await in_order())
            parallel.append(await at_once())
        return min(ordered) / min(parallel)

    ratio = benchmark.pedantic(lambda: asyncio.run(measure()), rounds=1)  # type: ignore[no-untyped-call]  # the library's own
    print(f"\n{N_CALLS} readers in order : at once, {work}: {ratio:.2f}")
    assert ratio <= MOST_RATIO
