"""The engine of the window-budget seed: budget and compaction of a session's transcript.

The seed's names are the pure pieces: estimate, gate, slice, summary, microcompact, rehydrate. A live session
stands on more of them: :class:`Transcript` (messages that know their weight),
:func:`plan_compaction` (without a model) and :func:`apply_plan` (with the digest). The runner
that awaits the model is ``sidecar.conductor.session_ops``. This package is pure.
"""

from sidecar.llmgateway.contract import Block
from sidecar.window_budget.condenser import (
    Condenser,
    CondenserDeps,
    condense,
    condense_scope,
    create_condenser,
    summarize,
)
from sidecar.window_budget.contract import (
    AUTO_CONDENSE_POLICY,
    BudgetPolicy,
    BudgetRequest,
    CondensePlan,
    CondenseScope,
    RehydrateOpts,
    Summary,
    TokenEstimate,
)
from sidecar.window_budget.cut import (
    last_user_turn_start,
    plan_slice,
    safe_cut,
)
from sidecar.window_budget.digest import ModelDigest, SummarizeDeps, local_fallback_digest
from sidecar.window_budget.estimate import (
    PrefixMeter,
    budget_limit,
    estimate_message_tokens,
    estimate_tokens,
    is_over_budget,
    prefix_tokens,
)
from sidecar.window_budget.message import (
    BRANCH_HEADER,
    CLEARED_TOOL_RESULT,
    DIGEST_HEADER,
    RESTORED_FILE_PREFIX,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Content,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from sidecar.window_budget.microcompact import (
    DEFAULT_KEEP_RECENT,
    clear_stale_tool_results,
    compactable_tool_names,
)
from sidecar.window_budget.outcome import (
    BudgetResult,
    DigestMaterial,
    apply_plan,
    apply_without_digest,
    digest_material,
    keep_unchanged,
    preview_prompt,
    project_tokens,
    request_plan_digest,
)
from sidecar.window_budget.plan import BudgetPlan, plan_compaction
from sidecar.window_budget.prompt import (
    CONDENSER_BRIEF,
    SECTION_TEMPLATE,
    build_summary_prompt,
    flatten_transcript,
)
from sidecar.window_budget.rehydrate import (
    FileRange,
    file_message,
    rehydrate_recent_reads,
)
from sidecar.window_budget.transcript import MeterReading, Transcript, read_meter

__all__ = [
    "AUTO_CONDENSE_POLICY",
    "BRANCH_HEADER",
    "CLEARED_TOOL_RESULT",
    "CONDENSER_BRIEF",
    "DEFAULT_KEEP_RECENT",
    "DIGEST_HEADER",
    "RESTORED_FILE_PREFIX",
    "SECTION_TEMPLATE",
    "AssistantMessage",
    "BashExecutionMessage",
    "Block",
    "BranchSummaryMessage",
    "BudgetPlan",
    "BudgetPolicy",
    "BudgetRequest",
    "BudgetResult",
    "CompactionSummaryMessage",
    "CondensePlan",
    "CondenseScope",
    "Condenser",
    "CondenserDeps",
    "Content",
    "CustomMessage",
    "DigestMaterial",
    "FileRange",
    "Message",
    "MeterReading",
    "ModelDigest",
    "PrefixMeter",
    "RehydrateOpts",
    "SummarizeDeps",
    "Summary",
    "TokenEstimate",
    "ToolResultMessage",
    "Transcript",
    "UserMessage",
    "apply_plan",
    "apply_without_digest",
    "budget_limit",
    "build_summary_prompt",
    "clear_stale_tool_results",
    "compactable_tool_names",
    "condense",
    "condense_scope",
    "create_condenser",
    "digest_material",
    "estimate_message_tokens",
    "estimate_tokens",
    "file_message",
    "flatten_transcript",
    "is_over_budget",
    "keep_unchanged",
    "last_user_turn_start",
    "local_fallback_digest",
    "plan_compaction",
    "plan_slice",
    "prefix_tokens",
    "preview_prompt",
    "project_tokens",
    "read_meter",
    "rehydrate_recent_reads",
    "request_plan_digest",
    "safe_cut",
    "summarize",
    "text_of",
]
