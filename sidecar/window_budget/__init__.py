"""Seed 001: budget and compaction of a session's transcript.

The seed's names are the pure pieces: estimate, gate, slice, summary, microcompact, rehydrate. What a live
session needs beyond them is built on top: :class:`Transcript` (messages that know their weight and facts),
:func:`plan_compaction` (what would happen, without a model) and :func:`settle` (what did). The runner that
awaits the model is ``sidecar.conductor.session_ops``. This package is pure, and ``keep_recent`` means tokens
throughout it.
"""

from sidecar.window_budget.budget.boundary import safe_cut
from sidecar.window_budget.budget.estimate import estimate_message_tokens, estimate_tokens, prefix_tokens
from sidecar.window_budget.budget.gate import budget_limit, is_over_budget
from sidecar.window_budget.budget.meter import PrefixMeter
from sidecar.window_budget.budget.slice import last_user_turn_start, plan_slice
from sidecar.window_budget.condenser import (
    AUTO_CONDENSE_POLICY,
    Condenser,
    CondenserDeps,
    condense,
    create_condenser,
)
from sidecar.window_budget.contract import (
    BudgetPolicy,
    CondensePlan,
    CondenseScope,
    FallbackReason,
    Summary,
    SummarySource,
    TokenEstimate,
)
from sidecar.window_budget.gauge import Gate, NoOpReason, PlanOptions, read_gate
from sidecar.window_budget.message import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Content,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from sidecar.window_budget.microcompact import (
    CLEARED_TOOL_RESULT,
    DEFAULT_KEEP_RECENT,
    clear_stale_tool_results,
    compactable_tool_names,
)
from sidecar.window_budget.plan import CompactionPlan, plan_compaction
from sidecar.window_budget.rehydrate import (
    RESTORED_FILE_PREFIX,
    Candidate,
    FileRange,
    FreshFile,
    FreshFiles,
    FreshText,
    GoneFile,
    RehydrateOpts,
    RestoredFile,
    rehydrate_recent_reads,
)
from sidecar.window_budget.settle import CondenseRecord, settle
from sidecar.window_budget.summarize.condense import (
    BRANCH_HEADER,
    DIGEST_HEADER,
    SummarizeDeps,
    condense_scope,
    summarize,
)
from sidecar.window_budget.summarize.ledger import FactLedger
from sidecar.window_budget.summarize.local_digest import LOCAL_DIGEST_TOKENS, local_fallback_digest
from sidecar.window_budget.summarize.prompt import (
    CONDENSER_BRIEF,
    SECTION_TEMPLATE,
    build_summary_prompt,
    flatten_transcript,
)
from sidecar.window_budget.transcript import Transcript

__all__ = [
    "AUTO_CONDENSE_POLICY",
    "BRANCH_HEADER",
    "CLEARED_TOOL_RESULT",
    "CONDENSER_BRIEF",
    "DEFAULT_KEEP_RECENT",
    "DIGEST_HEADER",
    "LOCAL_DIGEST_TOKENS",
    "RESTORED_FILE_PREFIX",
    "SECTION_TEMPLATE",
    "AssistantMessage",
    "BashExecutionMessage",
    "BranchSummaryMessage",
    "BudgetPolicy",
    "Candidate",
    "CompactionPlan",
    "CompactionSummaryMessage",
    "CondensePlan",
    "CondenseRecord",
    "CondenseScope",
    "Condenser",
    "CondenserDeps",
    "Content",
    "CustomMessage",
    "FactLedger",
    "FallbackReason",
    "FileRange",
    "FreshFile",
    "FreshFiles",
    "FreshText",
    "Gate",
    "GoneFile",
    "Message",
    "NoOpReason",
    "PlanOptions",
    "PrefixMeter",
    "RehydrateOpts",
    "RestoredFile",
    "SummarizeDeps",
    "Summary",
    "SummarySource",
    "TokenEstimate",
    "ToolResultMessage",
    "Transcript",
    "UserMessage",
    "budget_limit",
    "build_summary_prompt",
    "clear_stale_tool_results",
    "compactable_tool_names",
    "condense",
    "condense_scope",
    "create_condenser",
    "estimate_message_tokens",
    "estimate_tokens",
    "flatten_transcript",
    "is_over_budget",
    "last_user_turn_start",
    "local_fallback_digest",
    "plan_compaction",
    "plan_slice",
    "prefix_tokens",
    "read_gate",
    "rehydrate_recent_reads",
    "safe_cut",
    "settle",
    "summarize",
]
