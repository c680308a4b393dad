"""The condensation engine of a running agent: when a history nears the window, its older part becomes a gist.

``estimate_context_tokens``, ``should_compact``, ``find_cut_point``, ``summarize`` and ``compact`` keep the
documented rules. A running agent uses ``plan_live_cut`` and ``compact_live``, which are safe on a live
transcript. Pure but for the model invoker it is handed.
"""

from sidecar.runtime.memory.compactor import (
    LiveCompaction,
    LiveCut,
    compact,
    compact_live,
    find_cut_point,
    plan_live_cut,
    project_tokens,
    should_compact,
)
from sidecar.runtime.memory.distill import DISTILL_INSTRUCTION, summarize, summary_turn
from sidecar.runtime.memory.estimate import (
    CHARS_PER_TOKEN,
    DEFAULT_POLICY,
    IMAGE_CHARS,
    TURN_OVERHEAD_TOKENS,
    estimate_context_tokens,
    is_due,
    live_tokens,
    serialize,
    tokens_of,
    turn_chars,
)
from sidecar.runtime.memory.gist import SUMMARY_HEADING, TurnKinds, local_gist

__all__ = [
    "CHARS_PER_TOKEN",
    "DEFAULT_POLICY",
    "DISTILL_INSTRUCTION",
    "IMAGE_CHARS",
    "SUMMARY_HEADING",
    "TURN_OVERHEAD_TOKENS",
    "LiveCompaction",
    "LiveCut",
    "TurnKinds",
    "compact",
    "compact_live",
    "estimate_context_tokens",
    "find_cut_point",
    "is_due",
    "live_tokens",
    "local_gist",
    "plan_live_cut",
    "project_tokens",
    "serialize",
    "should_compact",
    "summarize",
    "summary_turn",
    "tokens_of",
    "turn_chars",
]
