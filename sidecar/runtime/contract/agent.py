"""The setup of an agent: its configuration, its compaction policy and its tools."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.llmgateway.contract import ImageBlock, ThinkingLevel, ToolDescriptor


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


DEFAULT_MAX_TURNS = 64
"""Model calls that one submit may make when ``AgentConfig.max_turns`` is None."""

NO_LIMIT = 2**63 - 1
"""The ``max_turns`` of an agent that may make any number of model calls."""


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
