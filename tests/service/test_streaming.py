"""An answer is sent as parts of a result: all of it, in order, also when the client stops reading."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fake_sink import FakeProgress
from sidecar.conductor.contract import Compaction, ContextUsage, Loss
from sidecar.conductor.events import Faulted, Message, Payload, Settled, TextDelta
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.work import SessionWork
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


def make_session() -> Any:
    """Return a session whose turn ``t`` runs."""
    log, jobs = EventLog("s", lambda: 0), SimpleNamespace(follow=lambda follower: None)
    queue: Any = SimpleNamespace(jobs=jobs, running=SimpleNamespace(turn_id="t"))
    record = SimpleNamespace(log=log, queue=queue, work=SessionWork(queue, log, lambda: 0, end=None, since=0))
    return SimpleNamespace(record=record, info=SimpleNamespace(title="Talk"))


def shown(show: Any, *events: Payload) -> FakeProgress:
    """Return the progress of turn ``t``, or of compaction ``c``, with *events*."""
    session, progress = make_session(), FakeProgress("p")
    log = session.record.log
    show(session, SimpleNamespace(turn_id="t", compaction_id="c"), progress, 0)
    for data in events:
        log.append(data, "t")
    return progress


def test_a_compaction_in_the_middle_of_a_turn_does_not_end_its_progress() -> None:
    progress = shown(show_turn, COMPACTED, TextDelta("m", "go on"))
    assert [message for message, _ in progress.reports] == [OUTCOME, "go on"]
    assert progress.ended is None
    assert shown(show_turn, COMPACTED, END).ended == "end_turn"


@pytest.mark.parametrize(("turn_id", "n_reports"), [("t", 1), ("another", 0)])
def test_the_progress_of_a_turn_that_waits_says_so(turn_id: str, n_reports: int) -> None:
    session, progress, started = make_session(), FakeProgress("p"), SimpleNamespace(turn_id=turn_id)
    show_turn(session, started, progress, 0)  # type: ignore[arg-type]  # no more of a receipt is used
    for _ in range(2):
        with session.record.work.wait_for("permission", "Run make", lambda why: None):
            session.record.log.append(END, turn_id)  # the second time the turn is over
    assert progress.reports == [("waiting for you: Run make", None)] * n_reports


def test_the_progress_of_a_compaction_ends_with_its_loss() -> None:
    assert shown(show_compaction, COMPACTED).ended == OUTCOME
