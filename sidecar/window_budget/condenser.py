"""The bare condenser: gate, slice and summary tied into one async function.

No microcompact, no rehydrate, no force: those belong to the runner, ``sidecar.conductor.session_ops``.
Seed 001, fact W17.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sidecar.llmgateway.contract import ModelCard
from sidecar.runtime.contract import ModelInvoker
from sidecar.window_budget.budget.gate import is_over_budget
from sidecar.window_budget.budget.slice import plan_slice
from sidecar.window_budget.contract import BudgetPolicy, CondenseScope, Summary
from sidecar.window_budget.message import Message
from sidecar.window_budget.summarize.condense import SummarizeDeps, summarize

__all__ = ["AUTO_CONDENSE_POLICY", "Condenser", "CondenserDeps", "condense", "create_condenser"]

AUTO_CONDENSE_POLICY = BudgetPolicy(trigger_ratio=0.75, keep_recent=6000, reserve_tokens=2048)
"""The one policy that gate and slice share: condense at three quarters of the window, keep 6000 tokens."""

Condenser: TypeAlias = Callable[[Sequence[Message]], Awaitable[Sequence[Message]]]
"""Returns a smaller transcript, or the very object it was given when there is nothing to do. Never raises."""


@dataclass(frozen=True, slots=True)
class CondenserDeps:
    """What a condenser needs, all of it optional.

    Without *invoke* the digest is the local one; without *card* there is no window to be over, so nothing is
    condensed; without *policy* it is :data:`AUTO_CONDENSE_POLICY`.
    """

    invoke: ModelInvoker | None = None
    card: ModelCard | None = None
    policy: BudgetPolicy | None = None


def create_condenser(deps: CondenserDeps | None = None) -> Condenser:
    """Return a condenser: ``[digest, *tail]`` of a transcript over budget, and any other unchanged.

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
        return (summary.message, *plan.kept)

    return condenser


async def condense(messages: Sequence[Message], deps: SummarizeDeps | None = None) -> Summary:
    """Return the digest of a running session's *messages*: :func:`summarize` with the session scope."""
    return await summarize(messages, replace(deps or SummarizeDeps(), scope=CondenseScope.SESSION))
