"""Shows turns and compactions as work-done progress, so that every editor has them with a Cancel button."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.conductor.contract import Compaction, ContextUsage
from sidecar.conductor.events import (
    CompactionSummaryDelta,
    Event,
    Faulted,
    Message,
    Settled,
    TextDelta,
    ToolStarted,
)
from sidecar.conductor.jobs import CompactReceipt, SubmitReceipt
from sidecar.conductor.log import EventLog
from sidecar.conductor.session import Session
from sidecar.service.contract import ProgressSink

__all__ = ["show_compaction", "show_turn"]

_TAIL_CHARS = 120


def show_turn(session: Session, started: SubmitReceipt, sink: ProgressSink, after_seq: int) -> None:
    """Report the turn until its last event; Cancel interrupts it."""
    sink.begin(session.info.title or "Working", cancellable=True)
    sink.on_cancel(lambda: _interrupt(session, started.turn_id))
    _Reporter(session.log, sink, after_seq, lambda event: event.turn_id == started.turn_id)


def show_compaction(session: Session, started: CompactReceipt, sink: ProgressSink, after_seq: int) -> None:
    """Report the compaction until its outcome; Cancel stops it."""
    sink.begin("Compacting the conversation", cancellable=True)
    sink.on_cancel(lambda: _cancel(session, started.compaction_id))
    _Reporter(session.log, sink, after_seq, lambda event: _is_about(event, started.compaction_id))


def _interrupt(session: Session, turn_id: str) -> None:
    session.interrupt(turn_id, "keep")


def _cancel(session: Session, compaction_id: str) -> None:
    session.cancel_compaction(compaction_id)


def _is_about(event: Event, compaction_id: str) -> bool:
    data = event.data
    return isinstance(data, Compaction | CompactionSummaryDelta) and data.compaction_id == compaction_id


class _Reporter:
    """Follows a log from *after_seq* and reports the events that are *ours*, until the last of them."""

    def __init__(
        self, log: EventLog, sink: ProgressSink, after_seq: int, ours: Callable[[Event], bool]
    ) -> None:
        self._sink = sink
        self._cursor = after_seq
        self._ours = ours
        self._pct: int | None = None
        self._tail = ""
        self._stop = log.follow(self._wake)
        self._wake(log)

    def _wake(self, log: EventLog) -> None:
        while events := log.after(self._cursor):
            self._cursor = events[-1].seq
            for event in filter(self._ours, events):
                self._report(event)

    def _report(self, event: Event) -> None:
        match event.data:
            case TextDelta(delta=delta) | CompactionSummaryDelta(delta=delta):
                self._tail = (self._tail + delta)[-_TAIL_CHARS:]
                self._sink.report(" ".join(self._tail.split()), self._pct)
            case ToolStarted(title=title):
                self._tail = ""
                self._sink.report(title, self._pct)
            case Message():
                self._tail = ""
            case ContextUsage(pct=pct):
                self._pct = min(100, round(pct))
            case Settled(stop_reason=reason):
                self._end(reason)
            case Faulted(message=message):
                self._end(message)
            case Compaction(status=status, reason=why) if status != "in_progress":
                self._end(f"{status}: {why}" if why else status)

    def _end(self, message: str) -> None:
        self._stop()
        self._sink.end(message)
