"""The runner: a live session's transcript through the whole pipeline, with the model call that engines may
not time.

Plan, digest, files as they are now, settle. Every way in which the model call can go wrong, hanging included,
ends in the local digest; a cancelled compaction leaves the transcript as it was. Decides nothing itself: the
rules are in ``sidecar.window_budget``. Seed 001, facts W18 to W20.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar.conductor.bridge import (
    content_to_blocks,
    extend_transcript,
    messages_to_turns,
    turns_to_messages,
)
from sidecar.llmgateway.contract import ModelCard
from sidecar.window_budget import (
    CompactionPlan,
    CondenserDeps,
    CondenseRecord,
    FileRange,
    FreshFiles,
    Message,
    PlanOptions,
    RehydrateOpts,
    SummarizeDeps,
    plan_compaction,
    rehydrate_recent_reads,
    settle,
)
from sidecar.window_budget.budget.estimate import estimate_tokens
from sidecar.window_budget.condenser import AUTO_CONDENSE_POLICY
from sidecar.window_budget.rehydrate import Resolve, fresh_files
from sidecar.window_budget.settle import lightened, spans_of, unchanged
from sidecar.window_budget.summarize.condense import ModelDigest
from sidecar.window_budget.summarize.pieces import (
    ask_in_pieces,
    piece_bytes,
    piece_prompt,
    split_scrollback,
)

if TYPE_CHECKING:
    from sidecar.conductor.condense import CondenseOpts

__all__ = [
    "CondenseRun",
    "FreshReader",
    "condense_transcript",
    "condense_with_record",
    "content_to_blocks",
    "extend_transcript",
    "messages_to_turns",
    "plan_options",
    "preview_prompt",
    "restore_under_count_guard",
    "turns_to_messages",
]


FreshReader: TypeAlias = Callable[[Sequence[FileRange]], FreshFiles | Awaitable[FreshFiles]]
"""Reads files as they are now. Contract: never raises; what cannot be read is a ``GoneFile``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CondenseRun:
    """One compaction, beyond what :class:`CondenserDeps` say.

    Attributes:
        force: condense whatever the gate says.
        context_tokens: live occupancy as the provider reported it, 0 for unknown.
        overhead_tokens: system prompt and tool schemas, in the engine's tokens.
        instructions: what the user asked of the digest.
        fresh: the files as they are now, or who reads them once the digest is written. What it does not
            have is restored from the transcript, unless it was changed since.
        resolve: makes spellings of a path one.
        rehydrate: what may be restored.
        summarizer_card: the model that writes the digest; None when it is the session's own.
        max_summary_tokens: caps the model's output; None leaves it to the provider.
        deadline_s: how long the model may take altogether, None for as long as it likes.
        cancel: ends the compaction and leaves the transcript as it was.
    """

    force: bool = False
    context_tokens: int = 0
    overhead_tokens: int = 0
    instructions: str | None = None
    fresh: FreshReader | FreshFiles = field(default_factory=dict)
    resolve: Resolve | None = None
    rehydrate: RehydrateOpts = field(default_factory=RehydrateOpts)
    summarizer_card: ModelCard | None = None
    max_summary_tokens: int | None = None
    deadline_s: float | None = None
    cancel: CancelToken | None = None


async def condense_transcript(
    deps: CondenserDeps, messages: Sequence[Message], opts: CondenseOpts
) -> Sequence[Message]:
    """Return *messages* condensed, or the very object given when there is nothing to do.

    The automatic path opens when the estimate or ``opts.context_tokens`` is over the limit of ``deps.card``;
    a forced one needs neither.
    """
    record = await condense_with_record(
        deps, messages, CondenseRun(force=opts.force, context_tokens=opts.context_tokens)
    )
    return record.messages


async def condense_with_record(
    deps: CondenserDeps, messages: Sequence[Message], run: CondenseRun
) -> CondenseRecord:
    """Condense *messages* and return the full record of what was done.

    Costs the length of the tail, the digest and what the model is shown when *messages* is a ``Transcript``.
    """
    plan = plan_compaction(messages, plan_options(deps, run))
    if plan.noop is not None:
        return unchanged(messages, plan, plan.noop)
    if plan.cut == 0:
        return lightened(plan)
    digest = await _ask(deps, plan, run)
    if run.cancel is not None and run.cancel.cancelled:
        return unchanged(messages, plan, "cancelled")
    fresh = await _fresh(plan, run)
    return settle(messages, plan, digest, tuple(fresh_files(plan.candidates, plan.transcript, fresh)))


def plan_options(deps: CondenserDeps, run: CondenseRun) -> PlanOptions:
    """Return what :func:`plan_compaction` needs to preview *run*."""
    return PlanOptions(
        force=run.force,
        context_tokens=run.context_tokens,
        overhead_tokens=run.overhead_tokens,
        policy=deps.policy or AUTO_CONDENSE_POLICY,
        card=deps.card,
        rehydrate=run.rehydrate,
        resolve=run.resolve,
    )


def preview_prompt(deps: CondenserDeps, plan: CompactionPlan, run: CondenseRun) -> str | None:
    """Return the first prompt that carrying out *plan* would send, or None when it would send none."""
    if plan.noop is not None or plan.cut == 0:
        return None
    pieces, prior, carried_chars = _material(deps, plan, run)
    return piece_prompt(pieces[0], prior or "", carried_chars, run.instructions)


def restore_under_count_guard(
    dropped: Sequence[Message],
    kept: Sequence[Message],
    opts: RehydrateOpts | None = None,
    digest_tokens: int = 0,
) -> tuple[Message, ...]:
    """Return the dropped reads worth restoring such that the outcome is smaller than the input.

    With one digest for all of *dropped*, the restored messages stay fewer than ``len(dropped) - 1`` and, with
    *digest_tokens* for the digest, cheaper than *dropped*. Oldest first; the oldest gives way.
    """
    opts = opts or RehydrateOpts()
    room = min(opts.token_budget, estimate_tokens(dropped) - digest_tokens - 1)
    max_files = min(opts.max_files, max(0, len(dropped) - 2))
    restored = rehydrate_recent_reads(dropped, kept, replace(opts, max_files=max_files, token_budget=room))
    while restored and (len(restored) > len(dropped) - 2 or estimate_tokens(restored) > room):
        restored = restored[1:]
    return restored


async def _fresh(plan: CompactionPlan, run: CondenseRun) -> FreshFiles:
    if isinstance(run.fresh, Mapping):
        return run.fresh
    found = run.fresh([candidate.file for candidate in plan.candidates])
    return found if isinstance(found, Mapping) else await found


async def _ask(deps: CondenserDeps, plan: CompactionPlan, run: CondenseRun) -> ModelDigest:
    """Return the model's digest of what *plan* drops, or why there is none."""
    if deps.invoke is None:
        return ModelDigest(failure="noModel")
    pieces, prior, carried_chars = _material(deps, plan, run)
    token = run.cancel.child() if run.cancel is not None else CancelToken()
    asking = SummarizeDeps(deps.invoke, cancel=token, max_tokens=run.max_summary_tokens)

    async def answer() -> ModelDigest:
        return await ask_in_pieces(
            pieces, prior, asking, carried_chars=carried_chars, instructions=run.instructions
        )

    return await _within(answer, token, run.deadline_s)


def _material(
    deps: CondenserDeps, plan: CompactionPlan, run: CondenseRun
) -> tuple[list[Sequence[str]], str | None, int | None]:
    """Return the pieces to show, the digest carried into the first, and the size carried ones are cut to."""
    ledger = plan.transcript.ledger
    max_bytes, carried_chars = piece_bytes(run.summarizer_card or deps.card, run.instructions)
    newest = ledger.digests(plan.cut)[-1:]
    pieces = list(split_scrollback(ledger, spans_of(plan), max_bytes))
    return pieces, newest[0].text if newest else None, carried_chars


async def _within(
    answer: Callable[[], Awaitable[ModelDigest]], token: CancelToken, deadline_s: float | None
) -> ModelDigest:
    """Return *answer*, or the reason why it was not waited for: the deadline, or a cancelled *token*.

    The token is cancelled either way, so that a model call which polls it instead of yielding ends too.
    """
    task = asyncio.ensure_future(answer())
    loop = asyncio.get_running_loop()

    def stop() -> None:
        loop.call_soon_threadsafe(task.cancel)

    unsubscribe = token.add_callback(stop)
    try:
        async with asyncio.timeout(deadline_s):
            return await task
    except TimeoutError:
        return ModelDigest(failure="deadline")
    except asyncio.CancelledError:
        if not token.cancelled or _is_cancelling():
            raise
        return ModelDigest(failure="cancelled")
    finally:
        unsubscribe()
        token.cancel("the compaction is over")


def _is_cancelling() -> bool:
    """Whether the running task itself was asked to end, as opposed to the model call it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
