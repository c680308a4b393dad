"""A memory that keeps another one inside a token budget: truncate first, summarise when that is not enough.

The state is one chain of summaries for each room and channel, and the calls under way. Every event that the
inner memory returns is either in the result or was put whole before the summariser; events that the inner
window leaves behind wait until they are worth a summary. No event is changed and no failure is remembered.

Several retrieves may need the same summary at once. They share one call: the calls of one conversation are
made one after the other, and a retrieve that waited plans anew, unless the call was made for its own plan. A
waiter that is cancelled cancels nobody else; a call without waiters is cancelled.

The summariser is called chunk by chunk, each time with the summary so far. :func:`summarize_events` keeps
nothing and cuts nothing; its caller decides about the summary, and about a failure.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import replace
from functools import partial
from typing import Generic, Literal, TypeAlias, TypeVar

from sidecar._internal.run_work import RunWork, run_now
from sidecar._internal.values import Value
from sidecar.rooms.ai import AIProvider
from sidecar.rooms.events import RoomContext, RoomEvent
from sidecar.rooms.memory.budget import MemoryLimits
from sidecar.rooms.memory.plan import (
    RetrievePlan,
    chain_with_uncovered,
    plan_retrieve,
    view_with_summary,
    view_without_cut,
)
from sidecar.rooms.memory.prompt import (
    PromptBudget,
    PromptLine,
    byte_length,
    chunk_lines,
    prompt_budget,
    summariser_context,
)
from sidecar.rooms.memory.provider import MemoryProvider, MemoryResult
from sidecar.rooms.memory.summaries import (
    EMPTY_SUMMARY,
    SummaryChain,
    append_link,
    summary_body,
    unavailable_summary,
)

MAX_CONVERSATIONS = 200

L = TypeVar("L", bound=Hashable)
T = TypeVar("T")

Conversation: TypeAlias = tuple[str, str | None]
"""A room and the channel of the model: two channels may see different events, so they share no summary."""

EARLIER_SUMMARY_LABEL = "[earlier notes]: "


class SharedCall(Generic[T]):
    """A call under way for *key*. A ``detached`` call returns to its waiters and is not kept."""

    __slots__ = ("detached", "key", "task", "waiters")

    task: asyncio.Task[T]

    def __init__(self, key: str) -> None:
        self.key = key
        self.waiters = 0
        self.detached = False


class SharedCalls(Generic[L, T]):
    """The calls under way, at most one in each lane."""

    def __init__(self) -> None:
        self._lanes: dict[L, SharedCall[T]] = {}
        self._tasks: set[asyncio.Task[T]] = set()

    def current(self, lane: L) -> SharedCall[T] | None:
        """Return the call under way in *lane*, or None."""
        return self._lanes.get(lane)

    def start(
        self, lane: L, key: str, job: Callable[[SharedCall[T]], Coroutine[None, None, T]]
    ) -> SharedCall[T]:
        """Begin a call; :meth:`join` it next.

        Args:
            lane: the lane of the call, which must be free.
            key: names the input of the job.
            job: the work; it receives its own call.
        """
        call: SharedCall[T] = SharedCall(key)
        call.task = asyncio.create_task(job(call))
        self._lanes[lane] = call
        self._tasks.add(call.task)

        def finish(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            self._free(lane, call)
            if not task.cancelled():
                task.exception()  # Retrieved, so that a failure without waiters is not reported as lost.

        call.task.add_done_callback(finish)
        return call

    async def join(self, lane: L, call: SharedCall[T]) -> T | None:
        """Wait for *call* and return its result, or None when :meth:`close` cancelled it.

        Raises the exception of the job.
        """
        call.waiters += 1
        try:
            await asyncio.wait({call.task})
        finally:
            call.waiters -= 1
            if not call.waiters and not call.task.done():
                self._free(lane, call)
                call.task.cancel()
        return None if call.task.cancelled() else call.task.result()

    def detach(self, matches: Callable[[L], bool]) -> None:
        """Free the lanes that *matches* selects; their calls go on for their waiters alone."""
        for lane in [lane for lane in self._lanes if matches(lane)]:
            self._lanes.pop(lane).detached = True

    async def close(self) -> None:
        """Cancel all calls and wait until they have ended; their waiters get None."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _free(self, lane: L, call: SharedCall[T]) -> None:
        call.detached = True
        if self._lanes.get(lane) is call:
            del self._lanes[lane]


class SummarizingMemory(MemoryProvider):
    """Keep the context of *inner* within *max_context_tokens*, with the help of *provider*.

    Args:
        inner: the memory to keep in bounds.
        provider: a light model that writes the summaries; it may fail.
        max_context_tokens: the most that history and current event may cost together, by the rooms' own
            meter. Take off the system prompt and the tools before setting it.
        tier1_ratio: above this share the long texts of the older half of the events are truncated.
        tier2_ratio: above this share the oldest events are summarised.
        truncate_chars: the length to which tier 1 truncates a text, in characters.
        summary_max_tokens: the longest summary to request.
        min_events: tier 2 leaves at least so many events as they are, where they fit at all.
        summary_cache_ttl_seconds: how long a summary is used before the events still at hand are summarised
            anew.
        clock: seconds, ascending; the event loop's time when not given.
        on_error: receives the exceptions of the summariser, which the result only hints at. Contract: never
            raises.
    """

    def __init__(
        self,
        inner: MemoryProvider,
        provider: AIProvider,
        max_context_tokens: int,
        *,
        tier1_ratio: float = 0.5,
        tier2_ratio: float = 0.85,
        truncate_chars: int = 2000,
        summary_max_tokens: int = 1000,
        min_events: int = 5,
        summary_cache_ttl_seconds: float = 1800.0,
        clock: Callable[[], float] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self._inner = inner
        self._provider = provider
        self._limits = MemoryLimits(
            max_context_tokens,
            tier1_ratio=tier1_ratio,
            tier2_ratio=tier2_ratio,
            truncate_chars=truncate_chars,
            summary_max_tokens=summary_max_tokens,
            min_events=min_events,
        )
        self._ttl_seconds = summary_cache_ttl_seconds
        self._clock = clock
        self._on_error = on_error
        self._chains: OrderedDict[Conversation, SummaryChain] = OrderedDict()
        self._calls: SharedCalls[Conversation, str] = SharedCalls()

    @property
    def name(self) -> str:
        """``SummarizingMemory(<inner>)``."""
        return f"SummarizingMemory({self._inner.name})"

    async def retrieve(
        self,
        room_id: str,
        current_event: RoomEvent,
        context: RoomContext,
        *,
        channel_id: str | None = None,
    ) -> MemoryResult:
        """Return the inner memory's result, reduced to the budget; the summariser's failures do not raise."""
        inner = await self._inner.retrieve(room_id, current_event, context, channel_id=channel_id)
        lane = (room_id, channel_id)
        while True:
            plan = plan_retrieve(
                inner,
                context,
                current_event,
                self._chains.get(lane, SummaryChain()),
                limits=self._limits,
                is_fresh=lambda made_at: self._now() - made_at < self._ttl_seconds,
            )
            if plan.cut is None:
                self._keep(lane, chain_with_uncovered(plan))
                return view_without_cut(plan)
            call = self._calls.current(lane)
            if call is None:
                call = self._calls.start(lane, plan.key, partial(self._summarize, lane, plan))
            summary = await self._calls.join(lane, call)
            if call.key == plan.key:
                missing = SummaryProgress(failure="raised")
                return view_with_summary(plan, summary or render_summary(plan, missing))

    async def ingest(self, room_id: str, event: RoomEvent, *, channel_id: str | None = None) -> None:
        """Pass *event* to the inner memory."""
        await self._inner.ingest(room_id, event, channel_id=channel_id)

    async def clear(self, room_id: str) -> None:
        """Forget the summaries of this room and no other, then clear the inner memory."""
        self._calls.detach(lambda lane: lane[0] == room_id)
        for lane in [lane for lane in self._chains if lane[0] == room_id]:
            del self._chains[lane]
        await self._inner.clear(room_id)

    async def close(self) -> None:
        """End the calls under way, then close the inner memory and, even if that fails, the provider."""
        await self._calls.close()
        try:
            await self._inner.close()
        finally:
            await self._provider.close()

    async def _summarize(self, lane: Conversation, plan: RetrievePlan, call: SharedCall[str]) -> str:
        """Have the plan's events summarised, keep the link, and return the text to show for them."""
        progress = await summarize_events(
            plan, self._provider, self._limits.summary_max_tokens, self._on_error
        )
        chain = chain_with_uncovered(plan)
        if progress.n_events:
            events = plan.to_summarize[: progress.n_events]
            covered = {event.id: plan.known.fingerprints[event.id] for event in events}
            chain = append_link(chain, progress.summary, covered, absorbed=plan.priors, now=self._now())
        if not call.detached:
            self._keep(lane, chain)
        return render_summary(plan, progress)

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()

    def _keep(self, lane: Conversation, chain: SummaryChain) -> None:
        """Keep *chain* as the one used last; the conversation quiet for longest makes room."""
        self._chains[lane] = chain
        self._chains.move_to_end(lane)
        while len(self._chains) > MAX_CONVERSATIONS:
            self._chains.popitem(last=False)


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
