"""What moves a run (signals), what a step asks for (effects), what it tells (events) (facts 1.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from sidecar.llmgateway.contract import Channel, Conversation, Emission, StreamOptions, Turn
from sidecar.runtime.contract.run_state import RunError, RunSnapshot
from sidecar.runtime.contract.tools import ToolCall, ToolOutcome

__all__ = [
    "AbortSignalInput",
    "CompactEffect",
    "CompactedSignal",
    "Effect",
    "EmissionSignal",
    "FaultSignal",
    "FaultedEvent",
    "InvokeModelEffect",
    "ModelInvoker",
    "PersistEffect",
    "PublishEffect",
    "RunEvent",
    "RunEventHandler",
    "RunToolEffect",
    "SettledEvent",
    "Signal",
    "SnapshotEvent",
    "StreamEndSignal",
    "SubmitSignal",
    "TextDeltaEvent",
    "ThinkingDeltaEvent",
    "ToolFinishedEvent",
    "ToolSettledSignal",
    "ToolStartedEvent",
]

ModelInvoker: TypeAlias = Callable[[Conversation, StreamOptions], Channel]
"""The one seam to a model.

Contract: returns at once; the channel yields its emissions in order, ends with a done or an error
emission, and honours ``options.cancel`` within one emission. What it raises counts as an error emission.
"""


@dataclass(frozen=True, slots=True)
class SubmitSignal:
    """New turns from the host, usually one user turn."""

    kind: ClassVar[Literal["submit"]] = "submit"
    input: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class EmissionSignal:
    """The model said something."""

    kind: ClassVar[Literal["emission"]] = "emission"
    emission: Emission


@dataclass(frozen=True, slots=True)
class StreamEndSignal:
    """The model call is over."""

    kind: ClassVar[Literal["stream_end"]] = "stream_end"


@dataclass(frozen=True, slots=True)
class ToolSettledSignal:
    """The tool call *id* has its outcome."""

    kind: ClassVar[Literal["tool_settled"]] = "tool_settled"
    id: str
    result: ToolOutcome


@dataclass(frozen=True, slots=True)
class CompactedSignal:
    """The turns before index *cut*, the first kept turn, are now *summary*."""

    kind: ClassVar[Literal["compacted"]] = "compacted"
    summary: Turn
    cut: int


@dataclass(frozen=True, slots=True)
class AbortSignalInput:
    """The host wants the run to end."""

    kind: ClassVar[Literal["abort"]] = "abort"


@dataclass(frozen=True, slots=True)
class FaultSignal:
    """Something outside the reducer failed."""

    kind: ClassVar[Literal["fault"]] = "fault"
    error: RunError


Signal: TypeAlias = (
    SubmitSignal
    | EmissionSignal
    | StreamEndSignal
    | ToolSettledSignal
    | CompactedSignal
    | AbortSignalInput
    | FaultSignal
)


@dataclass(frozen=True, slots=True)
class InvokeModelEffect:
    """Call the model."""

    kind: ClassVar[Literal["invoke_model"]] = "invoke_model"
    conversation: Conversation
    options: StreamOptions


@dataclass(frozen=True, slots=True)
class RunToolEffect:
    """Run one tool call."""

    kind: ClassVar[Literal["run_tool"]] = "run_tool"
    call: ToolCall


@dataclass(frozen=True, slots=True)
class PersistEffect:
    """Store what is new in *snapshot*."""

    kind: ClassVar[Literal["persist"]] = "persist"
    snapshot: RunSnapshot


@dataclass(frozen=True, slots=True)
class CompactEffect:
    """Condense *messages*; the answer is a :class:`CompactedSignal`."""

    kind: ClassVar[Literal["compact"]] = "compact"
    messages: Sequence[Turn]


@dataclass(frozen=True, slots=True)
class PublishEffect:
    """Tell the subscribers."""

    kind: ClassVar[Literal["publish"]] = "publish"
    event: RunEvent


Effect: TypeAlias = InvokeModelEffect | RunToolEffect | PersistEffect | CompactEffect | PublishEffect


@dataclass(frozen=True, slots=True)
class SnapshotEvent:
    """The run moved on."""

    kind: ClassVar[Literal["snapshot"]] = "snapshot"
    snapshot: RunSnapshot


@dataclass(frozen=True, slots=True)
class TextDeltaEvent:
    """More prose."""

    kind: ClassVar[Literal["text_delta"]] = "text_delta"
    delta: str


@dataclass(frozen=True, slots=True)
class ThinkingDeltaEvent:
    """More reasoning."""

    kind: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    delta: str


@dataclass(frozen=True, slots=True)
class ToolStartedEvent:
    """The model opened a tool call."""

    kind: ClassVar[Literal["tool_started"]] = "tool_started"
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolFinishedEvent:
    """A tool call has its outcome."""

    kind: ClassVar[Literal["tool_finished"]] = "tool_finished"
    id: str
    name: str
    outcome: ToolOutcome


@dataclass(frozen=True, slots=True)
class SettledEvent:
    """The run is over and went well."""

    kind: ClassVar[Literal["settled"]] = "settled"
    snapshot: RunSnapshot


@dataclass(frozen=True, slots=True)
class FaultedEvent:
    """The run is over and did not go well."""

    kind: ClassVar[Literal["faulted"]] = "faulted"
    error: RunError
    snapshot: RunSnapshot


RunEvent: TypeAlias = (
    SnapshotEvent
    | TextDeltaEvent
    | ThinkingDeltaEvent
    | ToolStartedEvent
    | ToolFinishedEvent
    | SettledEvent
    | FaultedEvent
)

RunEventHandler: TypeAlias = Callable[[RunEvent], None]
"""A subscriber. Contract: returns soon; what it raises is swallowed."""
