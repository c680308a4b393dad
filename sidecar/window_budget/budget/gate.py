"""When a transcript is over budget: one comparison against a share of the model's window.

Seed 001, fact W5. The caller's own gate adds what a transcript does not show: system prompt and tool schemas.
"""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.llmgateway.contract import ModelCard
from sidecar.window_budget.budget.estimate import estimate_tokens
from sidecar.window_budget.contract import BudgetPolicy
from sidecar.window_budget.message import Message

__all__ = ["budget_limit", "is_over_budget"]


def budget_limit(card: ModelCard, policy: BudgetPolicy) -> float:
    """Return how many tokens may be used before condensing: the window less the reserve, times the ratio.

    Never negative, whatever the reserve.

    >>> from sidecar.llmgateway.contract import CostSheet
    >>> card = ModelCard("m", "mock", "mock", "M", context_window=200_000, max_output_tokens=1,
    ...                  modalities=("text",), reasoning=False, cost=CostSheet(0, 0))
    >>> budget_limit(card, BudgetPolicy(0.75, 6000, 2048))
    148464.0
    """
    usable = max(0, card.context_window - (policy.reserve_tokens or 0))
    return usable * policy.trigger_ratio


def is_over_budget(messages: Sequence[Message], card: ModelCard, policy: BudgetPolicy) -> bool:
    """Return whether the estimate of *messages* is strictly above :func:`budget_limit`."""
    return estimate_tokens(messages) > budget_limit(card, policy)
