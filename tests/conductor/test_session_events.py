"""Session events: each one emitted once, in order, with deltas collected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sidecar.capabilities.contract import Location, ToolActivity
from sidecar.conductor.events import (
    Message,
    Payload,
    Phase,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolLocation,
    ToolStarted,
)
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.session_events import COLLECT_CHARS, SessionEvents
from sidecar.llmgateway.contract import ThinkingBlock, ToolTurn, Turn, Usage
from sidecar.runtime.contract import (
    FaultedEvent,
    RunError,
    RunSnapshot,
    SettledEvent,
    SnapshotEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolFinishedEvent,
    ToolOutcome,
)
from turns import assistant, user

IDLE = RunSnapshot("r", "s", "invoking", (), (), Usage(0, 0), "m")


@dataclass
class Clock:
    """Collects what was put off; :meth:`ring` makes the calls."""

    waiting: list[Callable[[], None]] = field(default_factory=list)

    def later(self, delay_s: float, call: Callable[[], None]) -> Handle:
        self.waiting.append(call)
        return Handle(self, call)

    def ring(self) -> None:
        calls, self.waiting = self.waiting, []
        for call in calls:
            call()


@dataclass
class Handle:
    clock: Clock
    call: Callable[[], None]

    def cancel(self) -> None:
        if self.call in self.clock.waiting:
            self.clock.waiting.remove(self.call)


def make() -> tuple[SessionEvents, EventLog, Clock]:
    clock, log = Clock(), EventLog("s", lambda: 0)
    events = SessionEvents(log, clock.later)
    events.begin_turn("t")
    return events, log, clock


def told(log: EventLog) -> list[Payload]:
    return [event.data for event in log.after(0)]


def with_answer(text: str, phase: str = "settled") -> RunSnapshot:
    turns = (user("q"), assistant(text))
    return replace(IDLE, phase=phase, messages=turns)  # type: ignore[arg-type]  # a phase as text


def test_the_first_delta_goes_out_at_once_and_the_next_ones_together() -> None:
    events, log, clock = make()
    for piece in ("a", "b", "c"):
        events.on_run_event(TextDeltaEvent(piece))
    clock.ring()
    assert told(log) == [Phase("streaming"), TextDelta("t.0", "a"), TextDelta("t.0", "bc")]


def test_a_full_collection_is_emitted_before_the_timer() -> None:
    events, log, _ = make()
    events.on_run_event(TextDeltaEvent("a"))
    events.on_run_event(TextDeltaEvent("x" * COLLECT_CHARS))
    assert told(log)[-1] == TextDelta("t.0", "x" * COLLECT_CHARS)


def test_a_delta_that_is_not_text_is_refused_and_leaves_nothing_behind() -> None:
    events, log, _ = make()
    with pytest.raises(TypeError, match="a delta must be text, not list"):
        events.on_run_event(TextDeltaEvent(["a"]))  # type: ignore[arg-type]  # on purpose
    events.on_run_event(TextDeltaEvent("b"))
    events.end_turn()
    assert told(log) == [Phase("streaming"), TextDelta("t.0", "b")]


def test_the_timer_stops_when_no_delta_has_come() -> None:
    events, _, clock = make()
    events.on_run_event(TextDeltaEvent("a"))
    clock.ring()
    assert clock.waiting == []


def test_thinking_and_text_are_never_mixed() -> None:
    events, log, _ = make()
    events.on_run_event(ThinkingDeltaEvent("hm"))
    events.on_run_event(ThinkingDeltaEvent("m"))
    events.on_run_event(TextDeltaEvent("yes"))
    events.flush()
    assert told(log)[1:] == [ThinkingDelta("t.0", "hm"), ThinkingDelta("t.0", "m"), TextDelta("t.0", "yes")]


def test_one_message_holds_the_whole_answer_after_its_deltas() -> None:
    events, log, _ = make()
    events.on_run_event(TextDeltaEvent("ye"))
    events.on_run_event(TextDeltaEvent("s"))
    events.on_run_event(SettledEvent(with_answer("yes")))
    events.on_run_event(SettledEvent(with_answer("yes")))
    assert told(log)[1:] == [
        TextDelta("t.0", "ye"),
        TextDelta("t.0", "s"),
        Message("t.0", ({"type": "text", "text": "yes"},)),
    ]


def test_an_answer_without_deltas_is_emitted_as_a_message() -> None:
    events, log, _ = make()
    events.on_run_event(SnapshotEvent(IDLE))
    events.on_run_event(SettledEvent(with_answer("yes")))
    assert told(log)[-1] == Message("t.0", ({"type": "text", "text": "yes"},))


@pytest.mark.parametrize(
    "since",
    [
        pytest.param((user("again"),), id="to a new prompt"),
        pytest.param((ToolTurn(()),), id="after a round of tools"),
    ],
)
def test_a_call_that_failed_at_once_does_not_repeat_an_older_answer(since: tuple[Turn, ...]) -> None:
    events, log, _ = make()
    said = with_answer("I look", "dispatching")
    events.on_run_event(TextDeltaEvent("I look"))
    events.on_run_event(SnapshotEvent(said))
    asked = replace(said, phase="invoking", messages=(*said.messages, *since))
    events.on_run_event(SnapshotEvent(asked))
    events.on_run_event(FaultedEvent(RunError("model_failed", "no"), replace(asked, phase="faulted")))
    assert told(log)[-2:] == [Phase("dispatching"), Phase("invoking")]


def test_the_message_of_a_tool_round_comes_before_its_tools() -> None:
    events, log, _ = make()
    events.on_run_event(TextDeltaEvent("I look"))
    events.on_run_event(SnapshotEvent(with_answer("I look", "dispatching")))
    started = ToolActivity(
        phase="started",
        call_id="c",
        name="read",
        title="Read a",
        kind="read",
        input={"path": "a"},
        locations=(Location(Path("/a")),),
    )
    events.on_tool(started)
    events.on_tool(replace(started, phase="finished", output="1\tx"))
    events.on_run_event(ToolFinishedEvent("c", "read", ToolOutcome("c", "1\tx", False)))
    place = (ToolLocation(str(Path("/a"))),)
    assert told(log)[1:] == [
        TextDelta("t.0", "I look"),
        Message("t.0", ({"type": "text", "text": "I look"},)),
        Phase("dispatching"),
        ToolStarted("c", "read", "Read a", "read", {"path": "a"}, place),
        ToolFinished("c", "read", "Read a", "read", "1\tx", False, place),
    ]


def test_a_call_that_never_reached_a_tool_still_has_its_pair_of_events() -> None:
    events, log, _ = make()
    events.on_run_event(ToolFinishedEvent("c", "read", ToolOutcome("c", "cut off", True)))
    assert told(log) == [
        ToolStarted("c", "read", "read", "other"),
        ToolFinished("c", "read", "read", "other", "cut off", True),
    ]


def test_a_phase_is_emitted_when_it_changes() -> None:
    events, log, _ = make()
    events.set_phase("invoking")
    events.set_phase("invoking")
    events.set_phase("streaming")
    assert told(log) == [Phase("invoking"), Phase("streaming")]


def test_events_after_the_turn_belong_to_no_turn() -> None:
    events, log, _ = make()
    events.on_run_event(TextDeltaEvent("a"))
    events.on_run_event(TextDeltaEvent("b"))
    events.end_turn()
    events.emit(Phase("idle"))
    assert [event.turn_id for event in log.after(0)] == ["t", "t", "t", None]


def test_thinking_is_part_of_the_message() -> None:
    events, log, _ = make()
    events.on_run_event(ThinkingDeltaEvent("hm"))
    turns = (assistant(ThinkingBlock("hm"), "yes"),)
    events.on_run_event(SettledEvent(replace(IDLE, phase="settled", messages=turns)))
    content = ({"type": "thinking", "text": "hm"}, {"type": "text", "text": "yes"})
    assert told(log)[-1] == Message("t.0", content)
