"""How full a live session's window is: messages, system prompt and tools, and what the provider counted.

The seed's gate looks at messages alone. This one also decides how much room they have, so that what a
compaction leaves behind fits where it is sent. Nothing here cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sidecar.llmgateway.contract import ModelCard
from sidecar.window_budget.budget.estimate import estimate_tokens
from sidecar.window_budget.budget.gate import budget_limit
from sidecar.window_budget.condenser import AUTO_CONDENSE_POLICY
from sidecar.window_budget.contract import BudgetPolicy, TokenEstimate
from sidecar.window_budget.message import Message
from sidecar.window_budget.rehydrate import RehydrateOpts, Resolve
from sidecar.window_budget.transcript import Transcript

__all__ = ["MIN_ROOM_TOKENS", "Gate", "NoOpReason", "PlanOptions", "read_gate", "shut_reason"]

NoOpReason: TypeAlias = Literal[
    "underBudget", "noWindow", "overheadTooLarge", "nothingToDrop", "wouldNotShrink", "cancelled"
]
"""Why a compaction leaves the transcript as it is."""

MIN_ROOM_TOKENS = 160
"""With less room than this beside system prompt and tools, condensing the messages cannot help."""

MAX_SCALE = 4.0
"""How far a provider's figure may exceed ours before it is taken for wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What a plan depends on besides the messages.

    Attributes:
        force: condense whatever the gate says; needs no card.
        context_tokens: live occupancy as the provider reported it, 0 for unknown.
        overhead_tokens: system prompt and tool schemas, in this engine's tokens.
        policy: when to condense and how much to keep.
        card: the model whose window counts; None for unknown.
        rehydrate: what may be restored.
        resolve: makes spellings of a path one, beyond the lexical rules.
    """

    force: bool = False
    context_tokens: int = 0
    overhead_tokens: int = 0
    policy: BudgetPolicy = AUTO_CONDENSE_POLICY
    card: ModelCard | None = None
    rehydrate: RehydrateOpts = field(default_factory=RehydrateOpts)
    resolve: Resolve | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """How full the window is.

    ``limit`` is in provider tokens, None without a card. ``room`` is what the messages may take, in this
    engine's tokens: the limit less the overhead, scaled down where the provider counted more than the
    estimate; None without a card, or when there is too little to aim for. ``message_tokens`` is what they
    take now.
    """

    estimate: TokenEstimate
    message_tokens: int
    limit: float | None
    room: int | None
    is_over: bool


def read_gate(messages: Sequence[Message], options: PlanOptions) -> Gate:
    """Return how full the window is; O(1) for a :class:`Transcript`.

    The larger of the estimate, overhead included, and the provider's figure decides.

    >>> read_gate([], PlanOptions()).is_over
    False
    """
    total = messages.meter.total if isinstance(messages, Transcript) else estimate_tokens(messages)
    estimate, live = total + options.overhead_tokens, options.context_tokens
    window = options.card.context_window if options.card else 0
    used = TokenEstimate(max(estimate, live), window, anchored=live > estimate)
    if options.card is None:
        return Gate(used, total, limit=None, room=None, is_over=False)
    limit = budget_limit(options.card, options.policy)
    scale = min(MAX_SCALE, max(1.0, live / max(1, estimate)))
    room = int(limit / scale) - options.overhead_tokens
    return Gate(used, total, limit, room if room >= MIN_ROOM_TOKENS else None, used.context_tokens > limit)


def shut_reason(gate: Gate, options: PlanOptions) -> NoOpReason | None:
    """Return why *gate* lets nothing through, or None when it is open; a forced condense needs no gate."""
    if options.force:
        return None
    if gate.limit is None:
        return "noWindow"
    if not gate.is_over:
        return "underBudget"
    return "overheadTooLarge" if gate.room is None else None
