"""``windowBudget``: the window budget's engine at work in one session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

from sidecar.conductor.contract import Gate, Microcompact, NoOp
from sidecar.conductor.engine import (
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    EngineMarks,
    PreparedSummary,
    SessionEngine,
    compacted_entries,
)
from sidecar.conductor.session_ops import (
    carry_out,
    entries_to_messages,
    extend_transcript,
    find_cut,
    find_turn,
    messages_to_turns,
    prepare_digest,
    preview_prompt,
    turn_starts,
)
from sidecar.conversation import Entry, Index
from sidecar.window_budget import (
    AUTO_CONDENSE_POLICY,
    BRANCH_HEADER,
    DIGEST_HEADER,
    RESTORED_FILE_PREFIX,
    BudgetPolicy,
    BudgetRequest,
    BudgetResult,
    RehydrateOpts,
    Transcript,
    budget_limit,
    estimate_tokens,
    plan_compaction,
    project_tokens,
)
from sidecar.window_budget.contract import PreparedDigest

_PRICED_TAIL_SHARE: Final = 0.05
_LEAST_PRICED_TAIL: Final = 3_000
"""The tail where prices make a compaction due early: a share of the window, and its least tokens."""

_REASONS: Final[dict[str, str]] = {
    "underBudget": "the conversation is under the limit",
    "noWindow": "the model's context window is unknown",
    "overheadTooLarge": "the system prompt and the tools alone fill the window",
    "nothingToDrop": "there is nothing to condense",
    "wouldNotShrink": "the result would not be smaller",
    "cancelled": "cancelled",
}
_FALLBACKS: Final[dict[str, str]] = {
    "noModel": "no model is at hand to condense with",
    "deadline": "the model took too long",
}


class WindowBudgetEngine(SessionEngine):
    """``window_budget`` at work in one session."""

    name: ClassVar[str] = "windowBudget"
    prepares: ClassVar[bool] = True
    marks: ClassVar[EngineMarks] = EngineMarks(
        summaries=(DIGEST_HEADER, BRANCH_HEADER),
        files=(RESTORED_FILE_PREFIX,),
        headings=("Objective", "Guardrails", "Status", "Rationale", "Plan", "Carryover"),
    )

    def __init__(self) -> None:
        self.index: Index[Transcript] = Index(Transcript, extend_transcript)

    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return whether the next request is over the limit."""
        own = self.index.of(given.history).meter.total + given.overhead_tokens
        tokens = given.context_tokens or own
        if given.card is None:
            return Gate(tokens, 0, 0, over=False)
        limit = budget_limit(given.card, _budget_policy(given, request))
        return Gate(tokens, int(limit), given.card.context_window, tokens > limit)

    def weigh(self, entries: Sequence[Entry]) -> int:
        """Return the tokens of *entries*."""
        return estimate_tokens(entries_to_messages(entries))

    def plan(self, given: EngineInput, request: CompactionRequest) -> CompactionPlan | NoOp:
        """Return the plan of a compaction, without a model call."""
        budget_request = _budget_request(given, request)
        plan = plan_compaction(self.index.of(given.history), budget_request)
        if plan.noop is not None:
            return NoOp(_REASONS[plan.noop])
        cut, pinned = find_cut(given.history, len(plan.transcript), plan.cut, plan.prompt_index)
        overhead = given.overhead_tokens
        low, high = project_tokens(plan, 0)
        return CompactionPlan(
            cut=cut,
            pinned=pinned,
            pre_tokens=plan.tokens_before + overhead,
            dropped_tokens=plan.dropped_tokens,
            kept_tokens=plan.tail.tokens,
            projected_tokens=min(high, plan.tail.tokens + plan.digest_tokens) + overhead,
            low_tokens=low + overhead,
            high_tokens=high + overhead,
            microcompact=Microcompact(plan.tail.blanked_count, plan.tail.blanked_tokens),
            kept=partial(messages_to_turns, plan.tail.messages),
            prompt=partial(preview_prompt, plan, budget_request),
            details=plan,
        )

    async def compact(
        self, given: EngineInput, request: CompactionRequest, plan: CompactionPlan, deps: EngineDeps
    ) -> CompactionResult | NoOp:
        """Digest the head, and keep the tail."""
        budget_request = _budget_request(given, request)
        made, messages = given.prepared, plan.details.transcript
        if made is not None and made.node_id in (ids := given.history.node_ids):
            covered = turn_starts(given.history.turns)[ids.index(made.node_id)]
            budget_request = replace(budget_request, prepared=PreparedDigest(made.text, covered))
        done = await carry_out(messages, plan.details, budget_request, deps)
        deps.cancel.raise_if_cancelled()
        if done.noop is not None:
            return NoOp(_REASONS[done.noop])
        return _as_result(given, done, plan.cut, plan.pinned)

    async def prepare(
        self, given: EngineInput, request: CompactionRequest, deps: EngineDeps
    ) -> PreparedSummary | None:
        """Return a model's digest of the head that would be folded now."""
        if deps.invoke is None:
            return None
        messages = self.index.of(given.history)
        made = await prepare_digest(messages, _budget_request(given, request), deps)
        if made is None:
            return None
        node = given.history.node_at(find_turn(given.history.turns, made.n_messages, len(messages)))
        if node is None:
            return None
        return PreparedSummary(engine=self.name, text=made.text, node_id=node)


def _budget_policy(given: EngineInput, request: CompactionRequest) -> BudgetPolicy:
    auto, given_policy, keep_recent = AUTO_CONDENSE_POLICY, request.policy, AUTO_CONDENSE_POLICY.keep_recent
    if request.limit_by == "price":
        # Each token that is kept is paid for in every later request, and most of the facts are in the digest.
        keep_recent = min(keep_recent, max(_LEAST_PRICED_TAIL, int(given.window * _PRICED_TAIL_SHARE)))
    elif not given_policy:
        return auto
    return BudgetPolicy(
        given_policy.get("triggerRatio", auto.trigger_ratio),
        int(given_policy.get("keepRecent", keep_recent)),
        int(given_policy.get("reserveTokens", auto.reserve_tokens or 0)),
    )


def _budget_request(given: EngineInput, request: CompactionRequest) -> BudgetRequest:
    return BudgetRequest(
        force=request.force,
        context_tokens=given.context_tokens,
        overhead_tokens=given.overhead_tokens,
        policy=_budget_policy(given, request),
        rehydrate=RehydrateOpts(max_files=0),  # the host brings files back
        card=given.card,
        summarizer_card=given.summarizer_card,
        resolve_path=given.same_file,
        instructions=request.instructions,
        tools=given.tool_effects,
        cached=given.cached,
    )


def _as_result(given: EngineInput, done: BudgetResult, cut: int, pinned: tuple[int, ...]) -> CompactionResult:
    """Return *done*; its messages are the digest, a carried prompt and the tail."""
    turns, reason = messages_to_turns(done.messages), done.fallback_reason
    folds = done.summary is not None
    return CompactionResult(
        entries=compacted_entries(
            given.history, cut, turns[0] if folds else None, turns[folds:], pinned=pinned
        ),
        cut=cut,
        dropped_count=cut - len(pinned),
        pre_tokens=done.tokens_before + given.overhead_tokens,
        post_tokens=done.tokens_after + given.overhead_tokens,
        summary=done.summary or "",
        summary_source=done.summary_source,
        fallback_reason=_FALLBACKS.get(reason, f"the model gave no usable digest ({reason})")
        if reason
        else None,
        microcompacted=done.microcompacted,
    )
