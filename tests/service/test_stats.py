"""The statistics that ``sidecar/status`` shows."""

from __future__ import annotations

import pytest

from sidecar.service.stats import ProcessStats
from sidecar.workspace.workspace import Workspace


async def test_the_memory_is_measured_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may ask for the status a thousand times a second, and each measurement is a system call."""
    times, measured = [0], iter(range(1, 9))
    monkeypatch.setattr("sidecar.service.stats.measure_memory", lambda: next(measured))
    stats = ProcessStats(Workspace(), lambda: times[0])
    found = []
    for times[0] in (0, 999, 1_000, 1_500, 2_500, 0):  # at last the clock is put back
        found.append(stats.memory_bytes())
    await stats.aclose()
    assert found == [1, 1, 2, 2, 3, 4]
