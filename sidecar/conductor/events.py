"""The events of a session: one class for the payload of each kind.

One event is ``{sid, seq, turnId?, at, kind, data}``, where *data* is one of the payloads below, a
``ContextUsage`` or a ``Compaction``. A front end forwards events to its client and never invents one. The
metadata ``wire`` of a field is its name on the wire where Python needs another name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct, field

from sidecar._internal.values import Value
from sidecar.conductor.contract import (
    Author,
    Compaction,
    ConfigOption,
    ContextUsage,
    Elicitation,
    Pin,
    PlanItem,
    QueueItem,
    RestoredFile,
    SessionRule,
    StopReasonName,
    TaskState,
)
from sidecar.llmgateway.contract import BudgetPeriod


class Phase(Value):
    """The session moved into another phase."""

    kind: ClassVar[str] = "phase"
    phase: str


class UserMessage(Value):
    """A prompt entered the conversation; *content* is as its client wrote it.

    *source* is the author, None for a prompt of the past that is replayed.
    """

    kind: ClassVar[str] = "userMessage"
    node_id: str | None
    content: tuple[Mapping[str, Any], ...]
    source: Author | None = None


class TextDelta(Value):
    """More of the answer *message_id*; the ``message`` event holds all of it."""

    kind: ClassVar[str] = "textDelta"
    message_id: str
    delta: str


class ThinkingDelta(Value):
    """More of the reasoning in *message_id*; the ``message`` event holds all of it."""

    kind: ClassVar[str] = "thinkingDelta"
    message_id: str
    delta: str


class Message(Value):
    """One finished answer of the model, whole."""

    kind: ClassVar[str] = "message"
    message_id: str
    content: tuple[Mapping[str, Any], ...]


class ToolLocation(Value):
    """A file a tool works on; *line* counts from 1."""

    path: str
    line: int | None = None


class DiffContent(Value):
    """A change of a file; *old_text* is None for a new one."""

    path: str
    old_text: str | None
    new_text: str


class ToolStarted(Value):
    """A tool call begins."""

    kind: ClassVar[str] = "toolStarted"
    tool_call_id: str
    name: str
    title: str
    tool_kind: str = field(name="kind")
    input: Any = None
    locations: tuple[ToolLocation, ...] = ()


class ToolProgress(Value):
    """A tool has more to show while it runs."""

    kind: ClassVar[str] = "toolProgress"
    tool_call_id: str
    content: str


class ToolFinished(Value):
    """A tool call has its one result; *is_cancelled* is True where the call was cancelled, else absent."""

    kind: ClassVar[str] = "toolFinished"
    tool_call_id: str
    name: str
    title: str
    tool_kind: str = field(name="kind")
    content: Any
    is_error: bool
    locations: tuple[ToolLocation, ...] = ()
    diffs: tuple[DiffContent, ...] = ()
    is_cancelled: bool | None = None


class QuestionResolved(Value):
    """A form is over: the user's *action*, ``accept``, ``decline`` or ``cancel``; or another end.

    That is ``expired`` where nobody answered in time, and ``unasked`` where no client could show it, so that
    it stands in the conversation as text. *by* is the client that decided.
    """

    kind: ClassVar[str] = "questionResolved"
    elicitation_id: str
    action: str
    by: str


class SubagentChanged(Value):
    """A sub-agent of the call *tool_call_id* began or ended; *child* is its session.

    *usage* is that of the child: its size, and all that it has used.
    """

    kind: ClassVar[str] = "subagent"
    child: str
    tool_call_id: str
    title: str
    state: TaskState
    usage: ContextUsage | None = None


class PlanChanged(Value):
    """The model's todo list, complete."""

    kind: ClassVar[str] = "plan"
    entries: tuple[PlanItem, ...]


class CompactionNear(Value):
    """The conversation, of *used* tokens, is near the *limit* at which it is compacted.

    It comes once, after a turn, when three quarters of the limit are reached. The
    instructions of ``/compact`` and ``sidecar/compact/start`` steer the summary; else it is made when due.
    With *prepared* it is written from now on, so that no turn waits for all of it.
    """

    kind: ClassVar[str] = "compactionNear"
    used: int
    limit: int
    window: int
    prepared: bool


class BudgetNear(Value):
    """Four fifths of a budget are spent; it comes once for each prompt, session or day.

    *usd* and *tokens* are the budget for each *per*, null where it has no such amount. Where the next call
    would break it, the call is not made, and the turn ends with the stop reason ``budget``.
    """

    kind: ClassVar[str] = "budgetNear"
    per: BudgetPeriod
    usd: float | None
    tokens: int | None
    spent_usd: float
    spent_tokens: int


class CompactionSummaryDelta(Value):
    """More of the summary while a model writes it, in passages.

    A model that is asked again writes anew; the summary that counts stands in the ``compaction`` event.
    """

    kind: ClassVar[str] = "compactionSummaryDelta"
    compaction_id: str
    delta: str


class Rehydrated(Value):
    """Files were restored into the conversation with their current text."""

    kind: ClassVar[str] = "rehydrated"
    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...] = ()


class HeadChanged(Value):
    """The head moved by a rewind or a drop; *removed* are the nodes that left the conversation.

    *edited_files* are the URIs of the files that those nodes edited; the files stay as they are.
    """

    kind: ClassVar[str] = "headMoved"
    head: str | None
    removed: tuple[str, ...]
    cause: Literal["rewind", "drop"]
    edited_files: tuple[str, ...] = ()


class FileStale(Value):
    """A file changed after the model had read it; *now_hash* is None when it was deleted."""

    kind: ClassVar[str] = "fileStale"
    uri: str
    read_hash: str
    now_hash: str | None
    source: str


class FileFresh(Value):
    """A stale file is no longer stale: it has its old text again, was read again, or is forgotten."""

    kind: ClassVar[str] = "fileFresh"
    uri: str


class Retry(Value):
    """A model call failed and is repeated after *delay_ms*.

    *withdrawn* is the id of the message that the call had begun, None for none. Its deltas do not count any
    more, and the answer comes under another id.
    """

    kind: ClassVar[str] = "retry"
    attempt: int
    max: int
    delay_ms: int
    error: str
    withdrawn: str | None = None


class Notice(Value):
    """A message for the user.

    The *kind* ``budget`` is about a budget that has stopped the turn, and ``priceUnknown`` about a model that
    a budget in dollars cannot count. Other messages have none.
    """

    kind: ClassVar[str] = "notice"
    severity: Literal["info", "warning", "error"]
    title: str
    description: str = ""
    notice_kind: Literal["budget", "priceUnknown"] | None = field(default=None, name="kind")


class QueueChanged(Value):
    """The next 16 of the *total* prompts that wait, each text in them cut to 1,000 characters.

    ``sidecar/queue/list`` has all of them, whole. *queued_compactions* are the ids of the compactions that
    wait; ``sidecar/compact/cancel`` stops one.
    """

    kind: ClassVar[str] = "queue"
    items: tuple[QueueItem, ...]
    total: int = 0
    queued_compactions: tuple[str, ...] = ()


class ConfigChanged(Value):
    """The session's config options, complete."""

    kind: ClassVar[str] = "configChanged"
    config_options: tuple[ConfigOption, ...]


class RulesChanged(Value):
    """The user's rules that hold, complete."""

    kind: ClassVar[str] = "rulesChanged"
    rules: tuple[SessionRule, ...]


class PinsChanged(Value):
    """The pins of the session, complete."""

    kind: ClassVar[str] = "pinsChanged"
    pins: tuple[Pin, ...]


class CommandInfo(Value):
    """A slash command; *hint* describes its arguments."""

    name: str
    description: str
    hint: str | None = None


class CommandsChanged(Value):
    """The slash commands on offer, complete."""

    kind: ClassVar[str] = "commandsChanged"
    commands: tuple[CommandInfo, ...]


class SessionChosen(Value):
    """A command of the user, in the turn of the event, leads to another session: *sid*.

    The client that sent the command shows that session from now on, if it can.
    """

    kind: ClassVar[str] = "sessionChosen"
    sid: str


class InfoChanged(Value):
    """The session's title or place in the list changed."""

    kind: ClassVar[str] = "infoChanged"
    title: str
    updated_at: int
    archived: bool = False


class Settled(Value):
    """The turn is over; always the last event of its turn."""

    kind: ClassVar[str] = "settled"
    turn_id: str
    stop_reason: StopReasonName
    head: str | None
    usage: ContextUsage
    duration_ms: int


class Faulted(Value):
    """The turn failed; always the last event of its turn."""

    kind: ClassVar[str] = "faulted"
    turn_id: str
    error_kind: str = field(name="kind")
    message: str
    head: str | None
    usage: ContextUsage
    duration_ms: int


Payload: TypeAlias = (
    Phase
    | UserMessage
    | TextDelta
    | ThinkingDelta
    | Message
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | Elicitation
    | QuestionResolved
    | SubagentChanged
    | PlanChanged
    | ContextUsage
    | Compaction
    | CompactionNear
    | BudgetNear
    | CompactionSummaryDelta
    | Rehydrated
    | HeadChanged
    | FileStale
    | FileFresh
    | Retry
    | Notice
    | QueueChanged
    | ConfigChanged
    | PinsChanged
    | CommandsChanged
    | SessionChosen
    | InfoChanged
    | RulesChanged
    | Settled
    | Faulted
)


class Event(Struct, frozen=True):
    """One entry of a session's log; *seq* counts from 1, *at* is in epoch milliseconds."""

    sid: str
    seq: int
    at: int
    data: Payload
    turn_id: str | None = None

    @property
    def kind(self) -> str:
        """The payload's kind."""
        return self.data.kind


def describe_retry(delay_ms: int, withdrawn: str | None) -> str:
    """Return one sentence for a user on a model call that is repeated.

    >>> describe_retry(12_345, None)
    'the model did not answer; trying again in 12 seconds'
    >>> describe_retry(500, "t1.0")
    'the answer broke off, and what was shown of it does not count; trying again in a moment'
    """
    broke_off = "the answer broke off, and what was shown of it does not count"
    seconds, minutes = round(delay_ms / 1000), round(delay_ms / 60_000)
    when = "a moment" if seconds < 2 else f"{seconds} seconds" if seconds < 100 else f"{minutes} minutes"
    return f"{broke_off if withdrawn else 'the model did not answer'}; trying again in {when}"
