"""The words of a run: setup and tools, state, the signals that move it, the effects that a step requests,
events.

The nodes of a stored conversation stand at the end. All of these are frozen values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    Emission,
    ImageBlock,
    StopReason,
    StreamOptions,
    ThinkingLevel,
    ToolDescriptor,
    Turn,
    Usage,
)

DEFAULT_MAX_TURNS = 64
"""Model calls that one submit may make when ``AgentConfig.max_turns`` is None."""

NO_LIMIT = 2**63 - 1
"""The ``max_turns`` of an agent that may make any number of model calls."""

RunPhase: TypeAlias = Literal[
    "idle", "invoking", "streaming", "dispatching", "compacting", "settled", "faulted"
]
RunErrorKind: TypeAlias = Literal[
    "model_failed", "tool_failed", "aborted", "compaction_failed", "turn_budget", "invalid_state"
]
ToolStage: TypeAlias = Literal["queued", "running", "done"]
ModelInvoker: TypeAlias = Callable[[Conversation, StreamOptions], Channel]
"""The one seam to a model.

Contract: returns at once; the channel yields its emissions in order, ends with a done or an error
emission, and honours ``options.cancel`` within one emission. An exception counts as an error emission.
"""


class ToolCall(Value):
    """A parsed request to run the tool *name* with *input*, any JSON value."""

    id: str
    name: str
    input: Any


class ToolOutcome(Value):
    """The outcome of the call *id*; *output* is any JSON value, usually text, and *images* belong to it."""

    id: str
    output: Any
    is_error: bool
    images: tuple[ImageBlock, ...] = ()


class ToolRunner(Protocol):
    """Runs one call. Contract: honours *cancel*; an exception becomes an error outcome."""

    def run(self, call: ToolCall, cancel: CancelToken) -> Awaitable[ToolOutcome]:
        """Run *call* and return its outcome, also for a tool that fails."""
        ...


class ToolBox(Protocol):
    """The tools of an agent: the descriptors that a model is offered, and the runner of its calls."""

    def descriptors(self) -> Sequence[ToolDescriptor]:
        """Return the tools on offer."""
        ...

    @property
    def runner(self) -> ToolRunner:
        """The runner that fulfils the calls."""
        ...


class CompactionPolicy(Value):
    """When ``runtime.memory`` condenses: at *trigger_ratio* of the window, keeping *keep_recent* turns.

    ``keep_recent`` counts turns here; in ``window_budget`` the same word counts tokens.
    """

    trigger_ratio: float
    keep_recent: int


NO_COMPACTION = CompactionPolicy(trigger_ratio=float("inf"), keep_recent=0)
"""The policy that never compacts. ``AgentConfig.compaction = None`` means the default policy instead."""


class AgentConfig(Value):
    """The setup of one agent; ``None`` leaves a setting to its default."""

    model: str
    system: str | None = None
    tools: ToolBox | None = None
    max_output_tokens: int | None = None
    thinking: ThinkingLevel | None = None
    compaction: CompactionPolicy | None = None
    max_turns: int | None = None


class RunError(Value):
    """Why a run faulted; *cause* is the exception or value behind it, for logs and never for the wire."""

    kind: RunErrorKind
    message: str
    cause: Any = None


def run_error(kind: RunErrorKind, message: str, cause: Any = None) -> RunError:
    """Return a :class:`RunError`; the spelling of the seeds."""
    return RunError(kind, message, cause)


class PendingTool(Value):
    """One tool call of the current round that the model waits for."""

    id: str
    name: str
    stage: ToolStage


class RunSnapshot(Value):
    """One run at one moment; never mutated.

    ``messages`` is an immutable sequence that compares equal to a tuple of the same turns. ``stop`` is
    why the newest model call ended, None while it streams: a reply cut at its output limit settles
    with ``max_output``. ``call_usage`` is the usage that the newest model call reported so far, and is part
    of ``usage_total``. ``queued`` are submits that wait for the next safe step, the oldest first.
    """

    run_id: str
    session_id: str
    phase: RunPhase
    messages: Sequence[Turn]
    pending: tuple[PendingTool, ...]
    usage_total: Usage
    model: str
    error: RunError | None = None
    stop: StopReason | None = None
    call_usage: Usage | None = None
    queued: tuple[tuple[Turn, ...], ...] = ()


class SubmitSignal(Value):
    """New turns from the host, usually one user turn."""

    kind: ClassVar[Literal["submit"]] = "submit"
    input: tuple[Turn, ...]


class EmissionSignal(Value):
    """One emission of the model's stream."""

    kind: ClassVar[Literal["emission"]] = "emission"
    emission: Emission


class StreamEndSignal(Value):
    """The model call is over."""

    kind: ClassVar[Literal["stream_end"]] = "stream_end"


class ToolSettledSignal(Value):
    """The tool call *id* has its outcome."""

    kind: ClassVar[Literal["tool_settled"]] = "tool_settled"
    id: str
    result: ToolOutcome


class CompactedSignal(Value):
    """The turns before index *cut*, the first kept turn, are now *summary*."""

    kind: ClassVar[Literal["compacted"]] = "compacted"
    summary: Turn
    cut: int


class AbortSignalInput(Value):
    """The host wants the run to end."""

    kind: ClassVar[Literal["abort"]] = "abort"


class FaultSignal(Value):
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


class InvokeModelEffect(Value):
    """Call the model."""

    kind: ClassVar[Literal["invoke_model"]] = "invoke_model"
    conversation: Conversation
    options: StreamOptions


class RunToolEffect(Value):
    """Run one tool call."""

    kind: ClassVar[Literal["run_tool"]] = "run_tool"
    call: ToolCall


class PersistEffect(Value):
    """Store the turns of *snapshot* that are not stored yet."""

    kind: ClassVar[Literal["persist"]] = "persist"
    snapshot: RunSnapshot


class CompactEffect(Value):
    """Condense *messages*; the answer is a :class:`CompactedSignal`."""

    kind: ClassVar[Literal["compact"]] = "compact"
    messages: Sequence[Turn]


class PublishEffect(Value):
    """Publish *event* to the subscribers."""

    kind: ClassVar[Literal["publish"]] = "publish"
    event: RunEvent


Effect: TypeAlias = InvokeModelEffect | RunToolEffect | PersistEffect | CompactEffect | PublishEffect


class SnapshotEvent(Value):
    """The run moved on."""

    kind: ClassVar[Literal["snapshot"]] = "snapshot"
    snapshot: RunSnapshot


class TextDeltaEvent(Value):
    """More prose."""

    kind: ClassVar[Literal["text_delta"]] = "text_delta"
    delta: str


class ThinkingDeltaEvent(Value):
    """More reasoning."""

    kind: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    delta: str


class ToolStartedEvent(Value):
    """The model opened a tool call."""

    kind: ClassVar[Literal["tool_started"]] = "tool_started"
    id: str
    name: str


class ToolFinishedEvent(Value):
    """A tool call has its outcome."""

    kind: ClassVar[Literal["tool_finished"]] = "tool_finished"
    id: str
    name: str
    outcome: ToolOutcome


class SettledEvent(Value):
    """The run is over and went well."""

    kind: ClassVar[Literal["settled"]] = "settled"
    snapshot: RunSnapshot


class FaultedEvent(Value):
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
"""A subscriber. Contract: returns soon; its exceptions are swallowed."""


class SessionNode(Value):
    """One immutable node of a stored conversation.

    *id* is a hash of the other three; *parent* is None for a root; *created_at* is in epoch milliseconds.
    """

    id: str
    parent: str | None
    turn: Turn
    created_at: int


class SessionHead(Value):
    """Where a session stands: the node *leaf*, or nowhere yet."""

    session_id: str
    leaf: str | None


class Migrator(Protocol):
    """One step of a schema upgrade, applied to every record on load."""

    @property
    def id(self) -> str:
        """The name of the step."""
        ...

    def upgrade(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Return *raw* in the next schema; a record that needs no change is returned as it is."""
        ...
