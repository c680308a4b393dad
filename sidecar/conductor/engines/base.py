"""What the session asks of a compaction engine, whichever it is. Protocols and values only.

One engine instance serves one session: it may keep what it has weighed, and is told of every change.
Counts are in turns, tokens in the engine's own meter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar.conductor.contract import (
    Gate,
    Microcompact,
    NoOp,
    RehydrateCandidate,
    RestoredFile,
    SummarySource,
)
from sidecar.llmgateway.contract import ModelCard, Turn
from sidecar.runtime.contract import ModelInvoker

__all__ = [
    "CompactAsk",
    "Condensed",
    "EnginePlan",
    "Frame",
    "FreshFile",
    "FreshFiles",
    "Helpers",
    "SessionEngine",
]


@dataclass(frozen=True, slots=True)
class Frame:
    """The conversation an engine is to judge.

    *overhead_tokens* is what every request carries besides: system prompt, tool schemas, and the prompt that
    is about to enter. *context_tokens* rests on the provider's figures, 0 when there are none.
    """

    turns: Sequence[Turn]
    card: ModelCard | None
    overhead_tokens: int
    context_tokens: int


@dataclass(frozen=True, slots=True)
class CompactAsk:
    """How to compact: *force* needs no gate; *policy* overrides thresholds by their wire names."""

    force: bool
    instructions: str | None = None
    policy: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What a compaction would do; *cut* is the index of the first turn kept."""

    cut: int
    dropped_tokens: int
    kept_tokens: int
    projected_tokens: int
    microcompact: Microcompact
    rehydrate: tuple[RehydrateCandidate, ...]
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class FreshFile:
    """A file as it is now; *text* is None when there is none to show, and *problem* says why."""

    uri: str
    text: str | None
    hash: str | None
    source: str
    problem: str | None = None


FreshFiles: TypeAlias = Callable[[Sequence[str]], Awaitable[Mapping[str, FreshFile]]]
"""Reads files, named as the model named them, as they are now: unsaved buffer first."""


@dataclass(frozen=True, slots=True)
class Helpers:
    """What an engine may use while it condenses. *invoke* None means no model: a local digest."""

    invoke: ModelInvoker | None
    summarizer_card: ModelCard | None
    fresh: FreshFiles
    cancel: CancelToken
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Condensed:
    """The conversation after a compaction, and what became of it."""

    turns: tuple[Turn, ...]
    cut: int
    dropped_count: int
    pre_tokens: int
    post_tokens: int
    summary: str
    summary_source: SummarySource
    fallback_reason: str | None
    microcompacted: int
    restored: tuple[RestoredFile, ...]
    missing: tuple[str, ...]
    info: Mapping[str, Any] | None = None


class SessionEngine(Protocol):
    """One engine at work in one session."""

    @property
    def name(self) -> str:
        """The name on the wire, such as ``windowBudget``."""
        ...

    @property
    def compacts(self) -> bool:
        """Whether it ever compacts."""
        ...

    def gate(self, frame: Frame, ask: CompactAsk) -> Gate:
        """Say whether the next request is over the limit; costs only what is new since the last call."""
        ...

    def plan(self, frame: Frame, ask: CompactAsk) -> EnginePlan | NoOp:
        """Say what a compaction would do, without a model call."""
        ...

    async def condense(self, frame: Frame, ask: CompactAsk, helpers: Helpers) -> Condensed | NoOp:
        """Compact. Fewer tokens or a NoOp; raises CancelledByToken when cancelled, with nothing changed."""
        ...
