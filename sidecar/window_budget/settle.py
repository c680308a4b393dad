"""The end of a compaction: a plan and a digest become a transcript, or nothing becomes of them.

A result is accepted only if it costs fewer tokens than the input, and fits the room where there is one; a
model's digest that breaks either is replaced by the local one, which was planned to fit. Nothing here calls a
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sidecar.window_budget.budget.estimate import estimate_message_tokens, tokens_of_chars
from sidecar.window_budget.contract import CondenseScope, FallbackReason, SummarySource
from sidecar.window_budget.gauge import NoOpReason
from sidecar.window_budget.message import Message, UserMessage
from sidecar.window_budget.plan import CompactionPlan
from sidecar.window_budget.rehydrate import FileRange, FreshFile, GoneFile, RestoredFile, restore_files
from sidecar.window_budget.summarize.condense import ModelDigest, digest_message, newest_timestamp
from sidecar.window_budget.summarize.local_digest import carried_into, ledger_digest
from sidecar.window_budget.summarize.pins import EVIDENCE_TOKENS, pinned_rules, with_evidence, with_pinned

__all__ = ["CondenseRecord", "lightened", "settle", "spans_of", "unchanged"]


NOTE_SHARE = 0.25
"""How much of a digest the note on files that are gone takes at most."""


@dataclass(frozen=True, slots=True)
class CondenseRecord:
    """What a compaction did.

    Attributes:
        messages: the new transcript, or the very object that was given when ``noop`` is set.
        noop: why nothing was done, else None.
        tokens_before, tokens_after: of the messages, in this engine's tokens.
        dropped_count, kept_count: how many messages went into the digest, and how many stayed.
        cut: the index of the first message of the tail, 0 when nothing was folded.
        prompt_index: where the newest prompt stood when it was carried over a cut behind it, else None.
        summary: the digest without its header; None when nothing was folded.
        summary_source: who wrote it, and in *fallback_reason* why not the model.
        restored: the files put back, oldest first; *gone* are those that could not be, with the reason.
        microcompacted: how many stale results were blanked; *clipped*, how many bodies were cut down.
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
    restored: tuple[RestoredFile, ...] = ()
    gone: tuple[tuple[FileRange, str], ...] = ()
    microcompacted: int = 0
    clipped: int = 0


def unchanged(messages: Sequence[Message], plan: CompactionPlan, reason: NoOpReason) -> CondenseRecord:
    """Return the record of a compaction that left *messages* as they are."""
    return CondenseRecord(messages, reason, plan.tokens_before, plan.tokens_before, kept_count=len(messages))


def lightened(plan: CompactionPlan) -> CondenseRecord:
    """Return the record of a plan that folds nothing."""
    return _record(plan, plan.tail.messages)


def spans_of(plan: CompactionPlan) -> list[tuple[int, int]]:
    """Return the ranges ``[start, end)`` of what the digest covers, without the digest that is carried.

    Results without a call follow at the end. The newest prompt is among them even where it is kept.
    """
    newest = plan.transcript.ledger.digests(plan.cut)[-1:]
    orphans = [(index, index + 1) for index in plan.transcript.meter.orphans_from(plan.cut)]
    if not newest:
        return [(0, plan.cut), *orphans]
    carried = newest[0].index
    return [(0, carried), (carried + 1, plan.cut), *orphans]


def settle(
    messages: Sequence[Message],
    plan: CompactionPlan,
    digest: ModelDigest,
    files: Sequence[tuple[FileRange, FreshFile]],
) -> CondenseRecord:
    """Return the outcome of *plan* with the model's *digest*, or the local one where that is not to be had.

    Args:
        messages: the input, returned as it is when the outcome would be no smaller.
        plan: a plan that folds.
        digest: what the model answered.
        files: what the plan's candidates hold now, newest first.
    """
    gone = tuple((file, found.reason) for file, found in files if isinstance(found, GoneFile))
    note = _gone_note(gone, plan.digest_tokens)
    failure = digest.failure
    text = _modelled(plan, digest.text) + note if failure is None else ""
    if failure is None and not _fits(plan, _stamped(plan, text)):
        failure = "tooLong"
    if failure is not None:
        text = _local(plan, plan.digest_tokens - tokens_of_chars(len(note))) + note
    outcome = _outcome(plan, _stamped(plan, text), files)
    if outcome.tokens_after >= plan.tokens_before:
        return unchanged(messages, plan, "wouldNotShrink")
    source: SummarySource = "model" if failure is None else "localFallback"
    return replace(outcome, summary=text, summary_source=source, fallback_reason=failure, gone=gone)


def _outcome(
    plan: CompactionPlan, digest: UserMessage, files: Sequence[tuple[FileRange, FreshFile]]
) -> CondenseRecord:
    """Return ``[digest, *restored files, *kept]`` as a record, the files inside what every budget leaves."""
    spent = plan.tail.tokens + estimate_message_tokens(digest)
    limits = [plan.files_tokens, plan.tokens_before - 1 - spent]
    if plan.gate.room is not None:
        limits.append(plan.gate.room - spent)
    restored = restore_files(files, min(limits), max_messages=plan.dropped_count - 2)
    return _record(plan, (digest, *(file.message for file in restored), *plan.tail.messages), restored, spent)


def _record(
    plan: CompactionPlan, messages: Sequence[Message], restored: tuple[RestoredFile, ...] = (), spent: int = 0
) -> CondenseRecord:
    return CondenseRecord(
        messages=tuple(messages),
        noop=None,
        tokens_before=plan.tokens_before,
        tokens_after=(spent or plan.tail.tokens) + sum(file.tokens for file in restored),
        dropped_count=plan.dropped_count,
        kept_count=len(plan.kept),
        cut=plan.cut,
        prompt_index=plan.prompt_index,
        restored=restored,
        microcompacted=plan.tail.blanked_count,
        clipped=plan.tail.clipped_count,
    )


def _modelled(plan: CompactionPlan, text: str) -> str:
    """Return the model's *text* with the user's rules and the evidence that it left out."""
    ledger = plan.transcript.ledger
    carried = carried_into(ledger, plan.cut)
    pinned = with_pinned(text, pinned_rules(ledger, plan.cut, carried))
    spare = plan.digest_tokens - tokens_of_chars(len(pinned))
    return with_evidence(pinned, ledger, plan.cut, carried, max(EVIDENCE_TOKENS, spare))


def _local(plan: CompactionPlan, max_tokens: int) -> str:
    ledger = plan.transcript.ledger
    return ledger_digest(ledger, plan.cut, carried_into(ledger, plan.cut), max_tokens, plan.dropped_count)


def _stamped(plan: CompactionPlan, text: str) -> UserMessage:
    timestamp = newest_timestamp(plan.transcript, plan.cut)
    return digest_message(text, CondenseScope.SESSION, timestamp)


def _fits(plan: CompactionPlan, digest: UserMessage) -> bool:
    after = plan.tail.tokens + estimate_message_tokens(digest)
    return after < plan.tokens_before and (plan.gate.room is None or after <= plan.gate.room)


def _gone_note(gone: Sequence[tuple[FileRange, str]], digest_tokens: int) -> str:
    """Return what the digest says of files that are gone; nothing where that would be most of the digest."""
    if not gone:
        return ""
    note = "\n\nNot restored: " + ", ".join(f"{file.path} ({reason})" for file, reason in gone) + "."
    return note if tokens_of_chars(len(note)) <= digest_tokens * NOTE_SHARE else ""
