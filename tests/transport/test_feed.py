"""A place in an event log: nothing twice, nothing out of order, and every hole is named."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.conductor.events import (
    Event,
    Message,
    Notice,
    Payload,
    Phase,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
)
from sidecar.conductor.record.log import EventLog
from sidecar.transport.outbox import MERGED_CHARS, Feed, FeedItem, Gap, Projection

ALL = Projection(lambda kind: True, lambda item: ())
NO_PHASES = Projection(lambda kind: kind != Phase.kind, lambda item: ())
PHASE = Phase("idle")
TURN = "t1"


def log_of(*payloads: Payload) -> EventLog:
    log = EventLog("s", count(1).__next__)
    for payload in payloads:
        log.append(payload, TURN)
    return log


def text(delta: str, message_id: str = "m") -> TextDelta:
    return TextDelta(message_id, delta)


def event(seq: int, payload: Payload) -> Event:
    return Event("s", seq, seq, payload, TURN)


def check(feed: Feed, up_to: int, expected: list[FeedItem], limit: int = 100) -> None:
    assert feed.take(up_to, limit) == expected


@pytest.mark.parametrize(
    ("payloads", "expected"),
    [
        pytest.param([text("a"), text("b"), text("c")], [event(3, text("abc"))], id="one message is merged"),
        pytest.param(
            [text("a"), text("b", "n")],
            [event(1, text("a")), event(2, text("b", "n"))],
            id="two messages are not",
        ),
        pytest.param(
            [text("a"), ThinkingDelta("m", "b")],
            [event(1, text("a")), event(2, ThinkingDelta("m", "b"))],
            id="answer and reasoning are not",
        ),
        pytest.param(
            [text("a"), ToolProgress("c", "p"), text("b")],
            [event(1, text("a")), event(2, ToolProgress("c", "p")), event(3, text("b"))],
            id="nothing is merged over another event",
        ),
        pytest.param(
            [ToolProgress("c", "p"), ToolProgress("c", "q")],
            [event(1, ToolProgress("c", "p")), event(2, ToolProgress("c", "q"))],
            id="tool progress is not merged",
        ),
        pytest.param(
            [text("a" * MERGED_CHARS), text("b")],
            [event(1, text("a" * MERGED_CHARS)), event(2, text("b"))],
            id="a merged delta has a limit",
        ),
    ],
)
def test_take(payloads: list[Payload], expected: list[FeedItem]) -> None:
    check(Feed(log_of(*payloads), 0, ALL), len(payloads), expected)


def test_deltas_of_two_turns_are_not_merged() -> None:
    log = EventLog("s", lambda: 0)
    log.append(text("a"), "t1")
    log.append(text("b"), "t2")
    assert len(Feed(log, 0, ALL).take(2, 100)) == 2


def test_nothing_beyond_the_mark_is_taken() -> None:
    feed = Feed(log_of(text("a"), text("b"), text("c")), 0, ALL)
    check(feed, 2, [event(2, text("ab"))])
    check(feed, 2, [])
    check(feed, 3, [event(3, text("c"))])


def test_a_limit_only_delays() -> None:
    feed = Feed(log_of(*(Notice("info", str(n)) for n in range(5))), 0, ALL)
    taken = [item for _ in range(3) for item in feed.take(5, 2)]
    assert [item.seq for item in taken if isinstance(item, Event)] == [1, 2, 3, 4, 5]


def test_events_before_the_cursor_are_never_sent_again() -> None:
    feed = Feed(log_of(text("a"), text("b")), 1, ALL)
    check(feed, 2, [event(2, text("b"))])
    feed.skip_to(0)
    check(feed, 2, [])


def test_unwanted_kinds_leave_no_gap() -> None:
    wants_messages = Projection(lambda kind: kind == "message", lambda item: ())
    feed = Feed(log_of(text("a"), Message("m", ())), 0, wants_messages)
    check(feed, 2, [event(2, Message("m", ()))])


def sweep(log: EventLog) -> None:
    """Let *log* let go of 999 deltas, by their message and as many events as keep it from being fresh."""
    for n in range(999):
        log.append(text(str(n)), TURN)
    log.append(Message("m", ()), TURN)
    for _ in range(1000):
        log.append(PHASE, TURN)


def test_events_that_a_slow_client_lost_are_a_gap() -> None:
    log = log_of()
    feed = Feed(log, 0, NO_PHASES)
    sweep(log)
    check(feed, 2000, [Gap("s", 1, 999, "slowClient"), event(1000, Message("m", ()))], 2000)


def test_events_lost_before_the_client_joined_are_a_gap_of_another_reason() -> None:
    log = log_of()
    sweep(log)
    feed = Feed(log, 0, NO_PHASES)
    check(feed, 2000, [Gap("s", 1, 999, "notKept"), event(1000, Message("m", ()))], 2000)


def test_a_hole_that_reaches_the_mark_is_sent_at_once() -> None:
    log = log_of()
    feed = Feed(log, 0, ALL)
    sweep(log)
    check(feed, 500, [Gap("s", 1, 500, "slowClient")])
    assert feed.cursor == 500


payloads = st.one_of(
    st.builds(text, st.text(max_size=3), st.sampled_from("mn")),
    st.builds(Notice, st.just("info"), st.text(max_size=3)),
    st.just(Message("m", ())),
)


@given(st.lists(st.tuples(payloads, st.integers(0, 3)), max_size=40), st.integers(1, 9))
def test_whatever_the_pace_the_client_has_the_whole_text(
    steps: list[tuple[Payload, int]], limit: int
) -> None:
    """Take *pulls* times after each append: every event arrives once, in order, merged or not."""
    log = log_of()
    feed = Feed(log, 0, ALL)
    got: list[FeedItem] = []
    for payload, pulls in steps:
        log.append(payload, TURN)
        for _ in range(pulls):
            got += feed.take(log.seq, limit)
    while feed.cursor < log.seq:
        got += feed.take(log.seq, limit)
    seqs = [item.seq for item in got if isinstance(item, Event)]
    assert seqs == sorted(set(seqs))
    assert told(got) == told(log.after(0, 1000))


def told(items: object) -> dict[str, str]:
    """Return what a client has of every message."""
    texts: dict[str, str] = {}
    for item in items:  # type: ignore[attr-defined]  # events, or events and gaps
        if isinstance(item, Event) and isinstance(item.data, TextDelta):
            texts[item.data.message_id] = texts.get(item.data.message_id, "") + item.data.delta
    return texts
