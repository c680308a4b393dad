"""The event log: numbers without gaps, readers with cursors, and a bounded size."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import cases
from sidecar.conductor.contract import Compaction, CompactionStatus, ContextUsage
from sidecar.conductor.events import (
    CompactionSummaryDelta,
    DiffContent,
    Faulted,
    Message,
    Notice,
    Payload,
    Phase,
    QueueChanged,
    Settled,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    UserMessage,
)
from sidecar.conductor.record.log import EventLog, delta_of

USAGE = ContextUsage(0, 0, 0, 0.0, "estimate", None, {})
NOTICE = Notice("info", "n")
FRESH, KEEP_DELTAS, KEEP_EVENTS = 1_000, 2_000, 5_000


@pytest.fixture
def short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs forget sooner than they do in a daemon, so that a test need not fill them for seconds."""
    monkeypatch.setattr("sidecar.conductor.record.log.KEEP_EVENTS", KEEP_EVENTS)
    monkeypatch.setattr("sidecar.conductor.record.log._KEEP_DELTAS", KEEP_DELTAS)


def make_log(start: int = 0) -> EventLog:
    return EventLog("s", clock_ms=lambda: 7, start=start)


def fill(log: EventLog, n: int, data: Payload = NOTICE, turn_id: str | None = None) -> None:
    for _ in range(n):
        log.append(data, turn_id)


def kept(log: EventLog) -> Sequence[int]:
    return [event.seq for event in log.after(0, limit=1_000_000)]


def settled(turn_id: str) -> Settled:
    return Settled(turn_id, "end_turn", None, USAGE, 0)


def test_numbers_continue_from_an_earlier_process() -> None:
    log = make_log(start=41)
    assert log.append(Phase("invoking")).seq == 42
    assert kept(log) == [42]


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


def compaction(status: CompactionStatus) -> Compaction:
    return Compaction("c", "none", "manual", status, 0, 0, 0, 0, 0, None, False)


FINISHED = ToolFinished("t", "bash", "Run", "execute", "out", False)


@pytest.mark.parametrize(
    ("delta", "whole", "goes"),
    [
        pytest.param(TextDelta("m", "x"), Message("m", ()), True, id="text by its message"),
        pytest.param(ThinkingDelta("m", "x"), Message("m", ()), True, id="thinking by its message"),
        pytest.param(ToolProgress("t", "x"), FINISHED, True, id="progress by the end of its call"),
        pytest.param(
            CompactionSummaryDelta("c", "x"), compaction("completed"), True, id="a digest by its end"
        ),
        pytest.param(
            CompactionSummaryDelta("c", "x"), compaction("in_progress"), False, id="not by its start"
        ),
        pytest.param(TextDelta("m", "x"), Message("n", ()), False, id="not by another message"),
        pytest.param(ToolProgress("u", "x"), FINISHED, False, id="not by the end of another call"),
        pytest.param(NOTICE, Message("m", ()), False, id="no delta is restated by nothing"),
    ],
)
def test_a_delta_is_forgotten_once_an_event_supersedes_it(delta: Payload, whole: Payload, goes: bool) -> None:
    log = make_log()
    fill(log, 10, delta)
    log.append(whole)
    fill(log, 2 * FRESH)
    assert kept(log)[0] == (11 if goes else 1)


def test_an_earlier_whole_event_does_not_supersede_later_deltas() -> None:
    log = make_log()
    log.append(Message("m", ()))
    log.append(TextDelta("m", "x"))
    fill(log, 2 * FRESH)
    assert kept(log)[:2] == [1, 2]


def test_a_state_is_forgotten_once_it_is_renewed() -> None:
    """The options of a session, told 50,000 times, would hold 150 MB."""
    log = make_log()
    log.append(QueueChanged(()), "turn")
    for _ in range(3 * FRESH):
        log.append(USAGE, "turn")
    assert kept(log)[0] == 1
    assert len(kept(log)) <= 2 * FRESH


def test_a_reader_that_keeps_up_misses_no_delta() -> None:
    log = make_log()
    cursor = n_seen = 0
    for n in range(5):
        for _ in range(FRESH):
            log.append(TextDelta(f"m{n}", "x"))
            if log.seq - cursor == FRESH // 2:
                seen = log.after(cursor, limit=FRESH)
                n_seen, cursor = n_seen + len(seen), seen[-1].seq
        log.append(Message(f"m{n}", ()))
    assert n_seen == cursor


@pytest.mark.usefixtures("short_logs")
def test_old_deltas_are_forgotten_although_no_event_supersedes_them() -> None:
    """A command that tells its progress for hours costs no more than one of minutes."""
    log = make_log()
    fill(log, 10 * KEEP_DELTAS, ToolProgress("t", "x"), "turn")
    assert KEEP_DELTAS <= len(kept(log)) < 1.5 * KEEP_DELTAS
    assert kept(log)[-1] == log.seq


@pytest.mark.usefixtures("short_logs")
def test_other_events_are_forgotten_only_when_very_old() -> None:
    log = make_log()
    fill(log, 3 * KEEP_EVENTS)
    assert KEEP_EVENTS <= len(kept(log)) < 1.5 * KEEP_EVENTS
    assert list(kept(log)) == list(range(kept(log)[0], log.seq + 1))


@pytest.mark.usefixtures("short_logs")
@pytest.mark.parametrize(
    ("ends", "stays"),
    [
        pytest.param(None, True, id="while it runs"),
        pytest.param(settled("other"), True, id="another one that never ran"),
        pytest.param(settled("turn"), False, id="once it is settled"),
        pytest.param(Faulted("turn", "modelFailed", "no", None, USAGE, 0), False, id="once it has failed"),
    ],
)
def test_events_of_the_running_turn_are_kept(ends: Settled | Faulted | None, stays: bool) -> None:
    log = make_log()
    log.append(NOTICE, "before")
    log.append(NOTICE, "turn")
    if ends is not None:
        log.append(ends, ends.turn_id)
    fill(log, 2 * KEEP_EVENTS, turn_id="turn" if stays else None)
    assert kept(log)[0] == 2 if stays else kept(log)[0] > KEEP_EVENTS // 2


PAGE = "x" * 1_000_000
BIG = [
    pytest.param(ToolFinished("t", "bash", "Run", "execute", PAGE, False), id="output"),
    pytest.param(
        ToolFinished("t", "edit", "", "edit", "ok", False, diffs=(DiffContent("a", PAGE, ""),)), id="a file"
    ),
    pytest.param(ToolStarted("t", "write", "", "edit", {"content": [PAGE]}), id="arguments"),
    pytest.param(UserMessage(None, ({"type": "image", "data": PAGE},)), id="an image"),
]


@pytest.mark.parametrize("payload", BIG)
@pytest.mark.parametrize("running", [False, True], ids=["settled turns", "the running turn"])
def test_the_log_is_bounded_by_its_text_too(payload: Payload, running: bool) -> None:
    """A log that is bounded by the number of events alone grows without bound."""
    log = make_log()
    fill(log, 300, payload, "turn" if running else None)
    assert kept(log)[-1] == 300
    assert len(kept(log)) == 300 if running else 60 <= len(kept(log)) <= 100
    log.append(settled("turn"), "turn")
    fill(log, 100, payload)
    assert 60 <= len(kept(log)) <= 100


payloads = st.sampled_from([TextDelta("m", "x"), Message("m", ()), ToolProgress("t", "x"), FINISHED, NOTICE])


@cases(60)
@given(st.lists(st.tuples(payloads, st.integers(1, 900)), max_size=8))
def test_a_short_log_forgets_only_deltas(told: list[tuple[Payload, int]]) -> None:
    log = make_log()
    everything = [payload for payload, n in told for _ in range(n)]
    for payload in everything:
        log.append(payload)
    present = set(kept(log))
    missing = [payload for seq, payload in enumerate(everything, start=1) if seq not in present]
    assert all(delta_of(payload) is not None for payload in missing)
    assert present.issuperset(range(max(1, log.seq - FRESH + 1), log.seq + 1))
