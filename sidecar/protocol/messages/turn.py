"""Messages of ``sidecar/turn/*`` and ``sidecar/queue/*``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from sidecar._internal.values import Value
from sidecar.conductor.contract import ContextUsage, QueueItem


@dataclass(frozen=True, slots=True)
class TurnParams:
    """The prompt. *input* is a list of content blocks (text, resource_link, resource, image).

    A second request with the *idempotency_key* of an earlier one gets the same answer and starts nothing. On
    the LSP face *work_done_token* gets the progress of the turn, and *partial_result_token* its text as it is
    written, in values ``{turnId, messageId, text}``.

    For this turn alone, *max_model_calls* limits the calls of the model, and *allow* has rules for actions
    that need no question, as the settings have them: ``npm run *``, ``edit: docs/**``.
    """

    sid: str
    input: tuple[Mapping[str, Any], ...]
    _: KW_ONLY
    expect_head: str | None = None
    when_busy: Literal["queue", "steer", "reject"] = "queue"
    idempotency_key: str | None = None
    work_done_token: str | int | None = None
    partial_result_token: str | int | None = None
    max_model_calls: int | None = None
    allow: tuple[str, ...] | None = None


class TurnStartResult(Value, kw_only=True):
    """The receipt of a prompt; *position* counts from 1 in the queue."""

    turn_id: str
    user_node_id: str | None
    disposition: Literal["started", "queued", "steered"]
    seq: int
    position: int | None = None


class TurnRunResult(Value, kw_only=True):
    """The end of the turn; *text* is the last answer of the model."""

    turn_id: str
    stop_reason: str
    head: str | None
    usage: ContextUsage
    text: str
    seq: int


class TurnSteerParams(Value):
    """The content blocks to add to the turn *expect_turn_id*, by default to the running one."""

    sid: str
    input: tuple[Mapping[str, Any], ...]
    expect_turn_id: str | None = None


class TurnSteerResult(Value):
    """The receipt: added to that turn, queued behind it, or a turn of its own because that one was over."""

    outcome: Literal["injected", "queued", "startedNewTurn"]
    turn_id: str
    seq: int


class InterruptParams(Value):
    """The turn to stop, by default the running one; *queue* decides about the waiting prompts."""

    sid: str
    turn_id: str | None = None
    queue: Literal["keep", "drop", "return"] = "keep"


class InterruptResult(Value):
    """*accepted* is true when there was such a turn; *returned* has the prompts taken out of the queue."""

    accepted: bool
    seq: int
    returned: tuple[tuple[Mapping[str, Any], ...], ...] | None = None


class QueueEditParams(Value):
    """The waiting prompt and its new content."""

    sid: str
    item_id: str
    input: tuple[Mapping[str, Any], ...]


class QueueRemoveParams(Value):
    """The waiting prompt to remove; its turn ends as cancelled."""

    sid: str
    item_id: str


class QueueResult(Value):
    """The waiting prompts, and the ids of the compactions that wait; the next one first."""

    items: tuple[QueueItem, ...]
    seq: int
    queued_compactions: tuple[str, ...] = ()
