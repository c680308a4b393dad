"""Tells a session's log what its agent and its tools do, each thing once and in order.

Deltas are gathered for 33 ms or 4 KiB, the first of a burst goes out at once. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sidecar.capabilities.contract import Diff, Location, ToolActivity
from sidecar.conductor.content import turn_content
from sidecar.conductor.events import (
    DiffContent,
    Message,
    Payload,
    Phase,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolLocation,
    ToolProgress,
    ToolStarted,
)
from sidecar.conductor.log import EventLog
from sidecar.llmgateway.contract import AssistantTurn, UserTurn
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

__all__ = ["SessionEvents", "Timer", "tool_finished", "tool_started"]

GATHER_S = 0.033
GATHER_CHARS = 4096
_LOOK_BACK = 3


class Timer(Protocol):
    """A call that was put off and can be taken back, such as ``asyncio.TimerHandle``."""

    def cancel(self) -> None:
        """Do not make the call after all."""
        ...


class SessionEvents:
    """The voice of one session. *later* is ``loop.call_later``."""

    def __init__(self, log: EventLog, later: Callable[[float, Callable[[], None]], Timer]) -> None:
        self._log = log
        self._later = later
        self._phase = "idle"
        self._turn_id: str | None = None
        self._message_index = 0
        self._message_open = False
        self._answered: AssistantTurn | None = None
        self._started_calls: set[str] = set()
        self._pending: list[str] = []
        self._pending_chars = 0
        self._pending_kind: type[TextDelta] | type[ThinkingDelta] = TextDelta
        self._timer: Timer | None = None

    @property
    def phase(self) -> str:
        """The phase told last."""
        return self._phase

    @property
    def turn_id(self) -> str | None:
        """The turn that everything told now belongs to."""
        return self._turn_id

    def begin_turn(self, turn_id: str) -> None:
        """Everything told from now on belongs to *turn_id*."""
        self._turn_id = turn_id
        self._message_index = 0
        self._message_open = False
        self._started_calls.clear()

    def end_turn(self) -> None:
        """Nothing told from now on belongs to a turn."""
        self.flush()
        self._turn_id = None

    def emit(self, data: Payload) -> None:
        """Append *data* to the log, after every delta before it."""
        self.flush()
        self._log.append(data, self._turn_id)

    def emit_text(self, text: str) -> None:
        """Tell *text* as one finished answer of the running turn."""
        self.emit(Message(self._message_id(), ({"type": "text", "text": text},)))
        self._message_index += 1

    def set_phase(self, phase: str) -> None:
        """Tell *phase* unless it is the one told last."""
        if phase != self._phase:
            self._phase = phase
            self.emit(Phase(phase))

    def on_run_event(self, event: RunEvent) -> None:
        """Tell what the agent published; its end is told by the session, which knows more."""
        match event:
            case TextDeltaEvent(delta=delta):
                self._delta(TextDelta, delta)
            case ThinkingDeltaEvent(delta=delta):
                self._delta(ThinkingDelta, delta)
            case SnapshotEvent(snapshot=snapshot):
                self._snapshot(snapshot)
            case SettledEvent(snapshot=snapshot) | FaultedEvent(snapshot=snapshot):
                self._finish_message(snapshot)
            case ToolFinishedEvent():
                self._tool_without_activity(event)

    def on_tool(self, activity: ToolActivity) -> None:
        """Tell what a tool reported of itself."""
        self._started_calls.add(activity.call_id)
        match activity.phase:
            case "started":
                self.emit(tool_started(activity))
            case "progress":
                self.emit(ToolProgress(activity.call_id, str(activity.output)))
            case "finished":
                self.emit(tool_finished(activity))

    def flush(self) -> None:
        """Send the gathered deltas now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            delta = "".join(self._pending)
            self._pending.clear()
            self._pending_chars = 0
            self._log.append(self._pending_kind(self._message_id(), delta), self._turn_id)

    def _delta(self, kind: type[TextDelta] | type[ThinkingDelta], delta: object) -> None:
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
            self._timer = self._later(GATHER_S, self._on_timer)
        elif self._pending_chars >= GATHER_CHARS:
            self._timer.cancel()
            self.flush()
            self._timer = self._later(GATHER_S, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._pending:
            self.flush()
            self._timer = self._later(GATHER_S, self._on_timer)

    def _snapshot(self, snapshot: RunSnapshot) -> None:
        if snapshot.phase == "dispatching":
            self._finish_message(snapshot)
        if snapshot.phase == "invoking":
            self._message_open = True
        self.set_phase(snapshot.phase)

    def _finish_message(self, snapshot: RunSnapshot) -> None:
        """Restate the answer that has just ended, whole."""
        if not self._message_open:
            return
        self._message_open = False
        answer = _newest_answer(snapshot)
        # Of a model that failed without a word the newest answer is one that was told before.
        if answer is not None and answer is not self._answered and (content := turn_content(answer)):
            self.emit(Message(self._message_id(), content))
        self._answered = answer
        self._message_index += 1

    def _tool_without_activity(self, event: ToolFinishedEvent) -> None:
        """Tell a call that never reached a tool: cut off, aborted, or nobody's."""
        if event.id in self._started_calls:
            return
        self.emit(ToolStarted(event.id, event.name, event.name, "other"))
        outcome = event.outcome
        self.emit(ToolFinished(event.id, event.name, event.name, "other", outcome.output, outcome.is_error))

    def _message_id(self) -> str:
        return f"{self._turn_id or 'none'}.{self._message_index}"


def _newest_answer(snapshot: RunSnapshot) -> AssistantTurn | None:
    """Return the newest answer to the newest prompt, None as long as it has none."""
    for turn in reversed(snapshot.messages[-_LOOK_BACK:]):
        if isinstance(turn, AssistantTurn):
            return turn
        if isinstance(turn, UserTurn):
            break
    return None


def tool_started(activity: ToolActivity) -> ToolStarted:
    """Return the beginning of a call."""
    return ToolStarted(
        activity.call_id,
        activity.name,
        activity.title,
        activity.kind,
        activity.input,
        tuple(map(_location, activity.locations)),
    )


def tool_finished(activity: ToolActivity) -> ToolFinished:
    """Return the end of a call."""
    return ToolFinished(
        activity.call_id,
        activity.name,
        activity.title,
        activity.kind,
        activity.output,
        activity.is_error,
        tuple(map(_location, activity.locations)),
        tuple(map(_diff, activity.diffs)),
    )


def _location(location: Location) -> ToolLocation:
    return ToolLocation(str(location.path), location.line)


def _diff(diff: Diff) -> DiffContent:
    return DiffContent(str(diff.path), diff.old_text, diff.new_text)
