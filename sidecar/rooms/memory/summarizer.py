"""The calls of the summariser for one plan: chunk by chunk, each with the summary so far.

Pure but for the provider, which is the caller's and is only awaited. It keeps nothing and cuts nothing; the
caller decides about the summary, and about a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from sidecar._internal.run_work import RunWork, run_now
from sidecar._internal.values import Value
from sidecar.rooms.ai import AIProvider
from sidecar.rooms.memory.plan import RetrievePlan
from sidecar.rooms.memory.prompt import (
    PromptBudget,
    PromptLine,
    byte_length,
    chunk_lines,
    prompt_budget,
    summariser_context,
)
from sidecar.rooms.memory.summaries import EMPTY_SUMMARY, summary_body, unavailable_summary

EARLIER_SUMMARY_LABEL = "[earlier notes]: "


class SummaryProgress(Value):
    """A *summary* that covers the first *n_events* of the events to summarise.

    *failure* tells why it does not cover all of them: the provider raised, or gave an empty answer. It is
    None when it covers all.
    """

    summary: str = ""
    n_events: int = 0
    failure: Literal["raised", "empty"] | None = None


async def summarize_events(
    plan: RetrievePlan,
    provider: AIProvider,
    max_tokens: int,
    on_error: Callable[[Exception], None] | None = None,
    run: RunWork = run_now,
) -> SummaryProgress:
    """Show *provider* all events that *plan* has to summarise, and return how far its summary came.

    Args:
        plan: one retrieve; its cut names the events.
        provider: the summariser; its exceptions end the work, and are not raised here.
        max_tokens: the longest answer to request.
        on_error: receives an exception of the provider. Contract: never raises.
        run: does the work that looks at all events.
    """
    budget = prompt_budget(provider.context_window, max_tokens)
    summary, lines = await run(first_prompt, plan, budget)
    n_prior_lines = len(lines) - len(plan.to_summarize)
    progress = SummaryProgress()
    for chunk in await run(chunk_lines, lines, budget.chunk_bytes):
        try:
            response = await provider.generate(summariser_context(chunk.text, summary, budget))
            summary = summary_body(response.content.strip())
        except Exception as error:
            if on_error is not None:
                on_error(error)
            return replace(progress, failure="raised")
        if not summary:
            return replace(progress, failure="empty")
        progress = SummaryProgress(summary, max(0, chunk.n_lines_done - n_prior_lines))
    return progress


def first_prompt(plan: RetrievePlan, budget: PromptBudget) -> tuple[str | None, list[PromptLine]]:
    """Return the summary to begin with, and all lines to be shown.

    Summaries that would take too much of every prompt are put among the lines, ahead of the events: there
    they are divided like any other line.
    """
    summary = "\n\n".join(plan.summaries)
    lines = [plan.known.line(event) for event in plan.to_summarize]
    if byte_length(summary) <= budget.prior_bytes:
        return summary or None, lines
    return None, [*(PromptLine(EARLIER_SUMMARY_LABEL, text) for text in plan.summaries), *lines]


def render_summary(plan: RetrievePlan, progress: SummaryProgress) -> str:
    """Return the text that the view shows for the plan's events.

    It is the new summary, or, after a failure, the summary so far beside a placeholder for the rest.
    """
    if progress.failure is None:
        return progress.summary
    kept = [progress.summary] if progress.n_events else [summary_body(text) for text in plan.summaries]
    missing = unavailable_summary(len(plan.to_summarize) - progress.n_events)
    return "\n\n".join((*kept, EMPTY_SUMMARY if progress.failure == "empty" else missing))
