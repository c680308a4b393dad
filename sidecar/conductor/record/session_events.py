"""Session events: the activity of an agent and its tools in the session's log, and one-time notices.

Deltas are collected for 33 ms or 4 KiB, but the first one of a burst is appended at once. An event is
appended only after every delta before it. This module makes no decision about the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sidecar.capabilities.contract import Location, ToolActivity
from sidecar.conductor.content import turn_content
from sidecar.conductor.events import (
    DiffContent,
    Message,
    Notice,
    Payload,
    Phase,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolLocation,
    ToolProgress,
    ToolStarted,
)
from sidecar.conductor.record.log import EventLog
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import AssistantTurn, TextBlock, Turn, UserTurn
from sidecar.runtime.contract import (
    FaultedEvent,
    RunEvent,
    RunSnapshot,
    SettledEvent,
    SnapshotEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolFinishedEvent,
)
from sidecar.runtime.store import IntegrityReport

COLLECT_S = 0.033
COLLECT_CHARS = 4096
_MAX_TURNS_AFTER_ANSWER = 3
_UNUSED = "Some settings are not used"
_RULES = "Some rule files are not used as they are"
_MAX_UNUSED = 50


class Timer(Protocol):
    """A scheduled call, such as ``asyncio.TimerHandle``."""

    def cancel(self) -> None:
        """Cancel the call."""
        ...


class SessionEvents:
    """The events of one session, appended to *log*. *later* is ``loop.call_later``.

    Attributes:
        turn_id: the turn of the events that are emitted now, None between turns.
        phase: the phase that was emitted last.
    """

    def __init__(self, log: EventLog, later: Callable[[float, Callable[[], None]], Timer]) -> None:
        self._log = log
        self._later = later
        self.phase = "idle"
        self.turn_id: str | None = None
        self._message_index = 0
        self._message_open = False
        self._is_shown = False
        self._answered: AssistantTurn | None = None
        self._started_calls: set[str] = set()
        self._pending: list[str] = []
        self._pending_chars = 0
        self._pending_kind: type[TextDelta] | type[ThinkingDelta] = TextDelta
        self._timer: Timer | None = None

    def begin_turn(self, turn_id: str) -> None:
        """Let all events from now on belong to *turn_id*."""
        self.turn_id = turn_id
        self._message_index = 0
        self._message_open = self._is_shown = False
        self._started_calls.clear()

    def end_turn(self) -> None:
        """Let the events from now on belong to no turn."""
        self.flush()
        self.turn_id = None

    def emit(self, data: Payload) -> None:
        """Append *data* to the log, behind the collected deltas."""
        if self._timer is not None or self._pending:
            self.flush()
        self._log.append(data, self.turn_id)

    def emit_for(self, turn_id: str, data: Payload) -> None:
        """Append *data* as an event of *turn_id*, which need not be the turn that runs."""
        self.flush()
        self._log.append(data, turn_id)

    def withdraw_message(self) -> str | None:
        """Begin another message and return the id of the open one, None if nothing of that was shown."""
        self._pending.clear()
        self._pending_chars = 0
        if not self._is_shown:
            return None
        withdrawn, self._is_shown = self._message_id(), False
        self._message_index += 1
        return withdrawn

    def emit_text(self, text: str) -> None:
        """Emit *text* as one finished answer of the running turn."""
        self.emit(Message(self._message_id(), ({"type": "text", "text": text},)))
        self._message_index += 1

    def set_phase(self, phase: str) -> None:
        """Emit *phase* unless it is the phase already."""
        if phase != self.phase:
            self.phase = phase
            self.emit(Phase(phase))

    def on_run_event(self, event: RunEvent) -> None:
        """Emit an event of the agent, except the end of its run: the session emits that with more detail."""
        match event:
            case TextDeltaEvent(delta=delta):
                self._collect(TextDelta, delta)
            case ThinkingDeltaEvent(delta=delta):
                self._collect(ThinkingDelta, delta)
            case SnapshotEvent(snapshot=snapshot):
                if snapshot.phase == "dispatching":
                    self._finish_message(snapshot)
                if snapshot.phase == "invoking":
                    self._message_open = True
                self.set_phase(snapshot.phase)
            case SettledEvent(snapshot=snapshot) | FaultedEvent(snapshot=snapshot):
                self._finish_message(snapshot)
            case ToolFinishedEvent(id=call_id, name=name, outcome=outcome):
                if call_id not in self._started_calls:  # cut off, aborted, or of an unknown tool
                    self.emit(ToolStarted(call_id, name, name, "other"))
                    self.emit(ToolFinished(call_id, name, name, "other", outcome.output, outcome.is_error))

    def on_tool(self, activity: ToolActivity) -> None:
        """Emit the report of a tool."""
        self._started_calls.add(activity.call_id)
        match activity.phase:
            case "started":
                self.emit(tool_started(activity))
            case "progress":
                self.emit(ToolProgress(activity.call_id, str(activity.output)))
            case "finished":
                self.emit(tool_finished(activity))

    def flush(self) -> None:
        """Append the collected deltas to the log now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            delta = "".join(self._pending)
            self._pending.clear()
            self._pending_chars = 0
            self._is_shown = True
            self._log.append(self._pending_kind(self._message_id(), delta), self.turn_id)

    def _collect(self, kind: type[TextDelta] | type[ThinkingDelta], delta: object) -> None:
        if not isinstance(delta, str):
            # Kept, it would make every later flush raise, and no turn of the session could end.
            raise TypeError(f"a delta must be text, not {type(delta).__name__}")
        self.set_phase("streaming")
        if kind is not self._pending_kind:
            self.flush()
            self._pending_kind = kind
        self._message_open = True
        self._pending.append(delta)
        self._pending_chars += len(delta)
        if self._timer is None:
            self.flush()
            self._timer = self._later(COLLECT_S, self._on_timer)
        elif self._pending_chars >= COLLECT_CHARS:
            self._timer.cancel()
            self.flush()
            self._timer = self._later(COLLECT_S, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._pending:
            self.flush()
            self._timer = self._later(COLLECT_S, self._on_timer)

    def _finish_message(self, snapshot: RunSnapshot) -> None:
        """Emit the answer that has just ended as one message."""
        if not self._message_open:
            return
        self._message_open = False
        answer = newest_answer(snapshot)
        # After a call that failed before its first delta, the newest answer is one that was emitted before.
        if answer is not None and answer is not self._answered and (content := turn_content(answer)):
            self.emit(Message(self._message_id(), content))
        self._answered = answer
        self._is_shown = False
        self._message_index += 1

    def _message_id(self) -> str:
        return f"{self.turn_id or 'none'}.{self._message_index}"


class OneTimeNotices:
    """Notices that a session emits once each: ignored settings, a repaired file, a repaired request.

    A notice about settings or about the file waits for the next turn, so that a client which follows only
    turns receives it too.
    """

    def __init__(self, emit: Callable[[Notice], None], problems: Sequence[str]) -> None:
        """*problems* are sentences about settings that are ignored."""
        self._emit = emit
        self.pending = [Notice("warning", _UNUSED, problem) for problem in problems]
        self._emitted: set[str] = set()
        self._added: set[str | None] = set()
        self._has_sent = False

    def add_report(self, report: IntegrityReport) -> None:
        """Add a notice about the defects of the session's file, if it had any."""
        if not report.ok:
            text = "; ".join((*report.repaired, *report.missing))
            self.pending.append(Notice("warning", "The stored conversation was repaired", text))

    def add_unused(self, text: str) -> None:
        """Add the notice *text* about rules, once."""
        self.add_once(Notice("warning", _RULES, text))

    def add(self, notice: Notice) -> None:
        """Add *notice* to the next turn."""
        self.pending.append(notice)

    def add_once(self, notice: Notice) -> None:
        """Add *notice* to the next turn, once for each text, up to a limit: a project can cause many."""
        if notice.description not in self._added and len(self._added) < _MAX_UNUSED:
            self._added.add(notice.description)
            self.pending.append(notice)

    def emit_pending(self) -> None:
        """Emit the notices that wait."""
        pending, self.pending = self.pending, []
        for notice in pending:
            self._emit(notice)

    def on_repair(self, repair: str) -> None:
        """Emit a notice about a *repair* of a request; the same repair, made for every request, only once."""
        self._emit_once("The conversation was repaired before it was sent", repair)

    def on_cut_prompt(self, prompt: Entry) -> None:
        """Emit a notice that *prompt* is sent cut, because it does not fit the window."""
        n_chars = sum(len(block.text) for block in prompt.turn.blocks if isinstance(block, TextBlock))
        self.on_repair(f"the prompt of {n_chars:,} characters does not fit the window and was cut")

    def on_warning(self, warning: str) -> None:
        """Emit *warning* about the session's model, once."""
        self._emit_once("Model", warning)

    def on_request(self, sent: Sequence[Turn], stored: Sequence[Turn]) -> None:
        """Emit a notice when the first request does not send the turns *stored*: the file was damaged."""
        if not self._has_sent and tuple(sent) != tuple(stored):
            self.on_repair(
                "some turns could not be sent as they are and were put in order; what is stored is unchanged"
            )
        self._has_sent = True

    def _emit_once(self, title: str, text: str) -> None:
        if text not in self._emitted:
            self._emitted.add(text)
            self._emit(Notice("warning", title, text))


def newest_answer(snapshot: RunSnapshot) -> AssistantTurn | None:
    """Return the newest answer to the newest prompt, None while that has no answer."""
    for turn in reversed(snapshot.messages[-_MAX_TURNS_AFTER_ANSWER:]):
        if isinstance(turn, AssistantTurn):
            return turn
        if isinstance(turn, UserTurn):
            break
    return None


def tool_started(activity: ToolActivity) -> ToolStarted:
    """Return the event for the start of a tool call."""
    return ToolStarted(
        activity.call_id,
        activity.name,
        activity.title,
        activity.kind,
        activity.input,
        tuple(map(_location, activity.locations)),
    )


def tool_finished(activity: ToolActivity) -> ToolFinished:
    """Return the event for the end of a tool call."""
    return ToolFinished(
        activity.call_id,
        activity.name,
        activity.title,
        activity.kind,
        activity.output,
        activity.is_error,
        tuple(map(_location, activity.locations)),
        tuple(DiffContent(str(diff.path), diff.old_text, diff.new_text) for diff in activity.diffs),
        activity.is_cancelled or None,
    )


def _location(location: Location) -> ToolLocation:
    return ToolLocation(str(location.path), location.line)
