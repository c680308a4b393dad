"""The queue of what goes out: order, bounds, batches; all over a stream in memory."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_stream import MemoryStream
from sidecar.conductor.events import Event, Notice, TextDelta
from sidecar.conductor.record.log import EventLog
from sidecar.protocol.framing import frame_with_newline
from sidecar.transport.bounds import HeldBytes
from sidecar.transport.outbox import HIGH_WATER_BYTES, FeedItem, Gap, Outbox, Projection


def tell(item: FeedItem) -> Iterable[bytes]:
    if isinstance(item, Gap):
        yield msgspec.json.encode(["gap", item.first, item.last])
    else:
        yield msgspec.json.encode([item.sid, item.seq])


class Box:
    """An outbox, its stream, and how often it said that there is room."""

    def __init__(self) -> None:
        self.stream = MemoryStream()
        self.rooms = 0
        self.outbox = Outbox(
            self.stream, frame_with_newline, self._on_room, HeldBytes().open(self.stream.close)
        )
        self.stream.open(self)
        self.writes: list[bytes] = []
        write = self.stream.write

        def recording(data: bytes) -> None:
            self.writes.append(data)
            write(data)

        self.stream.write = recording  # type: ignore[method-assign]  # the test counts writes

    def _on_room(self) -> None:
        self.rooms += 1

    def on_data(self, data: bytes) -> None: ...

    def on_end(self) -> None: ...

    def on_writable(self) -> None:
        self.outbox.pump()

    @property
    def sent(self) -> list[Any]:
        return [json.loads(line) for line in bytes(self.stream.received_bytes).splitlines()]


ALL = Projection(lambda kind: True, tell)


def log_named(sid: str) -> EventLog:
    return EventLog(sid, count(1).__next__)


def notice(log: EventLog) -> None:
    log.append(Notice("info", "n"))


async def test_messages_leave_in_order_and_in_one_write() -> None:
    box = Box()
    for n in range(100):
        box.outbox.put(b"%d" % n)
    await box.outbox.drain()
    assert (box.sent, len(box.writes)) == (list(range(100)), 1)


async def test_what_is_queued_under_a_cork_leaves_with_it_in_one_write() -> None:
    """Answers to messages that came together leave without waiting for a tick."""
    box = Box()
    box.outbox.is_corked = True
    for n in range(3):
        box.outbox.put(b"%d" % n)
    assert box.writes == []
    box.outbox.uncork()
    assert box.writes == [b"0\n1\n2\n"]


async def test_a_cork_that_nothing_was_queued_under_lets_a_delta_wait() -> None:
    box, log = Box(), log_named("a")
    box.outbox.follow(log, 0, Projection(None, tell, coalesce_s=60))
    await box.outbox.drain()
    for _ in range(2):
        log.append(TextDelta("m", "x"))
    box.outbox.is_corked = True
    box.outbox.uncork()
    assert box.sent == [["a", 1]]
    box.outbox.close()


async def test_following_begins_where_asked_and_only_moves_on() -> None:
    box, log = Box(), log_named("a")
    for _ in range(4):
        notice(log)
    box.outbox.follow(log, 2, ALL)
    box.outbox.follow(log, 0, ALL)
    await box.outbox.drain()
    assert box.sent == [["a", 3], ["a", 4]]


async def test_unfollow_sends_earlier_events_and_no_later_ones() -> None:
    box, log = Box(), log_named("a")
    box.outbox.follow(log, 0, ALL)
    notice(log)
    box.outbox.unfollow("a")
    notice(log)
    await box.outbox.drain()
    assert box.sent == [["a", 1]]


async def test_another_log_of_the_same_session_replaces_the_first() -> None:
    box, old, new = Box(), log_named("a"), log_named("a")
    box.outbox.follow(old, 0, ALL)
    notice(old)
    box.outbox.follow(new, 0, ALL)
    notice(old)
    notice(new)
    await box.outbox.drain()
    assert box.sent == [["a", 1], ["a", 1]]


async def test_a_client_that_does_not_read_costs_a_cursor() -> None:
    box, log = Box(), log_named("a")
    box.outbox.follow(log, 0, ALL)
    box.stream.stall()
    box.outbox.put(b'"fills the pipe"')
    box.outbox.pump()
    for _ in range(5_000):
        notice(log)
        await asyncio.sleep(0)
    assert (len(box.outbox._queue), box.outbox.unsent_bytes) == (1, len(box.writes[0]))
    box.stream.read_on()
    await box.outbox.drain()
    assert box.sent[1:] == [["a", n] for n in range(1, 5_001)]


async def test_many_logs_without_a_reader_cost_a_mark_each() -> None:
    box, logs = Box(), [log_named(str(n)) for n in range(10)]
    box.stream.stall()
    box.outbox.put(b"0")
    box.outbox.pump()
    for log in logs:
        box.outbox.follow(log, 0, ALL)
    for _ in range(100):
        for log in logs:
            notice(log)
    assert len(box.outbox._queue) == 10


async def test_a_batch_is_bounded_and_the_loop_goes_on_between() -> None:
    box, log = Box(), log_named("a")
    box.outbox.follow(log, 0, ALL)
    for _ in range(20_000):
        notice(log)
    turns = 0
    drained = asyncio.ensure_future(box.outbox.drain())
    while not drained.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > len(box.writes) > 2
    assert max(map(len, box.writes)) < 100_000


async def test_full_until_half_of_it_is_gone() -> None:
    box = Box()
    box.stream.stall()
    box.outbox.put(b"1")
    box.outbox.pump()
    big = b'"' + b"x" * (HIGH_WATER_BYTES // 4) + b'"'
    for expected in (False, False, False, True):
        box.outbox.put(big)
        assert box.outbox.is_full is expected
    assert box.rooms == 0
    box.stream.read_on()
    await box.outbox.drain()
    assert (box.outbox.is_full, box.rooms, box.outbox.unsent_bytes) == (False, 1, 0)
    assert len(box.sent) == 5, "responses are never dropped"


async def test_a_full_queue_holds_a_state_once_and_drops_optional_messages() -> None:
    box = Box()
    for _ in range(2):
        box.stream.stall()
        box.outbox.put(b'"' + b"x" * HIGH_WATER_BYTES + b'"')
        for state in ("changed", "other", "changed"):
            box.outbox.put_state(f'"{state}"'.encode())
            box.outbox.put_if_room(b'"progress"')
        box.stream.read_on()
        await box.outbox.drain()
    assert [sent for sent in box.sent if len(sent) < 100] == ["changed", "other"] * 2


async def test_a_delta_waits_for_more_of_its_message_and_nothing_else_waits() -> None:
    box, log = Box(), log_named("a")
    box.outbox.follow(log, 0, Projection(lambda kind: True, tell, coalesce_s=3600))
    box.outbox.pump()
    for _ in range(4):
        log.append(TextDelta("m", "x"))
    await asyncio.sleep(0)
    assert box.sent == [["a", 1]]
    notice(log)
    await box.outbox.drain()
    assert box.sent == [["a", 1], ["a", 4], ["a", 5]]


@pytest.mark.parametrize("coalesce_s", [0, 3600])
async def test_the_first_delta_of_a_message_leaves_before_the_loop_goes_on(coalesce_s: float) -> None:
    """A model may yield a whole answer without waiting, and its user sees nothing meanwhile."""
    box, log = Box(), log_named("a")
    box.outbox.follow(log, 0, Projection(None, tell, coalesce_s))
    box.outbox.pump()
    notice(log)
    for message_id in ("one", "one", "two", "two", "two"):
        log.append(TextDelta(message_id, "x"))
    assert box.sent == [["a", 1], ["a", 2], ["a", 3], ["a", 4]]
    notice(log)
    await box.outbox.drain()
    assert box.sent[4:] == [["a", 6], ["a", 7]]


async def test_the_first_delta_of_a_message_waits_under_a_cork_as_everything_does() -> None:
    box, log = Box(), log_named("a")
    box.outbox.follow(log, 0, Projection(None, tell))
    box.outbox.pump()
    box.outbox.is_corked = True
    log.append(TextDelta("m", "x"))
    box.outbox.put(b"0")
    assert box.sent == []
    box.outbox.uncork()
    assert box.sent == [["a", 1], 0]


async def test_waiting_deltas_go_when_they_are_many() -> None:
    box, log = Box(), log_named("a")
    box.outbox.follow(log, 0, Projection(lambda kind: True, tell, coalesce_s=3600))
    box.outbox.pump()
    for _ in range(5):
        log.append(TextDelta("m", "x" * 1024))
    await box.outbox.drain()
    assert box.sent == [["a", 1], ["a", 5]]


async def test_waiting_deltas_go_after_the_time_asked_for() -> None:
    box, log = Box(), log_named("a")
    box.outbox.follow(log, 0, Projection(lambda kind: True, tell, coalesce_s=0.001))
    log.append(TextDelta("m", "x"))
    await box.outbox.drain()
    assert box.sent == [["a", 1]]


async def test_an_event_that_cannot_be_encoded_does_not_stop_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = "".join(("sec", "ret"))  # in two parts, so that no line of code quotes it

    def fail_at_two(item: FeedItem) -> Iterable[bytes]:
        if isinstance(item, Event) and item.seq == 2:
            raise ValueError(f"the prompt was: {said}")
        return tell(item)

    box, log = Box(), log_named("a")
    box.outbox.follow(log, 0, Projection(lambda kind: True, fail_at_two))
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            notice(log)
        await box.outbox.drain()
    assert box.sent == [["a", 1], ["a", 3]]
    assert "encoding an event failed with ValueError" in caplog.text
    assert said not in caplog.text


async def test_after_close_nothing_is_queued_or_followed() -> None:
    box, log = Box(), log_named("a")
    box.outbox.follow(log, 0, ALL)
    box.outbox.close()
    notice(log)
    box.outbox.put(b"1")
    box.outbox.follow(log, 0, ALL)
    await box.outbox.drain()
    assert (box.sent, log._followers) == ([], [])


async def test_a_log_that_is_unfollowed_during_its_notification_is_not_followed() -> None:
    box, log = Box(), log_named("a")
    log.follow(lambda _: box.outbox.unfollow("a"))
    box.outbox.follow(log, 0, ALL)
    notice(log)
    await box.outbox.drain()
    assert box.sent == []


steps = st.lists(st.sampled_from(["a", "b", "put", "past", "stall", "read", "turn"]), max_size=60)


@given(steps)
def test_order_holds_whatever_the_reader_does(script: list[str]) -> None:
    """After answer n, no event from before it; before answer n, none from after it; nothing is lost.

    That holds for all sessions, but for a one whose past is sent for the answers about it alone.
    """
    asyncio.run(play(script))


async def play(script: list[str]) -> None:
    box, logs = Box(), {sid: log_named(sid) for sid in "ab"}
    for log in logs.values():
        box.outbox.follow(log, 0, ALL)
    expected: dict[str, list[Any]] = {"a": [], "b": []}
    has_past = False
    n_answers = 0
    for step in script:
        match step:
            case "put":
                for sid, log in logs.items():
                    if sid == "b" or not has_past:
                        expected[sid].append((n_answers, log.seq))
                box.outbox.put(b"%d" % n_answers, "b" if has_past else None)
                n_answers += 1
            case "past":
                has_past = True
                expected["a"].append((-1, logs["a"].seq))
                box.outbox.put_past("a", past_of("a", 100), tell)
                box.outbox.put(b"-1", "a")
            case "stall":
                box.stream.stall()
            case "read":
                box.stream.read_on()
            case "turn":
                await asyncio.sleep(0)
            case sid:
                notice(logs[sid])
    box.stream.read_on()
    await box.outbox.drain()
    seen = {"a": 0, "b": 0}
    found: dict[str, list[Any]] = {"a": [], "b": []}
    n_past = 0
    for message in box.sent:
        if isinstance(message, int):
            for sid, seq in seen.items():
                found[sid].append((message, seq))
            assert message >= 0 or n_past % 100 == 0
        elif message[1] < 0:
            n_past += 1
        else:
            sid, seq = message
            assert seq == seen[sid] + 1
            seen[sid] = seq
    for sid in "ab":
        judged = {number for number, _ in expected[sid]}
        assert [each for each in found[sid] if each[0] in judged] == expected[sid]
    assert n_past == 100 * script.count("past")
    assert seen == {sid: log.seq for sid, log in logs.items()}


def past_of(sid: str, n_events: int = 10_000) -> Iterator[Event]:
    return (Event(sid, number, 0, Notice("info", "old")) for number in range(-n_events, 0))


async def test_a_past_is_made_only_as_far_as_there_is_room_and_its_session_waits_for_it() -> None:
    box, log, made = Box(), log_named("a"), []

    def past() -> Iterator[Event]:
        for number in range(10_000):
            made.append(number)
            yield Event("a", 0, 0, Notice("info", f"{number}", ""))

    def encode(event: Event) -> Iterable[bytes]:
        assert isinstance(event.data, Notice)
        return [] if int(event.data.title) % 10 else [event.data.title.encode()]

    box.outbox.put(b'"before"', "a")
    box.outbox.put_past("a", past(), encode)
    box.outbox.follow(log, 0, Projection(None, tell))
    box.outbox.put(b'"after"', "a")
    box.stream.stall()
    box.outbox.pump()
    assert 0 < len(made) < 1_000
    log.append(Notice("info", "new", ""))
    box.stream.read_on()
    await box.outbox.drain()
    assert box.sent == ["before", *range(0, 10_000, 10), "after", ["a", 1]]
    assert len(box.writes) > 10


async def test_a_past_that_cannot_be_made_ends_and_holds_nothing_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    box = Box()

    def past() -> Iterator[Event]:
        yield Event("a", 0, 0, Notice("info", "one", ""))
        raise ValueError("no more")

    box.outbox.put_past("a", past(), tell)
    box.outbox.put(b'"after"', "a")
    await box.outbox.drain()
    assert box.sent == [["a", 0], "after"]
    assert "replaying the past" in caplog.text


@pytest.mark.parametrize("is_kept", [True, False], ids=["in the log", "from before the log"])
async def test_what_is_queued_behind_a_long_past_leaves_with_the_next_batch(is_kept: bool) -> None:
    """An answer and an event of another session do not wait; an answer of the same session does."""
    box, a, b = Box(), log_named("a"), log_named("b")
    box.outbox.follow(b, 0, ALL)
    if is_kept:
        for _ in range(10_000):
            notice(a)
        box.outbox.follow(a, 0, ALL)
    else:
        box.outbox.put_past("a", past_of("a"), tell)
        box.outbox.follow(a, 0, ALL)
    box.outbox.pump()
    box.outbox.put(b'"of a"', "a")
    box.outbox.put(b'"of b"', "b")
    notice(b)
    n_before = len(box.sent)
    box.outbox.pump()
    assert n_before < 1_000
    assert box.sent[n_before : n_before + 2] == ["of b", ["b", 1]]
    notice(a)
    await box.outbox.drain()
    assert box.sent[-2] == "of a"
    assert len(box.sent) == 10_000 + 4


async def test_several_pasts_are_sent_in_turns() -> None:
    box = Box()
    for sid in "ab":
        box.outbox.put_past(sid, past_of(sid), tell)
    await box.outbox.drain()
    assert len(box.sent) == 20_000
    assert len({sid for sid, _ in box.sent[:1_000]}) == 2


async def test_a_past_goes_on_while_other_messages_never_end() -> None:
    box = Box()
    box.outbox.put_past("a", past_of("a", 200), tell)
    while len(box.sent) < 200:
        box.outbox.put(b'"' + b"x" * 100_000 + b'"')
        box.outbox.pump()
        box.stream.received_bytes[:] = b"".join(
            line for line in bytes(box.stream.received_bytes).splitlines(keepends=True) if b"xx" not in line
        )
    assert box.sent == [["a", n] for n in range(-200, 0)]


async def test_a_sub_agent_waits_with_the_session_that_introduces_it() -> None:
    box, parent, child = Box(), log_named("a"), log_named("b")
    box.outbox.put_past("a", past_of("a"), tell)
    box.outbox.follow(parent, 0, ALL)
    notice(parent)
    box.outbox.follow(child, 0, ALL, parent="a")
    notice(child)
    await box.outbox.drain()
    assert box.sent[10_000:] == [["a", 1], ["b", 1]]
    notice(child)
    await box.outbox.drain()
    assert box.sent[-1] == ["b", 2]


async def test_messages_behind_a_past_fill_the_queue_as_others_do() -> None:
    box = Box()
    box.stream.stall()
    box.outbox.put_past("a", past_of("a"), tell)
    box.outbox.put(b'"' + b"x" * HIGH_WATER_BYTES + b'"', "a")
    assert box.outbox.is_full
    box.stream.read_on()
    await box.outbox.drain()
    assert (box.outbox.is_full, box.rooms, box.outbox.unsent_bytes) == (False, 1, 0)


async def test_after_close_no_past_goes_on() -> None:
    box = Box()
    box.outbox.put_past("a", past_of("a"), tell)
    box.outbox.pump()
    box.outbox.close()
    n_sent = len(box.sent)
    box.outbox.pump()
    assert len(box.sent) == n_sent
