"""Show the work of a session while it happens: parts of an answer, and work-done progress.

Everything here follows an event log from a given event on and stops by itself at the last event of its turn
or compaction. Nothing here changes a session, except that the Cancel button of a progress interrupts it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from sidecar.conductor.contract import Compaction, ContextUsage, report_loss
from sidecar.conductor.events import (
    CompactionSummaryDelta,
    Event,
    Faulted,
    Message,
    Payload,
    Retry,
    Settled,
    TextDelta,
    ToolStarted,
    describe_retry,
)
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.queue import CompactReceipt, SubmitReceipt
from sidecar.conductor.record.work import PendingQuestion
from sidecar.conductor.session import Session
from sidecar.service.contract import ProgressSink

SendPart: TypeAlias = Callable[[dict[str, Any], bool], bool]
"""Takes ``(value, is_last)`` and returns whether the value was sent; the last value always is."""

_TAIL_CHARS: Final = 120
"""How much of the newest text a progress shows."""


def follow_events(log: EventLog, after_seq: int, is_last: Callable[[Event], bool]) -> Callable[[], None]:
    """Call *is_last* with each event of a log, stored and future, until it returns True.

    Args:
        log: the log to follow.
        after_seq: the number of the event before the first one of interest.
        is_last: takes one event; must not raise. It may append to the log: events still come in order.

    Returns:
        A function that ends the following at once; calling it again does nothing.
    """
    cursor, is_over = after_seq, False

    def deliver(log: EventLog) -> None:
        nonlocal cursor
        while not is_over and (events := log.after(cursor, limit=1)):
            cursor = events[0].seq
            if is_last(events[0]):
                stop()

    def stop() -> None:
        nonlocal is_over
        is_over = True
        unfollow()

    unfollow = log.follow(deliver)
    deliver(log)
    return stop


class StreamedText:
    """The text that a client has received of the message being written, by kind of text.

    Deltas make up a message, and the ``message`` event repeats it whole. A model that does not stream sends
    no delta, and a client that reads slowly may have lost some: then the end of the message is still missing.

    Attributes:
        has_gap: events were lost; no delta is sent until the next whole message, because its beginning or its
            middle may be missing.
    """

    def __init__(self) -> None:
        self.has_gap = False
        self._message_id: str | None = None
        self._sent: dict[str, list[str]] = {}

    def add(self, message_id: str, kind: str, delta: str) -> None:
        """Record that *delta* was sent. The first delta of a message replaces the message before it."""
        if message_id != self._message_id:
            self._message_id, self._sent = message_id, {}
        self._sent.setdefault(kind, []).append(delta)

    def rest_of(self, message_id: str, kind: str, whole: str) -> str:
        """Return the end of *whole* that was not sent yet.

        That is nothing when *whole* begins with other text than was sent: the client came in the middle.

        Args:
            message_id: the message that is complete now.
            kind: the kind of text, ``text`` or ``thinking``.
            whole: the complete text of that kind.

        >>> streamed = StreamedText()
        >>> streamed.add("m1", "text", "Hel")
        >>> streamed.rest_of("m1", "text", "Hello"), streamed.rest_of("m2", "text", "Hello")
        ('lo', 'Hello')
        """
        sent = "".join(self._sent.get(kind, ())) if message_id == self._message_id else ""
        return whole[len(sent) :] if whole.startswith(sent) else ""


def stream_answer(log: EventLog, turn_id: str, send: SendPart, after_seq: int) -> None:
    """Send the answer of a turn as parts of the result that a client waits for.

    Text that the client has no room for waits, and is sent together with the next text or at the end.

    Args:
        log: the log of the turn's session.
        turn_id: the turn.
        send: sends one part, ``{turnId, messageId, text}``.
        after_seq: the number of the event before the first one of interest.
    """
    streamed = StreamedText()
    waiting: list[tuple[str, str]] = []

    def flush(*, is_last: bool) -> None:
        while waiting:
            message_id, text = waiting[0]
            if not send({"turnId": turn_id, "messageId": message_id, "text": text}, is_last):
                return
            waiting.pop(0)

    def send_text(message_id: str, text: str) -> None:
        if waiting and waiting[-1][0] == message_id:
            text = waiting.pop()[1] + text
        if text:
            waiting.append((message_id, text))
            flush(is_last=False)

    def is_last(event: Event) -> bool:
        if event.turn_id != turn_id:
            return False
        match event.data:
            case TextDelta(message_id=message_id, delta=delta):
                streamed.add(message_id, "text", delta)
                send_text(message_id, delta)
            case Message(message_id=message_id, content=content):
                whole = "".join(block["text"] for block in content if block["type"] == "text")
                send_text(message_id, streamed.rest_of(message_id, "text", whole))
            case Settled() | Faulted():
                flush(is_last=True)
                return True
        return False

    follow_events(log, after_seq, is_last)


def show_turn(session: Session, started: SubmitReceipt, sink: ProgressSink, after_seq: int) -> None:
    """Report a turn as work-done progress until its last event; the user's Cancel interrupts the turn.

    Args:
        session: the session of the turn.
        started: the turn.
        sink: the progress to report to.
        after_seq: the number of the event before the first one of interest.
    """
    sink.begin(session.info.title or "Working", cancellable=True)
    sink.on_cancel(lambda: session.turns.prompts.interrupt(started.turn_id, "keep"))
    report = _ProgressReport(sink, (Settled, Faulted))

    def on_work(question: PendingQuestion | None) -> None:
        running = session.record.queue.running
        if question is not None and running is not None and running.turn_id == started.turn_id:
            report.wait_for(question)

    stop_following = session.record.work.follow(on_work)

    def is_last(event: Event) -> bool:
        if event.turn_id != started.turn_id or not report.add(event):
            return False
        stop_following()
        return True

    follow_events(session.record.log, after_seq, is_last)


def show_compaction(session: Session, started: CompactReceipt, sink: ProgressSink, after_seq: int) -> None:
    """Report a compaction as work-done progress until its outcome; the user's Cancel stops it.

    Args:
        session: the session of the compaction.
        started: the compaction.
        sink: the progress to report to.
        after_seq: the number of the event before the first one of interest.
    """

    def is_last(event: Event) -> bool:
        data = event.data
        if not isinstance(data, Compaction | CompactionSummaryDelta):
            return False
        return data.compaction_id == started.compaction_id and report.add(event)

    sink.begin("Compacting the conversation", cancellable=True)
    sink.on_cancel(lambda: session.cancel_compaction(started.compaction_id))
    report = _ProgressReport(sink, (Compaction,))
    follow_events(session.record.log, after_seq, is_last)


class _ProgressReport:
    """The progress of one turn or compaction: its newest text or tool, and how full the window is."""

    def __init__(self, sink: ProgressSink, ends: tuple[type[Payload], ...]) -> None:
        """*ends* are the events that end the work."""
        self._sink = sink
        self._ends = ends
        self._pct: int | None = None
        self._tail = ""

    def wait_for(self, question: PendingQuestion) -> None:
        """Report that the turn waits for its user; nothing may come for a long time after it."""
        self._sink.report(f"waiting for you: {question.text}", self._pct, at_once=True)

    def add(self, event: Event) -> bool:
        """Report *event*; return whether it ended the work."""
        outcome: str | None = None
        match event.data:
            case TextDelta(delta=delta) | CompactionSummaryDelta(delta=delta):
                self._tail = (self._tail + delta)[-_TAIL_CHARS:]
                self._sink.report(" ".join(self._tail.split()), self._pct)
            case ToolStarted(title=title):
                self._tail = ""
                self._sink.report(title, self._pct)
            case Message():
                self._tail = ""
            case Retry(delay_ms=delay_ms, withdrawn=withdrawn):
                self._tail = ""
                self._sink.report(describe_retry(delay_ms, withdrawn), self._pct)
            case ContextUsage(pct=pct, window=window):
                self._pct = min(100, round(pct)) if window else None
            case Settled(stop_reason=outcome) | Faulted(message=outcome):
                pass
            case Compaction(status=status, reason=reason, loss=loss) if status != "in_progress":
                line = "" if loss is None else report_loss(loss)
                outcome = ": ".join(filter(None, (status, reason, line)))
        if outcome is not None and isinstance(event.data, self._ends):
            self._sink.end(outcome)
            return True
        if outcome is not None:
            self._sink.report(outcome, self._pct)
        return False
