"""What waits for its turn in a session, and how each kind of wait ends. Values with a future in them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sidecar.conductor.contract import Author, Compaction, ContextUsage, QueueItem, StopReasonName
from sidecar.conductor.engines.base import CompactAsk
from sidecar.conductor.slash import SlashCommand
from sidecar.llmgateway.contract import UserTurn

__all__ = [
    "ChangeJob",
    "CompactJob",
    "CompactReceipt",
    "Content",
    "Job",
    "PromptJob",
    "SubmitReceipt",
    "TurnFault",
    "TurnOutcome",
]

Content: TypeAlias = tuple[Mapping[str, Any], ...]
"""A prompt as the client wrote it: content blocks."""


@dataclass(frozen=True, slots=True)
class TurnFault:
    """Why a turn failed; *kind* is the wire's name of a RunErrorKind, such as ``modelFailed``."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How a turn ended; *text* is the last answer, *fault* is None for one that settled."""

    turn_id: str
    stop_reason: StopReasonName
    head: str | None
    usage: ContextUsage
    text: str
    fault: TurnFault | None = None


@dataclass(frozen=True, slots=True)
class SubmitReceipt:
    """What became of a prompt. *entered* and *outcome* are those of the turn which answers it."""

    turn_id: str
    user_node_id: str | None
    disposition: Literal["started", "queued", "steered"]
    position: int | None
    entered: asyncio.Future[str | None]
    outcome: asyncio.Future[TurnOutcome]


@dataclass(frozen=True, slots=True)
class CompactReceipt:
    """What became of a request to compact. *outcome* is the compaction as it ended."""

    compaction_id: str
    disposition: Literal["started", "queued", "noop"]
    reason: str | None
    outcome: asyncio.Future[Compaction]


@dataclass(slots=True, eq=False)
class PromptJob:
    """A prompt, or a slash *command* in its place.

    *entered* resolves to the prompt's node, or to None when it is not stored, as a command never is.
    *author* is None where nobody said who asks.
    """

    item_id: str
    turn_id: str
    content: Content
    turn: UserTurn
    command: SlashCommand | None
    entered: asyncio.Future[str | None]
    outcome: asyncio.Future[TurnOutcome]
    author: Author | None = None

    def as_item(self) -> QueueItem:
        """Return the prompt as clients see it in the queue."""
        return QueueItem(self.item_id, self.turn_id, self.content)


@dataclass(slots=True, eq=False)
class ChangeJob:
    """A change of the conversation between two turns: an undo, a rewind and their like.

    It is made only if the session stands at *expect_head* by then, anywhere for None. *outcome* is what
    *change* returns, or fails with what speaks against it.
    """

    change: Callable[[], Awaitable[Any]]
    expect_head: str | None
    outcome: asyncio.Future[Any]


@dataclass(slots=True, eq=False)
class CompactJob:
    """A compaction by hand."""

    compaction_id: str
    engine: str
    ask: CompactAsk
    outcome: asyncio.Future[Compaction]


Job: TypeAlias = PromptJob | CompactJob | ChangeJob
"""What a session's queue holds."""
