"""The outcome of a plan: its digest is requested, and both become a transcript, or the input stays as it is.

A result is accepted only if it costs fewer tokens than the input, and fits the room where there is one; a
model's digest that breaks either is replaced by the local one, which was planned to fit. The files to restore
are chosen beside the planned size of the digest, never its actual one. The digest that an earlier compaction
left is carried in a block of its own and not shown as transcript again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

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
from sidecar.window_budget.digest import (
    FRAME_TOKENS,
    OUTPUT_SHARE,
    ModelDigest,
    SummarizeDeps,
    build_chunk_prompt,
    chunk_limits,
    local_fallback_digest,
    request_digest,
    request_digest_in_chunks,
    split_into_chunks,
)
from sidecar.window_budget.estimate import estimate_message_tokens, estimate_tokens
from sidecar.window_budget.message import Message, UserMessage, digest_text
from sidecar.window_budget.plan import BudgetPlan
from sidecar.window_budget.prompt import build_prompt_behind
from sidecar.window_budget.rehydrate import restore_candidates


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
    restored: tuple[UserMessage, ...] = ()
    microcompacted: int = 0
    clipped: int = 0


DigestMaterial: TypeAlias = tuple[list[Sequence[str]], str | None, int | None]
"""See :func:`digest_material`."""


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
    chunks, prior, carried_chars = digest_material(plan, request)
    return build_chunk_prompt(chunks[0], prior or "", carried_chars, request.instructions)


async def request_plan_digest(
    plan: BudgetPlan,
    request: BudgetRequest,
    deps: SummarizeDeps,
    show: Callable[[BudgetPlan, BudgetRequest], Awaitable[DigestMaterial]],
) -> ModelDigest:
    """Return the model's digest of the messages that *plan* drops, or why there is none.

    Args:
        plan: a plan that folds.
        request: the request it was planned for.
        deps: the model call; its ``prior_digest`` is not used here.
        show: calls :func:`digest_material`, which costs the length of the head, where nobody waits for it.
    """
    if (cached := _find_cached(plan, request)) is not None:
        found = await request_digest(build_prompt_behind(request.instructions), deps, cached)
        if found.failure in (None, "cancelled"):
            return found
    chunks, prior, carried_chars = await show(plan, request)
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


def digest_material(plan: BudgetPlan, request: BudgetRequest) -> DigestMaterial:
    """Return the chunks to show, the digest carried into the first, and the size carried ones are cut to.

    Results without a call follow at the end. The newest prompt is shown even where it is kept. After a digest
    that was prepared there are no chunks where it covers all but that prompt.
    """
    transcript, prepared = plan.transcript, request.prepared
    max_bytes, carried_chars = chunk_limits(request.summarizer_card or request.card, request.instructions)
    orphans = [transcript[index] for index in transcript.meter.orphans_from(plan.cut)]
    newest = transcript.meter.digests(plan.cut)[-1:]
    if prepared is not None and prepared.n_messages <= plan.cut:
        has_news = any(index != plan.prompt_index for index in range(prepared.n_messages, plan.cut))
        shown = [*transcript[prepared.n_messages : plan.cut], *orphans] if has_news or orphans else []
        return list(split_into_chunks(shown, max_bytes)), prepared.text, carried_chars
    shown = [*transcript[: plan.cut], *orphans]
    for index in newest:
        del shown[index]
    chunks = list(split_into_chunks(shown, max_bytes)) or [[]]
    return chunks, digest_text(transcript[newest[0]]) if newest else None, carried_chars


def apply_plan(messages: Sequence[Message], plan: BudgetPlan, digest: ModelDigest) -> BudgetResult:
    """Return the result of *plan* with the model's *digest*, or the local one where it cannot be used.

    Args:
        messages: the input, returned as it is when the result would be no smaller.
        plan: a plan that folds.
        digest: the model's answer.
    """
    restored = restore_candidates(plan.candidates, plan.transcript, plan.files_tokens, plan.most_files)
    kept_tokens = plan.tail.tokens + estimate_tokens(restored)
    failure, text, after = digest.failure, digest.text, 0
    if failure is None:
        after = kept_tokens + estimate_message_tokens(_digest_message(plan, text))
        if after > plan.most_tokens_after or (plan.meter.room is not None and after > plan.meter.room):
            failure = "tooLong"
    if failure is not None:
        kept = set(plan.kept)
        dropped = [each for index, each in enumerate(plan.transcript) if index not in kept]
        room = min(plan.most_tokens_after, plan.meter.room or plan.tokens_before)
        text = local_fallback_digest(dropped, None, max(plan.digest_tokens, room - kept_tokens))
        after = kept_tokens + estimate_message_tokens(_digest_message(plan, text))
    if after > plan.most_tokens_after:
        return keep_unchanged(messages, plan, "wouldNotShrink")
    return replace(
        apply_without_digest(plan),
        messages=(_digest_message(plan, text), *restored, *plan.tail.messages),
        tokens_after=after,
        summary=text,
        summary_source="model" if failure is None else "localFallback",
        fallback_reason=failure,
        restored=restored,
    )


def _digest_message(plan: BudgetPlan, text: str) -> UserMessage:
    timestamp = newest_timestamp(plan.transcript, plan.cut)
    return digest_message(text, CondenseScope.SESSION, timestamp)
