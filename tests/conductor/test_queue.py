"""The queue: one job at a time, in order, whatever the fate of one job."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.conductor.record.queue import JobQueue


class Work:
    """Jobs that are words; "wait" goes on when told, "break" raises."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.go = asyncio.Event()
        self.n_changes = 0
        self.queue: JobQueue[str] = JobQueue(self._run)
        self.queue.follow(self._count)

    async def _run(self, job: str) -> None:
        self.log.append(job)
        if job == "wait":
            await self.go.wait()
        if job == "break":
            raise ZeroDivisionError

    def _count(self) -> None:
        self.n_changes += 1


async def test_jobs_run_one_after_another_and_urgent_ones_first() -> None:
    work = Work()
    for job in ("wait", "b", "c"):
        work.queue.put(job)
    await asyncio.sleep(0)
    work.queue.put("a", first=True)
    work.queue.put_back(["x", "y"])
    work.queue.remove("c")
    assert (work.queue.current, work.queue.waiting, work.queue.is_busy) == (
        "wait",
        ("x", "y", "a", "b"),
        True,
    )
    work.go.set()
    await work.queue.wait_idle()
    assert (work.log, work.n_changes, work.queue.is_busy) == (["wait", "x", "y", "a", "b"], 10, False)


async def test_a_failed_job_does_not_stop_the_jobs_behind_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It cannot happen; when it does the daemon goes on."""
    monkeypatch.delenv("INDUSAGI_STRICT")
    work = Work()
    for job in ("break", "after"):
        work.queue.put(job)
    await work.queue.wait_idle()
    assert (work.log, work.n_changes, work.queue.current) == (["break", "after"], 4, None)
    assert "a job raised ZeroDivisionError" in caplog.text
