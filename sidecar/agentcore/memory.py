"""The names of the engine: estimates, compaction, the summary message.

Nothing is written here; each name has its own module beside this one.
"""

from __future__ import annotations

from sidecar.agentcore.compaction import (
    CompactionConfig,
    CompactionInfo,
    CompactionPreview,
    HistoryCompactor,
    new_compaction,
)
from sidecar.agentcore.estimate import (
    ContextUsageEstimate,
    context_estimate_adapter,
    estimate_context_tokens,
    estimate_tokens,
    estimate_total,
)
from sidecar.agentcore.messages import CompactionSummary, compaction_convert_to_llm
from sidecar.agentcore.plan import Budget, CutPlan, fit_budget, plan_compaction

__all__ = [
    "Budget",
    "CompactionConfig",
    "CompactionInfo",
    "CompactionPreview",
    "CompactionSummary",
    "ContextUsageEstimate",
    "CutPlan",
    "HistoryCompactor",
    "compaction_convert_to_llm",
    "context_estimate_adapter",
    "estimate_context_tokens",
    "estimate_tokens",
    "estimate_total",
    "fit_budget",
    "new_compaction",
    "plan_compaction",
]
