"""The plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar.capabilities.contract import PlanEntry
from sidecar.capabilities.todo import TODO

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk


async def test_the_plan_is_replaced_as_a_whole(desk: Desk) -> None:
    desk.plan = (PlanEntry("old"),)
    entries = [
        {"content": "one", "status": "completed", "priority": "high"},
        {"content": "two", "status": "in_progress"},
        {"content": "three"},
    ]
    assert await desk.output(TODO, entries=entries) == "[x] one\n[>] two\n[ ] three"
    assert list(desk.plan) == [
        PlanEntry("one", "completed", "high"),
        PlanEntry("two", "in_progress"),
        PlanEntry("three"),
    ]
    assert await desk.output(TODO, entries=[]) == "the plan is empty now"
    assert list(desk.plan) == []


async def test_a_bad_plan_changes_nothing(desk: Desk) -> None:
    desk.plan = (PlanEntry("old"),)
    assert "Invalid enum value 'later'" in await desk.failure(
        TODO, entries=[{"content": "x", "status": "later"}]
    )
    assert desk.plan == (PlanEntry("old"),)


async def test_a_plan_is_bounded(desk: Desk) -> None:
    entry = {"content": "x" * 1_000}
    output = await desk.output(TODO, entries=[entry] * 100)
    assert len(output) < 30_000
    assert "of length <= 100 " in await desk.failure(TODO, entries=[entry] * 101)
    assert "of length <= 1000 " in await desk.failure(TODO, entries=[{"content": "x" * 1_001}])
