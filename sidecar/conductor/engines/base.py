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
from sidecar.conductor.room import NO_PARTICIPANTS, Participants
from sidecar.llmgateway.contract import ModelCard, Turn
from sidecar.runtime.contract import ModelInvoker

__all__ = [
    "CompactAsk",
    "Condensed",
    "EngineDeps",
    "EngineInput",
    "EnginePlan",
    "FreshFile",
    "FreshFiles",
    "SessionEngine",
    "Standing",
    "SummaryFailed",
    "View",
    "WholeView",
]


@dataclass(frozen=True, slots=True)
class Standing:
    """A compaction that only the view shows: *summary* stands there for the turns before *cut*."""

    cut: int
    summary: str
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineInput:
    """The conversation an engine is to judge.

    *overhead_tokens* is what every request carries besides: system prompt, tool schemas, and the prompt that
    is about to enter. *context_tokens* rests on the provider's figures, 0 when there are none. *standing* is
    what the engine's own compactions have made of this conversation in the view; *participants* is who takes
    part. *same_file* makes one name of all spellings of a file's path.
    """

    turns: Sequence[Turn]
    card: ModelCard | None
    overhead_tokens: int
    context_tokens: int
    standing: Standing | None = None
    participants: Participants = NO_PARTICIPANTS
    same_file: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class View:
    """What the model is sent of a conversation: *turns*, which show it from its turn *first* on.

    *pinned* are the indices of turns before that which are shown as well: the newest prompt.
    """

    turns: Sequence[Turn]
    first: int = 0
    pinned: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactAsk:
    """How to compact: *force* needs no gate; *policy* overrides thresholds by their wire names."""

    force: bool
    instructions: str | None = None
    policy: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What a compaction would do; *cut* is the index of the first turn kept, *first* of the first dropped."""

    cut: int
    dropped_tokens: int
    kept_tokens: int
    projected_tokens: int
    microcompact: Microcompact
    rehydrate: tuple[RehydrateCandidate, ...]
    prompt: str | None = None
    first: int = 0


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
class EngineDeps:
    """What an engine may use while it condenses. *invoke* None means no model: a local digest."""

    invoke: ModelInvoker | None
    summarizer_card: ModelCard | None
    fresh: FreshFiles
    cancel: CancelToken
    deadline_s: float


class SummaryFailed(Exception):
    """An engine that needs a summary got none it can use; its text tells the user why."""


@dataclass(frozen=True, slots=True)
class Condensed:
    """The conversation after a compaction, and what became of it.

    Without a *summary_source* nothing was summarised: what alone was too large was cut where it stands.
    With *keeps_history* the stored conversation stays as it is, and *turns* is what the model is sent.
    """

    turns: tuple[Turn, ...]
    cut: int
    dropped_count: int
    pre_tokens: int
    post_tokens: int
    summary: str
    summary_source: SummarySource | None
    fallback_reason: str | None
    microcompacted: int
    restored: tuple[RestoredFile, ...]
    missing: tuple[str, ...]
    info: Mapping[str, Any] | None = None
    keeps_history: bool = False


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

    @property
    def shows_view(self) -> bool:
        """Whether the stored conversation stays whole, and the model is sent a view of it."""
        ...

    def gate(self, given: EngineInput, ask: CompactAsk) -> Gate:
        """Say whether the next request is over the limit; costs only what is new since the last call."""
        ...

    def plan(self, given: EngineInput, ask: CompactAsk) -> EnginePlan | NoOp:
        """Say what a compaction would do, without a model call."""
        ...

    async def condense(self, given: EngineInput, ask: CompactAsk, deps: EngineDeps) -> Condensed | NoOp:
        """Compact. Fewer tokens or a NoOp; raises CancelledByToken when cancelled, with nothing changed."""
        ...

    def view(self, given: EngineInput, ask: CompactAsk) -> View:
        """Return what the model is sent, ``given.turns`` itself where that is all of it; asks no model."""
        ...


class WholeView:
    """The part of an engine that shortens the stored conversation itself: the model is sent all of it."""

    shows_view = False

    def view(self, given: EngineInput, ask: CompactAsk) -> View:
        """Return the whole conversation."""
        return View(given.turns)
