"""The event log: numbers without gaps, readers with cursors, bounded in what it keeps."""

from __future__ import annotations

from sidecar.conductor.events import Message, Phase, TextDelta
from sidecar.conductor.log import EventLog


def make_log(start: int = 0) -> EventLog:
    return EventLog("s", clock_ms=lambda: 7, start=start)


def test_numbers_continue_from_an_earlier_process() -> None:
    log = make_log(start=41)
    assert log.append(Phase("invoking")).seq == 42
    assert [event.seq for event in log.after(0)] == [42]


def test_a_reader_gets_what_comes_after_its_cursor_page_by_page() -> None:
    log = make_log()
    for name in ("a", "b", "c"):
        log.append(Phase(name))
    assert [event.seq for event in log.after(1, limit=1)] == [2]
    assert [event.seq for event in log.after(2)] == [3]
    assert log.after(3) == ()


def test_a_follower_is_woken_until_it_stops() -> None:
    log, heard = make_log(), []
    stop = log.follow(lambda followed: heard.append(followed.seq))
    log.append(Phase("a"))
    stop()
    stop()
    log.append(Phase("b"))
    assert heard == [1]


def test_restated_deltas_are_let_go_and_the_message_stays() -> None:
    log = make_log()
    for _ in range(600):
        log.append(TextDelta("t.0", "x"), "t")
    log.append(Message("t.0", ()), "t")
    for _ in range(600):
        log.append(TextDelta("t.1", "y"), "t")
    kept = log.after(0, limit=10_000)
    assert kept[0].seq == 601
    assert log.seq == 1201


def test_a_very_long_log_keeps_its_end() -> None:
    log = make_log()
    for _ in range(30_000):
        log.append(Phase("x"))
    kept = log.after(0, limit=100_000)
    assert len(kept) <= 21_000
    assert kept[-1].seq == 30_000
    assert [event.seq for event in kept] == list(range(kept[0].seq, 30_001))
