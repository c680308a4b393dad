"""Work that is asked for often and done once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sidecar.workspace.coalesce import Coalescer

A, B = Path("/a"), Path("/b")


class Work:
    """Work that waits for a gate, and counts how many runs of one path overlap."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started = asyncio.Event()
        self.runs: list[Path] = []
        self.under_way: list[Path] = []

    async def __call__(self, path: Path) -> None:
        assert path not in self.under_way
        self.under_way.append(path)
        self.runs.append(path)
        self.started.set()
        await self.gate.wait()
        self.under_way.remove(path)


async def test_many_asks_are_one_run_a_path() -> None:
    work = Work()
    work.gate.set()
    jobs = Coalescer(work, delay_s=0)
    for path in (A, B, A, A):
        jobs.schedule(path)
    await jobs.drain()
    assert sorted(work.runs) == [A, B]


async def test_waiting_for_a_path_waits_for_no_other_and_not_for_ever() -> None:
    work = Work()
    jobs = Coalescer(work, delay_s=0)
    jobs.schedule(A)
    await jobs.wait([B], timeout_s=60)
    await jobs.wait([A], timeout_s=0)
    assert work.under_way == work.runs
    work.gate.set()
    await jobs.wait([A, B], timeout_s=60)
    assert (work.runs, work.under_way) == ([A], [])


async def test_an_ask_during_the_run_is_one_more_run() -> None:
    work = Work()
    jobs = Coalescer(work, delay_s=0)
    jobs.schedule(A)
    await work.started.wait()
    for _ in range(3):
        jobs.schedule(A)
    work.gate.set()
    await jobs.drain()
    assert work.runs == [A, A]


async def test_closing_ends_what_is_under_way_and_refuses_more() -> None:
    work = Work()
    jobs = Coalescer(work, delay_s=0)
    jobs.schedule(A)
    await work.started.wait()
    await jobs.close()
    jobs.schedule(B)
    await jobs.drain()
    assert work.runs == [A]
