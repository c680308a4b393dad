"""``windowBudget``: the engine of seed 001 at work in one session.

It keeps what it has weighed of the conversation, so that a gate costs what is new. Files come back as they
are at the moment the digest is done, not as they were when it began.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sidecar.conductor.bridge import messages_to_turns, turn_starts
from sidecar.conductor.contract import Gate, Microcompact, NoOp, RehydrateCandidate, RestoredFile
from sidecar.conductor.engines.base import (
    CompactAsk,
    Condensed,
    EngineDeps,
    EngineInput,
    EnginePlan,
    WholeView,
)
from sidecar.conductor.restoring import fresh_text
from sidecar.conductor.session_ops import (
    compact_messages,
    extend_transcript,
    preview_prompt,
)
from sidecar.llmgateway.contract import Turn
from sidecar.window_budget import (
    AUTO_CONDENSE_POLICY,
    BudgetPolicy,
    BudgetRequest,
    BudgetResult,
    FileRange,
    FreshContents,
    Transcript,
    plan_compaction,
    read_meter,
)

__all__ = ["WindowBudgetEngine"]

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


class WindowBudgetEngine(WholeView):
    """``window_budget`` at work in one session."""

    name = "windowBudget"
    compacts = True

    def __init__(self) -> None:
        self._turns: Sequence[Turn] = ()
        self._n_turns = 0
        self._transcript = Transcript()

    def gate(self, given: EngineInput, ask: CompactAsk) -> Gate:
        """Return whether the estimate, or the live occupancy, is over the limit."""
        found = read_meter(self._sync(given.turns), _request(given, ask))
        window = given.card.context_window if given.card else 0
        return Gate(found.estimate.context_tokens, int(found.limit or 0), window, found.is_over)

    def plan(self, given: EngineInput, ask: CompactAsk) -> EnginePlan | NoOp:
        """Return what a compaction would do."""
        request = _request(given, ask)
        plan = plan_compaction(self._sync(given.turns), request)
        if plan.noop is not None:
            return NoOp(_REASONS[plan.noop])
        return EnginePlan(
            cut=_turn_at(given.turns, plan.cut),
            dropped_tokens=plan.dropped_tokens,
            kept_tokens=plan.tail.tokens,
            projected_tokens=plan.projected_tokens + given.overhead_tokens,
            microcompact=Microcompact(plan.tail.blanked_count, plan.tail.blanked_tokens),
            rehydrate=tuple(
                RehydrateCandidate(each.file.path, each.tokens, each.is_stale) for each in plan.candidates
            ),
            prompt=preview_prompt(plan, request),
        )

    async def condense(self, given: EngineInput, ask: CompactAsk, deps: EngineDeps) -> Condensed | NoOp:
        """Digest the head, restore the files it had read, keep the tail."""
        uris: dict[str, str] = {}

        async def fetch(files: Sequence[FileRange]) -> FreshContents:
            fresh = await deps.fresh([file.path for file in files])
            uris.update({path: found.uri for path, found in fresh.items()})
            return {file: fresh_text(file, fresh[file.path]) for file in files}

        record = await compact_messages(
            self._sync(given.turns),
            replace(_request(given, ask), summarizer_card=deps.summarizer_card),
            invoke=deps.invoke,
            read_files=fetch,
            deadline_s=deps.deadline_s,
            cancel=deps.cancel,
        )
        deps.cancel.raise_if_cancelled()
        if record.noop is not None:
            return NoOp(_REASONS[record.noop])
        return _condensed(given, record, uris)

    def _sync(self, turns: Sequence[Turn]) -> Transcript:
        """Return *turns* as a transcript; only what is new since the last call is bridged and weighed."""
        if turns is not self._turns or len(turns) < self._n_turns:
            self._turns, self._n_turns, self._transcript = turns, 0, Transcript()
        self._transcript = extend_transcript(self._transcript, turns[self._n_turns :])
        self._n_turns = len(turns)
        return self._transcript


def _request(given: EngineInput, ask: CompactAsk) -> BudgetRequest:
    return BudgetRequest(
        force=ask.force,
        context_tokens=given.context_tokens,
        overhead_tokens=given.overhead_tokens,
        policy=_policy(ask),
        card=given.card,
        resolve_path=given.same_file,
        instructions=ask.instructions,
    )


def _policy(ask: CompactAsk) -> BudgetPolicy:
    auto, given = AUTO_CONDENSE_POLICY, ask.policy
    return BudgetPolicy(
        given.get("triggerRatio", auto.trigger_ratio),
        int(given.get("keepRecent", auto.keep_recent)),
        int(given.get("reserveTokens", auto.reserve_tokens or 0)),
    )


def _condensed(given: EngineInput, record: BudgetResult, uris: dict[str, str]) -> Condensed:
    restored = tuple(
        RestoredFile(uris.get(file.file.path, file.file.path), file.hash, file.source, file.tokens)
        for file in record.restored
    )
    reason, cut = record.fallback_reason, _turn_at(given.turns, record.cut)
    return Condensed(
        turns=messages_to_turns(record.messages),
        cut=cut,
        dropped_count=cut - (record.prompt_index is not None),
        pre_tokens=record.tokens_before + given.overhead_tokens,
        post_tokens=record.tokens_after + given.overhead_tokens,
        summary=record.summary or "",
        summary_source=record.summary_source,
        fallback_reason=_FALLBACKS.get(reason, f"the model gave no usable digest ({reason})")
        if reason
        else None,
        microcompacted=record.microcompacted,
        restored=restored,
        missing=tuple(f"{file.path}: {why}" for file, why in record.gone),
    )


def _turn_at(turns: Sequence[Turn], message_index: int) -> int:
    return bisect_left(turn_starts(turns), message_index)
