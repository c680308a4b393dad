"""Messages of ``sidecar/turn/*`` and ``sidecar/queue/*``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sidecar.conductor.contract import ContextUsage, QueueItem

__all__ = [
    "InterruptParams",
    "InterruptResult",
    "QueueEditParams",
    "QueueRemoveParams",
    "QueueResult",
    "TurnParams",
    "TurnRunResult",
    "TurnStartResult",
    "TurnSteerParams",
    "TurnSteerResult",
]


@dataclass(frozen=True, slots=True)
class TurnParams:
    """A prompt. *input* is a list of content blocks (text, resource_link, resource, image).

    A second request with the *idempotency_key* of an earlier one answers as that one did. On the LSP face
    *work_done_token* gets the turn as progress, and *partial_result_token* its text as it is written, in
    values ``{turnId, messageId, text}``.
    """

    sid: str
    input: tuple[Mapping[str, Any], ...]
    expect_head: str | None = None
    when_busy: Literal["queue", "steer", "reject"] = "queue"
    idempotency_key: str | None = None
    work_done_token: str | int | None = None
    partial_result_token: str | int | None = None


@dataclass(frozen=True, slots=True)
class TurnStartResult:
    """What became of the prompt; *position* counts from 1 in the queue."""

    turn_id: str
    user_node_id: str | None
    disposition: Literal["started", "queued", "steered"]
    seq: int
    position: int | None = None


@dataclass(frozen=True, slots=True)
class TurnRunResult:
    """How the turn ended; *text* is the last answer."""

    turn_id: str
    stop_reason: str
    head: str | None
    usage: ContextUsage
    text: str
    seq: int


@dataclass(frozen=True, slots=True)
class TurnSteerParams:
    """Words for the turn *expect_turn_id*, for none whichever runs, as content blocks."""

    sid: str
    input: tuple[Mapping[str, Any], ...]
    expect_turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class TurnSteerResult:
    """Whether they entered that turn, wait behind it, or began a turn of their own because it was over."""

    outcome: Literal["injected", "queued", "startedNewTurn"]
    turn_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class InterruptParams:
    """Stop the turn *turn_id*, else the running one; *queue* says what becomes of waiting prompts."""

    sid: str
    turn_id: str | None = None
    queue: Literal["keep", "drop", "return"] = "keep"


@dataclass(frozen=True, slots=True)
class InterruptResult:
    """Whether there was such a turn; *returned* holds the prompts taken out of the queue."""

    accepted: bool
    returned: tuple[tuple[Mapping[str, Any], ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class QueueEditParams:
    """Other words for a prompt that waits."""

    sid: str
    item_id: str
    input: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class QueueRemoveParams:
    """A prompt that is not wanted any more; its turn ends as cancelled."""

    sid: str
    item_id: str


@dataclass(frozen=True, slots=True)
class QueueResult:
    """The prompts that wait, the next one first."""

    items: tuple[QueueItem, ...]
    seq: int
