"""The value shapes of this engine: policy, plan, summary, scope. No behaviour, no prompt strings.

Seed 001, the contract layer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from sidecar.window_budget.message import Message

__all__ = [
    "BudgetPolicy",
    "CondensePlan",
    "CondenseScope",
    "FallbackReason",
    "Summary",
    "SummarySource",
    "TokenEstimate",
]

SummarySource: TypeAlias = Literal["model", "localFallback"]
"""Who wrote a digest: a model, or this engine without one."""

FallbackReason: TypeAlias = Literal[
    "noModel", "cancelled", "deadline", "modelError", "emptyReply", "truncated", "refused", "tooLong"
]
"""Why a digest was written without a model, or a model's digest was not used."""


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """When to condense and how much to keep.

    ``trigger_ratio`` is a fraction of the usable window, in (0, 1]. ``keep_recent`` is the verbatim tail
    in TOKENS; in ``runtime.memory`` the same word counts turns. ``reserve_tokens`` is headroom taken off
    the window first, None for none.
    """

    trigger_ratio: float
    keep_recent: int
    reserve_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TokenEstimate:
    """How full a window is, in tokens; *anchored* when a provider's figure, not the heuristic, says so."""

    context_tokens: int
    context_window: int
    anchored: bool


@dataclass(frozen=True, slots=True)
class CondensePlan:
    """Where a transcript divides: ``dropped == messages[:cut]``, ``kept == messages[cut:]``.

    ``cut == 0`` means that nothing can be condensed.
    """

    cut: int
    kept: tuple[Message, ...]
    dropped: tuple[Message, ...]


class CondenseScope(Enum):
    """What is condensed: the running session, or a branch that was abandoned."""

    SESSION = "session"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class Summary:
    """One synthetic message that stands for *covered_count* others.

    ``source`` and ``fallback_reason`` tell how it came about and take no part in comparison.
    """

    message: Message
    covered_count: int
    source: SummarySource = field(default="model", compare=False)
    fallback_reason: FallbackReason | None = field(default=None, compare=False)
