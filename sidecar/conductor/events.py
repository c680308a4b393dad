"""The events of a session: what kinds there are and what each carries (protocol 4.4).

One event is ``{sid, seq, turnId?, at, kind, data}``; *data* is one of the payloads below, a usage or a
compaction. A face projects events for its client and never invents one. A field's metadata ``wire`` is its
name on the wire where Python needs another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeAlias

from sidecar.conductor.contract import (
    Author,
    Compaction,
    ConfigOption,
    ContextUsage,
    PlanItem,
    QueueItem,
    RestoredFile,
    StopReasonName,
)

__all__ = [
    "CommandInfo",
    "CommandsChanged",
    "CompactionSummaryDelta",
    "ConfigChanged",
    "DiffContent",
    "Event",
    "Faulted",
    "FileFresh",
    "FileStale",
    "HeadChanged",
    "InfoChanged",
    "Message",
    "Notice",
    "Payload",
    "Phase",
    "PlanChanged",
    "QueueChanged",
    "Rehydrated",
    "Retry",
    "Settled",
    "TextDelta",
    "ThinkingDelta",
    "ToolFinished",
    "ToolLocation",
    "ToolProgress",
    "ToolStarted",
    "UserMessage",
    "part_of",
    "restates",
]


@dataclass(frozen=True, slots=True)
class Phase:
    """The session moved into another phase."""

    kind: ClassVar[str] = "phase"
    phase: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A prompt entered the conversation; *content* is as it was given.

    *source* is who wrote it, None for one of the past that is told again.
    """

    kind: ClassVar[str] = "userMessage"
    node_id: str | None
    content: tuple[Mapping[str, Any], ...]
    source: Author | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer *message_id*; the ``message`` event restates it whole."""

    kind: ClassVar[str] = "textDelta"
    message_id: str
    delta: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of the reasoning in *message_id*; the ``message`` event restates it whole."""

    kind: ClassVar[str] = "thinkingDelta"
    message_id: str
    delta: str


@dataclass(frozen=True, slots=True)
class Message:
    """One finished answer of the model, whole."""

    kind: ClassVar[str] = "message"
    message_id: str
    content: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ToolLocation:
    """A file a tool works on; *line* counts from 1."""

    path: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class DiffContent:
    """A change of a file; *old_text* is None for a new one."""

    path: str
    old_text: str | None
    new_text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call begins."""

    kind: ClassVar[str] = "toolStarted"
    tool_call_id: str
    name: str
    title: str
    tool_kind: str = field(metadata={"wire": "kind"})
    input: Any = None
    locations: tuple[ToolLocation, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A tool has more to show while it runs."""

    kind: ClassVar[str] = "toolProgress"
    tool_call_id: str
    content: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call has its one result."""

    kind: ClassVar[str] = "toolFinished"
    tool_call_id: str
    name: str
    title: str
    tool_kind: str = field(metadata={"wire": "kind"})
    content: Any
    is_error: bool
    locations: tuple[ToolLocation, ...] = ()
    diffs: tuple[DiffContent, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The model's todo list, whole."""

    kind: ClassVar[str] = "plan"
    entries: tuple[PlanItem, ...]


@dataclass(frozen=True, slots=True)
class CompactionSummaryDelta:
    """More of the digest while a model writes it."""

    kind: ClassVar[str] = "compactionSummaryDelta"
    compaction_id: str
    delta: str


@dataclass(frozen=True, slots=True)
class Rehydrated:
    """Files came back into the conversation as they are now."""

    kind: ClassVar[str] = "rehydrated"
    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeadChanged:
    """The conversation ends elsewhere, by a rewind or a drop; *removed* are the nodes it held until then."""

    kind: ClassVar[str] = "headMoved"
    head: str | None
    removed: tuple[str, ...]
    cause: Literal["rewind", "drop"]


@dataclass(frozen=True, slots=True)
class FileStale:
    """A file the model has read is no longer what it read; *now_hash* is None when it was deleted."""

    kind: ClassVar[str] = "fileStale"
    uri: str
    read_hash: str
    now_hash: str | None
    source: str


@dataclass(frozen=True, slots=True)
class FileFresh:
    """A file told stale is so no more: it is again what was read, was read anew, or is forgotten."""

    kind: ClassVar[str] = "fileFresh"
    uri: str


@dataclass(frozen=True, slots=True)
class Retry:
    """A model call failed and is tried again after *delay_ms*."""

    kind: ClassVar[str] = "retry"
    attempt: int
    max: int
    delay_ms: int
    error: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know."""

    kind: ClassVar[str] = "notice"
    severity: Literal["info", "warning", "error"]
    title: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """The prompts that wait, whole."""

    kind: ClassVar[str] = "queue"
    items: tuple[QueueItem, ...]


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The session's knobs, whole."""

    kind: ClassVar[str] = "configChanged"
    config_options: tuple[ConfigOption, ...]


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A slash command; *hint* says what may follow it."""

    name: str
    description: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class CommandsChanged:
    """The slash commands on offer, whole."""

    kind: ClassVar[str] = "commandsChanged"
    commands: tuple[CommandInfo, ...]


@dataclass(frozen=True, slots=True)
class InfoChanged:
    """The session's title or place in the list changed."""

    kind: ClassVar[str] = "infoChanged"
    title: str
    updated_at: int
    archived: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """The turn is over; always the last event of its turn."""

    kind: ClassVar[str] = "settled"
    turn_id: str
    stop_reason: StopReasonName
    head: str | None
    usage: ContextUsage
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Faulted:
    """The turn is over and failed; always the last event of its turn."""

    kind: ClassVar[str] = "faulted"
    turn_id: str
    error_kind: str = field(metadata={"wire": "kind"})
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
    | PlanChanged
    | ContextUsage
    | Compaction
    | CompactionSummaryDelta
    | Rehydrated
    | HeadChanged
    | FileStale
    | FileFresh
    | Retry
    | Notice
    | QueueChanged
    | ConfigChanged
    | CommandsChanged
    | InfoChanged
    | Settled
    | Faulted
)


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a session's log; *seq* counts from 1 without gaps, *at* is in epoch milliseconds."""

    sid: str
    seq: int
    at: int
    data: Payload
    turn_id: str | None = None

    @property
    def kind(self) -> str:
        """The payload's kind."""
        return self.data.kind


_PARTS: Final[dict[type[Any], str]] = {
    TextDelta: "message_id",
    ThinkingDelta: "message_id",
    ToolProgress: "tool_call_id",
    CompactionSummaryDelta: "compaction_id",
}
_WHOLES: Final[dict[type[Any], str]] = {
    Message: "message_id",
    ToolFinished: "tool_call_id",
    Compaction: "compaction_id",
}


def part_of(data: Payload) -> str | None:
    """Return the id of what *data* is a delta of, so that a slow client may miss it; None for no delta.

    >>> part_of(TextDelta("m", "Hel")), part_of(Message("m", ()))
    ('m', None)
    """
    name = _PARTS.get(type(data))
    return None if name is None else str(getattr(data, name))


def restates(data: Payload) -> str | None:
    """Return the id of what *data* tells whole, its deltas before it included; None for anything else.

    >>> restates(Message("m", ())), restates(TextDelta("m", "lo"))
    ('m', None)
    """
    name = _WHOLES.get(type(data))
    if name is None or (isinstance(data, Compaction) and data.status == "in_progress"):
        return None
    return str(getattr(data, name))
