"""The runner: a live session's transcript through the whole pipeline, with the model call that engines may
not time.

Plan, digest, result. A model call that fails or hangs in any way
ends in the local digest; a cancelled compaction leaves the transcript as it was. The rules are in
``sidecar.window_budget``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.conductor.bridge import (
    content_to_blocks,
    extend_transcript,
    messages_to_turns,
    turns_to_messages,
)
from sidecar.llmgateway.contract import Turn
from sidecar.runtime.contract import ModelInvoker
from sidecar.window_budget import (
    AUTO_CONDENSE_POLICY,
    BudgetPlan,
    BudgetRequest,
    BudgetResult,
    CondenserDeps,
    DigestMaterial,
    Message,
    ModelDigest,
    RehydrateOpts,
    SummarizeDeps,
    apply_plan,
    apply_without_digest,
    digest_material,
    estimate_tokens,
    keep_unchanged,
    plan_compaction,
    preview_prompt,
    rehydrate_recent_reads,
    request_plan_digest,
)
from sidecar.window_budget.contract import PreparedDigest

__all__ = [
    "CondenseFn",
    "CondenseOpts",
    "IdentityCondense",
    "WindowBudgetCondense",
    "compact_messages",
    "condense_transcript",
    "content_to_blocks",
    "extend_transcript",
    "messages_to_turns",
    "preview_prompt",
    "restore_under_count_guard",
    "turns_to_messages",
]


class CondenseOpts(Value):
    """How to condense.

    *force* is a manual compact, which needs no gate. *model* is the id of the model in use, for bindings that
    look its card up. *context_tokens* is the live occupancy at the gate, 0 for unknown.
    """

    force: bool = False
    model: str | None = None
    context_tokens: int = 0


class CondenseFn(Protocol):
    """Condenses a conversation.

    Contract: never raises; returns the very object it was given when there is nothing to do.
    """

    async def condense(self, messages: Sequence[Turn], opts: CondenseOpts) -> Sequence[Turn]:
        """Return *messages*, or something with fewer tokens."""
        ...


class IdentityCondense:
    """The default binding: a session that is given no engine never condenses.

    >>> import asyncio
    >>> turns = ()
    >>> asyncio.run(IdentityCondense().condense(turns, CondenseOpts(force=True))) is turns
    True
    """

    async def condense(self, messages: Sequence[Turn], opts: CondenseOpts) -> Sequence[Turn]:
        """Return *messages*."""
        return messages


class WindowBudgetCondense:
    """The window budget as a session's :class:`CondenseFn`: turns in, turns out."""

    def __init__(self, deps: CondenserDeps | None = None) -> None:
        self._deps = deps or CondenserDeps()

    async def condense(self, messages: Sequence[Turn], opts: CondenseOpts) -> Sequence[Turn]:
        """Return *messages* condensed, or the very object given when there is nothing to do."""
        bridged = turns_to_messages(messages)
        condensed = await condense_transcript(self._deps, bridged, opts)
        return messages if condensed is bridged else messages_to_turns(condensed)


async def condense_transcript(
    deps: CondenserDeps, messages: Sequence[Message], opts: CondenseOpts
) -> Sequence[Message]:
    """Return *messages* condensed, or the very object given when there is nothing to do.

    The automatic path opens when the estimate or ``opts.context_tokens`` is over the limit of ``deps.card``;
    a forced one needs neither.
    """
    request = BudgetRequest(
        force=opts.force,
        context_tokens=opts.context_tokens,
        policy=deps.policy or AUTO_CONDENSE_POLICY,
        card=deps.card,
    )
    return (await compact_messages(messages, request, invoke=deps.invoke)).messages


async def compact_messages(
    messages: Sequence[Message],
    request: BudgetRequest,
    *,
    invoke: ModelInvoker | None = None,
    deadline_s: float | None = None,
    cancel: CancelToken | None = None,
) -> BudgetResult:
    """Condense *messages* and return the result.

    Costs the length of the tail, the digest and the text for the model when *messages* is a ``Transcript``.

    Args:
        messages: the conversation.
        request: everything the compaction depends on besides.
        invoke: the model that writes the digest; None for the local one.
        deadline_s: how long the model may take altogether, None for as long as it likes.
        cancel: ends the compaction and leaves the transcript as it was.
    """
    plan = plan_compaction(messages, request)
    return await carry_out(
        messages,
        plan,
        request,
        invoke=invoke,
        deadline_s=deadline_s,
        cancel=cancel,
    )


async def carry_out(
    messages: Sequence[Message],
    plan: BudgetPlan,
    request: BudgetRequest,
    *,
    invoke: ModelInvoker | None = None,
    deadline_s: float | None = None,
    cancel: CancelToken | None = None,
) -> BudgetResult:
    """Carry out *plan*, which was made of *messages* and *request*; else as :func:`compact_messages`."""
    if plan.noop is not None:
        return keep_unchanged(messages, plan, plan.noop)
    if plan.cut == 0:
        return apply_without_digest(plan)
    digest = await _ask_for_digest(plan, request, invoke, deadline_s, cancel)
    if cancel is not None and cancel.cancelled:
        return keep_unchanged(messages, plan, "cancelled")
    return await asyncio.to_thread(apply_plan, messages, plan, digest)


async def prepare_digest(
    messages: Sequence[Message],
    request: BudgetRequest,
    *,
    invoke: ModelInvoker,
    deadline_s: float | None = None,
    cancel: CancelToken | None = None,
) -> PreparedDigest | None:
    """Return a model's digest of the messages that condensing would fold now; None where none can be had.

    Args:
        messages: the conversation, under its limit or over it.
        request: everything the compaction depends on besides.
        invoke: the model that writes the digest.
        deadline_s: how long the model may take altogether, None for as long as it likes.
        cancel: ends the work.
    """
    request = replace(request, ahead=True)
    plan = plan_compaction(messages, request)
    if plan.noop is not None or plan.cut == 0:
        return None
    digest = await _ask_for_digest(plan, request, invoke, deadline_s, cancel)
    return None if digest.failure is not None else PreparedDigest(digest.text, plan.cut)


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


async def _ask_for_digest(
    plan: BudgetPlan,
    request: BudgetRequest,
    invoke: ModelInvoker | None,
    deadline_s: float | None,
    cancel: CancelToken | None,
) -> ModelDigest:
    if invoke is None:
        return ModelDigest(failure="noModel")
    token = cancel.child() if cancel is not None else CancelToken()
    deps = SummarizeDeps(invoke, cancel=token)

    async def show(plan: BudgetPlan, request: BudgetRequest) -> DigestMaterial:
        return await asyncio.to_thread(digest_material, plan, request)

    return await _within(lambda: request_plan_digest(plan, request, deps, show), token, deadline_s)


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
        # The running task itself may have been asked to end, and not only the model call it waits for.
        running = asyncio.current_task()
        if not token.cancelled or (running is not None and running.cancelling() > 0):
            raise
        return ModelDigest(failure="cancelled")
    finally:
        unsubscribe()
        token.cancel("the compaction is over")
