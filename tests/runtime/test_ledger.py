"""The ledger: each event to each subscriber, and the newest snapshot kept."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.runtime.cadence import initial_snapshot
from sidecar.runtime.contract import (
    FaultedEvent,
    RunError,
    RunEvent,
    SettledEvent,
    SnapshotEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolFinishedEvent,
    ToolOutcome,
    ToolStartedEvent,
)
from sidecar.runtime.ledger import RunLedger, SnapshotAccumulator

EVENT = TextDeltaEvent("x")
ONE, TWO = (initial_snapshot(session_id=each, model="m") for each in ("one", "two"))


def test_one_handler_is_one_subscription() -> None:
    ledger, heard = RunLedger(), list[RunEvent]()
    ledger.subscribe(heard.append)
    stop = ledger.subscribe(heard.append)
    ledger.publish(EVENT)
    assert (heard, ledger.size) == ([EVENT], 1)
    stop()
    stop()
    assert ledger.size == 0


def test_an_exception_of_one_handler_keeps_the_event_from_no_other() -> None:
    ledger, heard = RunLedger(), list[RunEvent]()

    def boom(event: RunEvent) -> None:
        raise ValueError(event)

    ledger.subscribe(boom)
    ledger.subscribe(heard.append)
    ledger.publish(EVENT)
    ledger.clear()
    ledger.publish(EVENT)
    assert (heard, ledger.size) == ([EVENT], 0)


def test_cancellation_is_never_swallowed() -> None:
    ledger = RunLedger()

    def cancelled(event: RunEvent) -> None:
        raise asyncio.CancelledError

    ledger.subscribe(cancelled)
    with pytest.raises(asyncio.CancelledError):
        ledger.publish(EVENT)


def test_an_event_reaches_every_handler_that_was_subscribed_when_it_began() -> None:
    ledger, heard = RunLedger(), list[str]()

    def first(event: RunEvent) -> None:
        heard.append("first")
        stop_second()
        ledger.subscribe(third)

    def second(event: RunEvent) -> None:
        heard.append("second")

    def third(event: RunEvent) -> None:
        heard.append("third")

    ledger.subscribe(first)
    stop_second = ledger.subscribe(second)
    ledger.publish(EVENT)
    assert heard == ["first", "second"]
    ledger.publish(EVENT)
    assert heard == ["first", "second", "first", "third"]


@pytest.mark.parametrize(
    ("event", "kept"),
    [
        pytest.param(SnapshotEvent(TWO), TWO, id="snapshot"),
        pytest.param(SettledEvent(TWO), TWO, id="settled"),
        pytest.param(FaultedEvent(RunError("aborted", "x"), TWO), TWO, id="faulted"),
        pytest.param(EVENT, ONE, id="text_delta"),
        pytest.param(ThinkingDeltaEvent("x"), ONE, id="thinking_delta"),
        pytest.param(ToolStartedEvent("a", "ls"), ONE, id="tool_started"),
        pytest.param(ToolFinishedEvent("a", "ls", ToolOutcome("a", 1, False)), ONE, id="tool_finished"),
    ],
)
def test_the_accumulator_keeps_the_last_snapshot(event: RunEvent, kept: object) -> None:
    accumulator = SnapshotAccumulator()
    assert accumulator.get_snapshot() is None
    accumulator.observe(SnapshotEvent(ONE))
    accumulator.observe(event)
    assert accumulator.get_snapshot() is kept
    accumulator.reset()
    assert accumulator.get_snapshot() is None


def test_an_attached_accumulator_follows_the_ledger_until_it_is_detached() -> None:
    ledger, accumulator = RunLedger(), SnapshotAccumulator()
    detach = accumulator.attach(ledger)
    ledger.publish(SnapshotEvent(ONE))
    detach()
    ledger.publish(SnapshotEvent(TWO))
    assert accumulator.get_snapshot() is ONE
