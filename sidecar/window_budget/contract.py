"""The value shapes of this engine: policy, request, plan, summary.

This module has no behaviour and no prompt strings. In the whole package ``keep_recent`` means tokens where it
belongs to a policy, and results where it belongs to microcompact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec

from sidecar._internal.values import Value, hide_in_repr
from sidecar.llmgateway.contract import Conversation, ModelCard, ThinkingLevel
from sidecar.text.calls import ToolEffects
from sidecar.window_budget.message import Message

SummarySource: TypeAlias = Literal["model", "localFallback"]
"""The author of a digest: a model, or this engine without one."""

FallbackReason: TypeAlias = Literal[
    "noModel", "cancelled", "deadline", "modelError", "emptyReply", "truncated", "refused", "tooLong"
]
"""Why a digest was written without a model, or a model's digest was not used."""

NoOpReason: TypeAlias = Literal[
    "underBudget", "noWindow", "overheadTooLarge", "nothingToDrop", "wouldNotShrink", "cancelled"
]
"""Why a compaction leaves the transcript as it is."""


class BudgetPolicy(Value):
    """When to condense and how much to keep.

    ``trigger_ratio`` is a fraction of the usable window, in (0, 1]. ``keep_recent`` is the verbatim tail
    in TOKENS; in ``runtime.memory`` the same word counts turns. ``reserve_tokens`` is headroom taken off
    the window first, None for none.
    """

    trigger_ratio: float
    keep_recent: int
    reserve_tokens: int | None = None


AUTO_CONDENSE_POLICY = BudgetPolicy(trigger_ratio=0.75, keep_recent=6000, reserve_tokens=2048)
"""The one policy that gate and slice share: condense at three quarters of the window, keep 6000 tokens."""


class TokenEstimate(Value):
    """How full a window is, in tokens; *anchored* when a provider counted more than the heuristic."""

    context_tokens: int
    context_window: int
    anchored: bool


class CondensePlan(Value):
    """The division of a transcript: ``dropped == messages[:cut]``, ``kept == messages[cut:]``.

    ``cut == 0`` means that nothing can be condensed.
    """

    cut: int
    kept: tuple[Message, ...]
    dropped: tuple[Message, ...]


class CondenseScope(Enum):
    """The subject of a digest: the running session, or a branch that was abandoned."""

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


class RehydrateOpts(Value):
    """The files to restore: at most *max_files* that *read_tool_name* read, in *token_budget* tokens.

    With None as the name, the files count that any tool with a declared effect of reading read.
    """

    max_files: int = 5
    token_budget: int = 8000
    read_tool_name: str | None = "read"


ResolvePath: TypeAlias = Callable[[str], str]
"""Maps any spelling of a path to one. Contract: pure, never raises."""


NO_TOOLS: Final[Mapping[str, ToolEffects]] = MappingProxyType({})
"""No declared tools: each is known by its name or its arguments."""


class CachedRequest(Value):
    """A request that continues the newest one, which the provider has in its cache.

    *thinking* is the level of that one: a provider's cache holds for the same level alone.
    """

    conversation: Conversation
    thinking: ThinkingLevel | None = None


class PreparedDigest(Value):
    """A model's digest of the first *n_messages* messages, written before the compaction was due."""

    text: str
    n_messages: int


class BudgetRequest(Value, kw_only=True):
    """One compaction of a live session: everything it depends on besides the messages.

    Attributes:
        force: condense also under the limit; needs no card.
        context_tokens: live occupancy as the provider reported it, 0 for unknown.
        overhead_tokens: system prompt and tool schemas, in this engine's tokens.
        policy: when to condense and how much to keep.
        card: the session's model, None for unknown.
        rehydrate: the limits for restored files.
        resolve_path: makes spellings of a path one, beyond the lexical rules.
        instructions: the user's wishes for the digest, None for none.
        summarizer_card: the model that writes the digest; None when it is the session's own.
        tools: the declared effects of tools, by name.
        ahead: plan under the limit as well, as it will be once the limit is reached.
        prepared: a digest to go on from, None for none.
        cached: the conversation as the provider has it in its cache, None where it keeps none.
    """

    force: bool = False
    context_tokens: int = 0
    overhead_tokens: int = 0
    policy: BudgetPolicy = AUTO_CONDENSE_POLICY
    card: ModelCard | None = None
    rehydrate: RehydrateOpts = RehydrateOpts()
    resolve_path: ResolvePath | None = None
    instructions: str | None = None
    summarizer_card: ModelCard | None = None
    tools: Mapping[str, ToolEffects] = msgspec.field(default_factory=dict)
    ahead: bool = False
    prepared: PreparedDigest | None = None
    cached: CachedRequest | None = None

    __repr__ = hide_in_repr("cached")
