"""The outcome of a plan: its digest is requested, and both become a transcript, or the input stays as it is.

A result is accepted only if it costs fewer tokens than the input, and fits the room where there is one; a
model's digest that breaks either is replaced by the local one, which was planned to fit. The files to restore
are chosen beside the planned size of the digest, never its actual one, so that a preview names the very files
that come back. The digest that an earlier compaction left is carried in a block of its own and not shown as
transcript again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sidecar._internal.values import Value
from sidecar.window_budget.condenser import digest_message, newest_timestamp
from sidecar.window_budget.contract import (
    BudgetRequest,
    CachedRequest,
    CondenseScope,
    FallbackReason,
    NoOpReason,
    SummarySource,
)
from sidecar.window_budget.digest_layout import NOT_RESTORED
from sidecar.window_budget.estimate import estimate_message_tokens, tokens_of_chars
from sidecar.window_budget.local_digest import (
    EVIDENCE_TOKENS,
    add_missing_facts,
    add_missing_rules,
    collect_known,
    collect_rules,
    write_local_digest,
)
from sidecar.window_budget.message import DIGEST_HEADER, Message, UserMessage, digest_text
from sidecar.window_budget.model_digest import (
    FRAME_TOKENS,
    OUTPUT_SHARE,
    ModelDigest,
    SummarizeDeps,
    build_chunk_prompt,
    chunk_limits,
    request_digest,
    request_digest_in_chunks,
    split_into_chunks,
)
from sidecar.window_budget.plan import MIN_DIGEST_TOKENS, BudgetPlan
from sidecar.window_budget.prompt import build_prompt_behind
from sidecar.window_budget.rehydrate import (
    FreshContents,
    GoneFile,
    RestoredFiles,
    RestoredRange,
    fresh_files,
    restore_files,
)
from sidecar.window_budget.tool_use import FileRange

CLOSING_FROM_TOKENS = 400
"""A smaller digest has no room for a closing line."""

ROOM_SHARE = 0.875
"""How much of the room is taken at most where a local digest keeps an earlier one whole."""

MISSING_NOTE_SHARE = 0.25
"""How much of a digest the note on files that are gone takes at most."""


class BudgetResult(Value, kw_only=True):
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


def restore_planned_files(plan: BudgetPlan, fresh: FreshContents) -> RestoredFiles:
    """Return the candidates that *plan* restores; the length of the digest has no say in it.

    Args:
        plan: a plan that folds.
        fresh: the files as they are now.
    """
    files = tuple(fresh_files(plan.candidates, plan.transcript, fresh))
    return RestoredFiles(
        restore_files(files, plan.files_tokens, plan.most_files),
        tuple((file, found.reason) for file, found in files if isinstance(found, GoneFile)),
    )


def project_tokens(plan: BudgetPlan, files_tokens: int) -> tuple[int, int]:
    """Return the least and the most tokens that the messages may take once *plan* is carried out.

    Args:
        plan: a plan that does something.
        files_tokens: the tokens of the files that it restores.
    """
    kept = plan.tail.tokens + files_tokens
    if plan.cut == 0:
        return kept, kept
    local, room = kept + plan.digest_tokens, plan.meter.room
    most = plan.most_tokens_after
    if local > most:  # a local digest may then be too long as well, and nothing is done
        most = plan.tokens_before
    elif room is not None:
        most = min(most, max(room, local))
    return kept + estimate_message_tokens(_digest_message(plan, "")), most


def preview_prompt(plan: BudgetPlan, request: BudgetRequest) -> str | None:
    """Return the first prompt that carrying out *plan* would send, or None when it would send none."""
    if plan.noop is not None or plan.cut == 0:
        return None
    if _find_cached(plan, request) is not None:
        return build_prompt_behind(request.instructions)
    chunks, prior, carried_chars = _digest_material(plan, request)
    return build_chunk_prompt(chunks[0], prior or "", carried_chars, request.instructions)


async def request_plan_digest(plan: BudgetPlan, request: BudgetRequest, deps: SummarizeDeps) -> ModelDigest:
    """Return the model's digest of the messages that *plan* drops, or why there is none.

    Args:
        plan: a plan that folds.
        request: the request it was planned for.
        deps: the model call; its ``prior_digest`` is not used here.
    """
    if (cached := _find_cached(plan, request)) is not None:
        found = await request_digest(build_prompt_behind(request.instructions), deps, cached)
        if found.failure in (None, "cancelled"):
            return found
    chunks, prior, carried_chars = _digest_material(plan, request)
    return await request_digest_in_chunks(
        chunks, prior, deps, carried_chars=carried_chars, instructions=request.instructions
    )


def _find_cached(plan: BudgetPlan, request: BudgetRequest) -> CachedRequest | None:
    """Return the conversation behind which the digest is requested, None where the head is shown instead.

    A prepared digest leaves so little to show that the cache saves nothing.
    """
    card = request.card
    if card is None or request.prepared is not None:
        return None
    answer = min(card.max_output_tokens, int(card.context_window * OUTPUT_SHARE))
    fits = plan.meter.estimate.context_tokens + FRAME_TOKENS + answer <= card.context_window
    return request.cached if fits else None


def _digest_material(
    plan: BudgetPlan, request: BudgetRequest
) -> tuple[list[Sequence[str]], str | None, int | None]:
    """Return the chunks to show, the digest carried into the first, and the size carried ones are cut to.

    Results without a call follow at the end. The newest prompt is shown even where it is kept. After a digest
    that was prepared there are no chunks where it covers all but that prompt.
    """
    scrollback = plan.transcript.scrollback
    max_bytes, carried_chars = chunk_limits(request.summarizer_card or request.card, request.instructions)
    spans = [(index, index + 1) for index in plan.transcript.meter.orphans_from(plan.cut)]
    newest, prepared = plan.transcript.meter.digests(plan.cut)[-1:], request.prepared
    if prepared is not None and prepared.n_messages <= plan.cut:
        has_news = any(index != plan.prompt_index for index in range(prepared.n_messages, plan.cut))
        if not (has_news or spans):
            return [], prepared.text, carried_chars
        spans = [(prepared.n_messages, plan.cut), *spans]
        return list(split_into_chunks(scrollback, spans, max_bytes)), prepared.text, carried_chars
    spans = [(0, newest[0]), (newest[0] + 1, plan.cut), *spans] if newest else [(0, plan.cut), *spans]
    chunks = list(split_into_chunks(scrollback, spans, max_bytes))
    return chunks, digest_text(plan.transcript[newest[0]]) if newest else None, carried_chars


def apply_plan(
    messages: Sequence[Message],
    plan: BudgetPlan,
    digest: ModelDigest,
    files: RestoredFiles,
    closing: str = "",
    rules: tuple[str, ...] | None = None,
) -> BudgetResult:
    """Return the result of *plan* with the model's *digest*, or the local one where it cannot be used.

    Args:
        messages: the input, returned as it is when the result would be no smaller.
        plan: a plan that folds.
        digest: the model's answer.
        files: the files to put back, within the tokens that the plan leaves them.
        closing: the last line of a digest that is not among the smallest.
        rules: the rules of the user that hold; None to take them from the messages.
    """
    restored, gone, note = files.ranges, files.gone, ""
    if gone:
        note = f"\n\n{NOT_RESTORED}" + ", ".join(f"{file.path} ({reason})" for file, reason in gone) + "."
        most = min(plan.digest_tokens * MISSING_NOTE_SHARE, plan.digest_tokens - MIN_DIGEST_TOKENS)
        if tokens_of_chars(len(note)) > most:
            note = ""
    if closing and plan.digest_tokens >= CLOSING_FROM_TOKENS:
        note += f"\n\n{closing}"
    failure = digest.failure
    known = replace(collect_known(plan.transcript, plan.cut, closing=closing), rules=rules)
    kept_tokens = plan.tail.tokens + sum(file.tokens for file in restored)
    text = ""
    if failure is None:
        text = add_missing_rules(digest.text, collect_rules(known, plan.digest_tokens))
        evidence = evidence_tokens(plan, kept_tokens, DIGEST_HEADER + text + note)
        text = add_missing_facts(text, known, evidence) + note
        after = kept_tokens + estimate_message_tokens(_digest_message(plan, text))
        if after > plan.most_tokens_after or (plan.meter.room is not None and after > plan.meter.room):
            failure = "tooLong"
    if failure is not None:
        max_tokens = plan.digest_tokens - tokens_of_chars(len(note))
        room = min(plan.most_tokens_after, int((plan.meter.room or plan.tokens_before) * ROOM_SHARE))
        most_tokens = max(max_tokens, room - kept_tokens - tokens_of_chars(len(note)))
        text = write_local_digest(known, plan.dropped_count, max_tokens, most_tokens) + note
    message = _digest_message(plan, text)
    tokens_after = kept_tokens + estimate_message_tokens(message)
    if tokens_after > plan.most_tokens_after:
        return keep_unchanged(messages, plan, "wouldNotShrink")
    return replace(
        apply_without_digest(plan),
        messages=(message, *(file.message for file in restored), *plan.tail.messages),
        tokens_after=tokens_after,
        summary=text,
        summary_source="model" if failure is None else "localFallback",
        fallback_reason=failure,
        restored=restored,
        gone=gone,
    )


def evidence_tokens(plan: BudgetPlan, kept_tokens: int, text: str) -> int:
    """Return how many tokens of facts may follow a model's digest: at least half of the planned size."""
    taken = tokens_of_chars(len(text))
    wanted = max(EVIDENCE_TOKENS, plan.digest_tokens // 2, plan.digest_tokens - taken)
    if plan.meter.room is None:
        return wanted
    return max(0, min(wanted, plan.meter.room - kept_tokens - taken - MIN_DIGEST_TOKENS))


def _digest_message(plan: BudgetPlan, text: str) -> UserMessage:
    timestamp = newest_timestamp(plan.transcript, plan.cut)
    return digest_message(text, CondenseScope.SESSION, timestamp)
