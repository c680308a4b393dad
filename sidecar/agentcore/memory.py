"""The names of seed 004's ``memory`` package: estimates, compaction, the summary message.

Nothing is written here; each name has its own module beside this one.
"""

from __future__ import annotations

from sidecar.agentcore.budget import Budget, fit_budget
from sidecar.agentcore.compaction import (
    CompactionConfig,
    CompactionInfo,
    CompactionPreview,
    Compactor,
    new_compaction,
)
from sidecar.agentcore.convert import compaction_convert_to_llm
from sidecar.agentcore.estimate import (
    ContextUsageEstimate,
    context_estimate_adapter,
    estimate_context_tokens,
    estimate_tokens,
    estimate_total,
)
from sidecar.agentcore.messages import CompactionSummary
from sidecar.agentcore.plan import CompactionPlan, plan_compaction

__all__ = [
    "Budget",
    "CompactionConfig",
    "CompactionInfo",
    "CompactionPlan",
    "CompactionPreview",
    "CompactionSummary",
    "Compactor",
    "ContextUsageEstimate",
    "compaction_convert_to_llm",
    "context_estimate_adapter",
    "estimate_context_tokens",
    "estimate_tokens",
    "estimate_total",
    "fit_budget",
    "new_compaction",
    "plan_compaction",
]
