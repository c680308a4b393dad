"""The documented summary and condenser: one synthetic message in the place of many.

One path serves a running session and an abandoned branch. Nothing here raises for a model's sake: whenever
the model's digest cannot be had, the digest is the local one. Microcompact, restored files and forcing belong
to the runner, ``sidecar.conductor.session_ops``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import ModelCard
from sidecar.runtime.contract import ModelInvoker
from sidecar.window_budget.contract import AUTO_CONDENSE_POLICY, BudgetPolicy, CondenseScope, Summary
from sidecar.window_budget.cut import plan_slice
from sidecar.window_budget.digest import SummarizeDeps, local_fallback_digest, request_digest
from sidecar.window_budget.estimate import estimate_tokens, is_over_budget
from sidecar.window_budget.message import BRANCH_HEADER, DIGEST_HEADER, Message, UserMessage, digest_text
from sidecar.window_budget.prompt import build_summary_prompt

Condenser: TypeAlias = Callable[[Sequence[Message]], Awaitable[Sequence[Message]]]
"""Returns a smaller transcript, or the very object it was given when there is nothing to do. Never raises."""


class CondenserDeps(Value):
    """The dependencies of a condenser, all of them optional.

    Without *invoke* the digest is the local one; without *card* there is no window to be over, so nothing is
    condensed; without *policy* it is :data:`AUTO_CONDENSE_POLICY`.
    """

    invoke: ModelInvoker | None = None
    card: ModelCard | None = None
    policy: BudgetPolicy | None = None


def create_condenser(deps: CondenserDeps | None = None) -> Condenser:
    """Return a condenser: ``[digest, *tail]`` of a transcript over budget, and any other unchanged.

    A digest that is not smaller than the messages it stands for leaves the transcript unchanged as well.

    >>> import asyncio
    >>> from sidecar.window_budget.message import UserMessage
    >>> messages = [UserMessage("hi")]
    >>> asyncio.run(create_condenser()(messages)) is messages
    True
    """
    deps = deps or CondenserDeps()
    policy = deps.policy or AUTO_CONDENSE_POLICY

    async def condenser(messages: Sequence[Message]) -> Sequence[Message]:
        if deps.card is None or not is_over_budget(messages, deps.card, policy):
            return messages
        plan = plan_slice(messages, policy)
        if plan.cut == 0:
            return messages
        summary = await condense(plan.dropped, SummarizeDeps(invoke=deps.invoke))
        is_smaller = estimate_tokens([summary.message]) < estimate_tokens(plan.dropped)
        return (summary.message, *plan.kept) if is_smaller else messages

    return condenser


async def condense(messages: Sequence[Message], deps: SummarizeDeps | None = None) -> Summary:
    """Return the digest of a running session's *messages*: :func:`summarize` with the session scope."""
    return await summarize(messages, replace(deps or SummarizeDeps(), scope=CondenseScope.SESSION))


async def condense_scope(messages: Sequence[Message], deps: SummarizeDeps | None = None) -> Summary:
    """Return the digest of an abandoned branch: :func:`summarize` with the branch scope."""
    return await summarize(messages, replace(deps or SummarizeDeps(), scope=CondenseScope.BRANCH))


async def summarize(messages: Sequence[Message], deps: SummarizeDeps | None = None) -> Summary:
    """Return one synthetic user message that stands for *messages*.

    It is stamped with the header of ``deps.scope``. ``covered_count`` is ``len(messages)``, an earlier digest
    counting one. The newest digest among the messages is carried unless ``deps.prior_digest`` is given.
    """
    deps = deps or SummarizeDeps()
    prior, fresh = deps.prior_digest, messages
    if prior is None:
        for index in range(len(messages) - 1, -1, -1):
            if (prior := digest_text(messages[index])) is not None:
                # Carried in a block of its own, it is not flattened as well.
                fresh = [*messages[:index], *messages[index + 1 :]]
                break
    digest = await request_digest(build_summary_prompt(fresh, deps.scope, prior), deps)
    text = digest.text if digest.failure is None else local_fallback_digest(fresh, prior)
    return Summary(
        message=digest_message(text, deps.scope, newest_timestamp(messages, len(messages))),
        covered_count=len(messages),
        source="model" if digest.failure is None else "localFallback",
        fallback_reason=digest.failure,
    )


def digest_message(text: str, scope: CondenseScope, timestamp: int = 0) -> UserMessage:
    """Return a digest as a message.

    Args:
        text: the digest without its header.
        scope: decides the header.
        timestamp: in epoch milliseconds, 0 for unknown.

    >>> digest_message("# Plan", CondenseScope.SESSION).content
    '[session digest — older turns condensed]\\n\\n# Plan'
    """
    header = DIGEST_HEADER if scope is CondenseScope.SESSION else BRANCH_HEADER
    return UserMessage(f"{header}\n\n{text}", timestamp)


def newest_timestamp(messages: Sequence[Message], before: int) -> int:
    """Return the time of the newest user message before index *before*, in epoch milliseconds, or 0."""
    candidates = (messages[index] for index in range(before - 1, -1, -1))
    return next((message.timestamp for message in candidates if isinstance(message, UserMessage)), 0)
