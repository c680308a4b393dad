"""An answer is sent as parts of a result: all of it, in order, also when the client stops reading."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fake_sink import FakeProgress
from sidecar.conductor.contract import Compaction, ContextUsage, Loss
from sidecar.conductor.events import Faulted, Message, Payload, Settled, TextDelta
from sidecar.conductor.record.log import EventLog
from sidecar.service.streaming import show_compaction, show_turn, stream_answer

USAGE = ContextUsage(0, 100, 80, 0.0, "estimate", None, {})
END = Settled("t", "end_turn", None, USAGE, 0)


def message(message_id: str, text: str) -> Message:
    return Message(message_id, ({"type": "thinking", "text": "hm"}, {"type": "text", "text": text}))


class Client:
    """Takes parts while it has *room*, and the last ones in any case."""

    def __init__(self) -> None:
        self.room = True
        self.parts: list[tuple[str, str]] = []

    def take(self, part: dict[str, Any], is_last: bool) -> bool:
        assert part["turnId"] == "t"
        if self.room or is_last:
            self.parts.append((part["messageId"], part["text"]))
        return self.room or is_last


def streamed(client: Client, *events: Payload) -> EventLog:
    """Return the log of a turn ``t`` with these events, streamed to *client*."""
    log = EventLog("s", lambda: 0)
    log.append(TextDelta("old.0", "before"), "old")
    stream_answer(log, "t", client.take, log.seq)
    for data in events:
        log.append(data, "t")
    return log


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([TextDelta("m", "a"), TextDelta("m", "b"), message("m", "ab")], ["a", "b"], id="deltas"),
        pytest.param([message("m", "ab")], ["ab"], id="an answer that was not streamed"),
        pytest.param(
            [TextDelta("m", "a"), message("m", "ab")], ["a", "b"], id="the rest that deltas left out"
        ),
        pytest.param([message("m", "")], [], id="nothing but thoughts"),
        pytest.param([END, TextDelta("m", "a")], [], id="nothing behind the end"),
    ],
)
def test_the_parts_of_an_answer(events: list[Payload], expected: list[str]) -> None:
    client = Client()
    streamed(client, *events)
    assert client.parts == [("m", text) for text in expected]


@pytest.mark.parametrize("end", [END, Faulted("t", "modelFailed", "no", None, USAGE, 0)], ids=["well", "ill"])
def test_text_that_found_no_room_is_sent_at_the_end(end: Payload) -> None:
    client = Client()
    client.room = False
    log = streamed(client, TextDelta("m", "a"), TextDelta("m", "b"), TextDelta("n", "c"))
    assert client.parts == []
    log.append(end, "t")
    assert client.parts == [("m", "ab"), ("n", "c")]


def test_text_that_found_no_room_is_sent_with_the_next_text() -> None:
    client = Client()
    client.room = False
    log = streamed(client, TextDelta("m", "a"))
    client.room = True
    log.append(TextDelta("m", "b"), "t")
    assert client.parts == [("m", "ab")]


def test_text_of_other_turns_is_not_sent() -> None:
    client = Client()
    log = streamed(client)
    log.append(TextDelta("x.0", "x"), "x")
    assert client.parts == []


COMPACTED = Compaction(
    compaction_id="c",
    engine="windowBudget",
    trigger="auto",
    status="completed",
    pre_tokens=900,
    pre_count=9,
    dropped_count=7,
    cut=7,
    microcompacted=0,
    before_head="n",
    undoable=True,
    loss=Loss(9, 1, 2),
)
OUTCOME = (
    "completed: Facts of the folded part: 9 kept word for word, 1 shortened, 2 let go. /loss lists them."
)


def shown(show: Any, *events: Payload) -> FakeProgress:
    """Return the progress of turn ``t``, or of compaction ``c``, with *events*."""
    log, progress = EventLog("s", lambda: 0), FakeProgress("p")
    session: Any = SimpleNamespace(record=SimpleNamespace(log=log), info=SimpleNamespace(title="Talk"))
    show(session, SimpleNamespace(turn_id="t", compaction_id="c"), progress, 0)
    for data in events:
        log.append(data, "t")
    return progress


def test_a_compaction_in_the_middle_of_a_turn_does_not_end_its_progress() -> None:
    progress = shown(show_turn, COMPACTED, TextDelta("m", "go on"))
    assert [message for message, _ in progress.reports] == [OUTCOME, "go on"]
    assert progress.ended is None
    assert shown(show_turn, COMPACTED, END).ended == "end_turn"


def test_the_progress_of_a_compaction_ends_with_its_loss() -> None:
    assert shown(show_compaction, COMPACTED).ended == OUTCOME
