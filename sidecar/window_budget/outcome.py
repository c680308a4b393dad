"""The outcome of a compaction: a plan and a digest become a transcript, or the input stays as it is.

A result is accepted only if it costs fewer tokens than the input, and fits the room where there is one; a
model's digest that breaks either is replaced by the local one, which was planned to fit. No model is called
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sidecar.window_budget.condenser import digest_message, newest_timestamp
from sidecar.window_budget.contract import CondenseScope, FallbackReason, NoOpReason, SummarySource
from sidecar.window_budget.estimate import estimate_message_tokens, tokens_of_chars
from sidecar.window_budget.local_digest import (
    EVIDENCE_TOKENS,
    add_missing_facts,
    add_missing_rules,
    collect_previous,
    required_rules,
    write_local_digest,
)
from sidecar.window_budget.message import Message, UserMessage
from sidecar.window_budget.model_digest import ModelDigest
from sidecar.window_budget.plan import BudgetPlan
from sidecar.window_budget.rehydrate import FreshText, GoneFile, RestoredRange, restore_files
from sidecar.window_budget.tool_use import FileRange

MISSING_NOTE_SHARE = 0.25
"""How much of a digest the note on files that are gone takes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetResult:
    """The result of a compaction.

    Attributes:
        messages: the new transcript, or the very object that was given when ``noop`` is set.
        noop: why nothing was done, else None.
        tokens_before: of the input, in this engine's tokens.
        tokens_after: of ``messages``, in this engine's tokens.
        dropped_count: how many messages went into the digest.
        kept_count: how many messages stayed.
        cut: the index of the first message of the tail, 0 when nothing was folded.
        prompt_index: the place of the newest prompt when it was carried over a cut behind it, else None.
        summary: the digest without its header; None when nothing was folded.
        summary_source: the author of the digest.
        fallback_reason: why that is not the model; None when it is.
        restored: the files put back, oldest first.
        gone: the files that could not be put back, with the reason.
        microcompacted: how many stale results were blanked.
        clipped: how many bodies were cut down.
    """

    messages: Sequence[Message]
    noop: NoOpReason | None
    tokens_before: int
    tokens_after: int
    dropped_count: int = 0
    kept_count: int = 0
    cut: int = 0
    prompt_index: int | None = None
    summary: str | None = None
    summary_source: SummarySource | None = None
    fallback_reason: FallbackReason | None = None
    restored: tuple[RestoredRange, ...] = ()
    gone: tuple[tuple[FileRange, str], ...] = ()
    microcompacted: int = 0
    clipped: int = 0


def keep_unchanged(messages: Sequence[Message], plan: BudgetPlan, reason: NoOpReason) -> BudgetResult:
    """Return the result of a compaction that leaves *messages* as they are."""
    return BudgetResult(
        messages=messages,
        noop=reason,
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens_before,
        kept_count=len(messages),
    )


def apply_without_digest(plan: BudgetPlan) -> BudgetResult:
    """Return the result of a plan that folds nothing and only makes its messages smaller."""
    return BudgetResult(
        messages=plan.tail.messages,
        noop=None,
        tokens_before=plan.tokens_before,
        tokens_after=plan.tail.tokens,
        dropped_count=plan.dropped_count,
        kept_count=len(plan.kept),
        cut=plan.cut,
        prompt_index=plan.prompt_index,
        microcompacted=plan.tail.blanked_count,
        clipped=plan.tail.clipped_count,
    )


def digested_spans(plan: BudgetPlan) -> list[tuple[int, int]]:
    """Return the ranges ``[start, end)`` that the digest covers, without the digest that is carried.

    Results without a call follow at the end. The newest prompt is included even where it is kept.
    """
    newest = plan.transcript.facts.digests(plan.cut)[-1:]
    orphans = [(index, index + 1) for index in plan.transcript.meter.orphans_from(plan.cut)]
    if not newest:
        return [(0, plan.cut), *orphans]
    carried = newest[0].index
    return [(0, carried), (carried + 1, plan.cut), *orphans]


def apply_plan(
    messages: Sequence[Message],
    plan: BudgetPlan,
    digest: ModelDigest,
    files: Sequence[tuple[FileRange, FreshText | GoneFile]],
) -> BudgetResult:
    """Return the result of *plan* with the model's *digest*, or the local one where it cannot be used.

    Args:
        messages: the input, returned as it is when the result would be no smaller.
        plan: a plan that folds.
        digest: the model's answer.
        files: the present text of the plan's candidates, newest first.
    """
    gone = tuple((file, found.reason) for file, found in files if isinstance(found, GoneFile))
    note = ""
    if gone:
        note = "\n\nNot restored: " + ", ".join(f"{file.path} ({reason})" for file, reason in gone) + "."
        if tokens_of_chars(len(note)) > plan.digest_tokens * MISSING_NOTE_SHARE:
            note = ""
    failure = digest.failure
    text = _complete_digest(plan, digest.text) + note if failure is None else ""
    if failure is None:
        after = plan.tail.tokens + estimate_message_tokens(_digest_message(plan, text))
        if after >= plan.tokens_before or (plan.meter.room is not None and after > plan.meter.room):
            failure = "tooLong"
    if failure is not None:
        facts = plan.transcript.facts
        text = write_local_digest(
            facts,
            plan.cut,
            collect_previous(facts, plan.cut),
            max_tokens=plan.digest_tokens - tokens_of_chars(len(note)),
            count=plan.dropped_count,
        )
        text += note
    result = _assemble(plan, _digest_message(plan, text), files)
    if result.tokens_after >= plan.tokens_before:
        return keep_unchanged(messages, plan, "wouldNotShrink")
    source: SummarySource = "model" if failure is None else "localFallback"
    return replace(result, summary=text, summary_source=source, fallback_reason=failure, gone=gone)


def _assemble(
    plan: BudgetPlan, digest: UserMessage, files: Sequence[tuple[FileRange, FreshText | GoneFile]]
) -> BudgetResult:
    """Return ``[digest, *restored files, *kept]``, the files inside the rest of every budget."""
    spent = plan.tail.tokens + estimate_message_tokens(digest)
    limits = [plan.files_tokens, plan.tokens_before - 1 - spent]
    if plan.meter.room is not None:
        limits.append(plan.meter.room - spent)
    restored = restore_files(files, min(limits), max_messages=plan.dropped_count - 2)
    return replace(
        apply_without_digest(plan),
        messages=(digest, *(file.message for file in restored), *plan.tail.messages),
        tokens_after=spent + sum(file.tokens for file in restored),
        restored=restored,
    )


def _complete_digest(plan: BudgetPlan, text: str) -> str:
    """Return the model's *text* with the user's rules and the evidence that it left out."""
    facts = plan.transcript.facts
    previous = collect_previous(facts, plan.cut)
    text = add_missing_rules(text, required_rules(facts, plan.cut, previous))
    spare = plan.digest_tokens - tokens_of_chars(len(text))
    return add_missing_facts(text, facts, plan.cut, previous, max(EVIDENCE_TOKENS, spare))


def _digest_message(plan: BudgetPlan, text: str) -> UserMessage:
    timestamp = newest_timestamp(plan.transcript, plan.cut)
    return digest_message(text, CondenseScope.SESSION, timestamp)
