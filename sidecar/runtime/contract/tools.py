"""Tools as the runtime sees them: a catalogue and a runner (facts 1.2)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract import ToolDescriptor

__all__ = ["ToolBox", "ToolCall", "ToolOutcome", "ToolRunner"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A parsed request to run the tool *name* with *input*, any JSON value."""

    id: str
    name: str
    input: Any


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What the call *id* came to; *output* is any JSON value, usually text."""

    id: str
    output: Any
    is_error: bool


class ToolRunner(Protocol):
    """Runs one call. Contract: honours *cancel*; whatever it raises becomes an error outcome."""

    def run(self, call: ToolCall, cancel: CancelToken) -> Awaitable[ToolOutcome]:
        """Run *call* and return its outcome, also for a tool that fails."""
        ...


class ToolBox(Protocol):
    """The tools of an agent: what the model is offered, and who runs them."""

    def descriptors(self) -> Sequence[ToolDescriptor]:
        """Return the tools on offer."""
        ...

    @property
    def runner(self) -> ToolRunner:
        """The runner that fulfils the calls."""
        ...
