"""Automatic compaction: the stateful shell around the pure parts of this engine.

The problem: the agent loop calls a transform before every model call, with a history that only grows, and
stores none of the results. The shell remembers the compacted view of each conversation it is given, so that
every crossing of the threshold costs one summary and the next one updates it. It is made of small steps::

    follow the history (view) -> over the limit? -> plan (plan) -> summary (summaries) -> checkpoint (view)

A model that fails costs a local digest, never the run. After three failures in a row only every fifth
crossing calls it again, until it answers: a count, no clock.

It decides nothing itself and stores no history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from sidecar._internal.breaker import Breaker
from sidecar._internal.run_work import RunWork, run_now
from sidecar._internal.values import Value
from sidecar.agentcore.estimate import estimate_total
from sidecar.agentcore.files import OWN_TOOLS, EffectsOf
from sidecar.agentcore.messages import AgentMessage, ChatModel, CompactionSummary
from sidecar.agentcore.plan import (
    DEFAULT_KEEP_RECENT_TOKENS,
    DEFAULT_RESERVE_TOKENS,
    Budget,
    CutPlan,
    fit_budget,
    plan_compaction,
)
from sidecar.agentcore.summaries import SummarySource, write_summary
from sidecar.agentcore.view import Checkpoint, Track, find_checkpoint, make_checkpoint, start_track

_MAX_CHECKPOINTS = 8


class CompactionInfo(Value, kw_only=True):
    """The record of a finished compaction. Tokens are plain estimates, counts are messages of the view.

    Attributes:
        tokens_before: the view before.
        tokens_after: the view after.
        messages_before: messages of the view before.
        messages_after: messages of the view after, the summary among them.
        compacted_count: messages condensed, an earlier summary counted as one.
        kept_count: messages retained.
        is_split_turn: whether a turn's beginning was condensed apart from the turns before it.
        is_incremental: whether an earlier summary was updated.
        summary_len: length of the summary in characters, file sections included.
        duration: wall time, the model's calls included.
        summary_source: ``model``, or ``local`` where the model did not write all of it.
    """

    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    compacted_count: int
    kept_count: int
    is_split_turn: bool
    is_incremental: bool
    summary_len: int
    duration: timedelta
    summary_source: SummarySource = "model"


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """The settings of automatic compaction. All sizes in tokens.

    Attributes:
        model: the writer of summaries, usually the agent's own; None switches automatic compaction off.
        context_window: the model's window. There is no default.
        reserve_tokens: headroom for the answer; 0 or less means the default.
        keep_recent_tokens: the least tail that stays verbatim; 0 or less means the default.
        on_compaction: receives the record of each finished compaction, before its view is returned. Its
            exceptions are ignored.
        overhead_tokens: the size of each prompt beside the messages, the system prompt and the tools'
            schemas; it matters where no usage is reported.
        summariser_window: the window of *model*, where that is smaller than the agent's own.
        effects_of: looks up the effects of a tool by its name.
        run: calls the functions that look at every message, to plan and to write; here, or in a thread.
    """

    model: ChatModel | None
    context_window: int
    reserve_tokens: int = DEFAULT_RESERVE_TOKENS
    keep_recent_tokens: int = DEFAULT_KEEP_RECENT_TOKENS
    on_compaction: Callable[[CompactionInfo], None] | None = None
    _: KW_ONLY
    overhead_tokens: int = 0
    summariser_window: int | None = None
    effects_of: EffectsOf = OWN_TOOLS
    run: RunWork = run_now


class CompactionPreview(Value):
    """The next compaction before it is made: tokens of the next prompt, their limit, and any plan."""

    tokens: int
    limit: int
    window: int
    plan: CutPlan | None


def new_compaction(
    config: CompactionConfig, *, clock: Callable[[], datetime] | None = None, breaker: Breaker | None = None
) -> HistoryCompactor:
    """Return an async ``transform(messages) -> messages`` that compacts a history when it nears its window.

    Call it with the whole history or with the view it returned, before every model call; either way a
    crossing is summarised once. *clock* returns aware times; without one the system's is used. *breaker* goes
    on from the failures of an earlier compactor.
    """
    return HistoryCompactor(config, clock or partial(datetime.now, UTC), breaker or Breaker())


class HistoryCompactor:
    """The transform of :func:`new_compaction`: ``await compactor(messages)``.

    It may be shared by several conversations: each checkpoint is bound to the messages it stands for.
    *breaker* counts the failures of the model.
    """

    def __init__(self, config: CompactionConfig, clock: Callable[[], datetime], breaker: Breaker) -> None:
        self._config = config
        self._clock = clock
        self._budget = fit_budget(config.context_window, config.reserve_tokens, config.keep_recent_tokens)
        summariser_window = min(config.context_window, config.summariser_window or config.context_window)
        self._summariser_budget = fit_budget(
            summariser_window, config.reserve_tokens, config.keep_recent_tokens
        )
        self.breaker = breaker
        self._checkpoints: list[Checkpoint] = []
        self._track: Track | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, messages: Sequence[AgentMessage]) -> Sequence[AgentMessage]:
        """Return the view of *messages* to send: the very object given when there is nothing to do.

        Raises:
            CancelledByToken: the model's token was cancelled while it wrote; nothing has changed then.
        """
        if self._config.model is None or not messages:
            return messages
        run = self._config.run
        track = await run(self._follow, messages)
        if track.plain > self._budget_for(track).threshold > 0:
            async with self._lock:
                # Another call may have compacted this conversation while this one waited.
                track = await run(self._detach_track, messages)
                plan = await run(self._plan, track)
                if plan is not None:
                    model = self._config.model if self.breaker.may_call() else None
                    view, _ = await self._carry_out(track, plan, model)
                    return list(view)
                self._track = track
        return list(track.view) if track.n_covered else messages

    async def compact_now(
        self,
        messages: Sequence[AgentMessage],
        instructions: str | None = None,
        *,
        heeds_breaker: bool = False,
    ) -> tuple[list[AgentMessage], CompactionInfo] | None:
        """Compact *messages* although they fit, or return None when there is nothing to condense.

        The model is called even while the breaker is open, unless *heeds_breaker*; *instructions* are the
        user's for this summary.
        Later calls of the transform go on from here.

        Raises:
            CancelledByToken: the model's token was cancelled while it wrote; nothing has changed then.
        """
        async with self._lock:
            track = await self._config.run(self._detach_track, messages)
            plan = await self._config.run(self._plan, track, force=True)
            if plan is None:
                return None
            may_call = not heeds_breaker or self.breaker.may_call()
            model = self._config.model if may_call else None
            view, info = await self._carry_out(track, plan, model, instructions or "")
        return (list(view), info) if info else None

    def preview(self, messages: Sequence[AgentMessage], *, force: bool = False) -> CompactionPreview:
        """Return the plan of the next call, or of :meth:`compact_now`; no model is called, nothing changes.

        The plan's indices count messages of the view, which is *messages* itself before the first summary.
        """
        track = self._follow(messages)
        tokens = track.tokens(self._config.overhead_tokens)
        return CompactionPreview(
            tokens, self._budget.threshold, self._budget.window, self._plan(track, force=force)
        )

    def _follow(self, messages: Sequence[AgentMessage]) -> Track:
        """Return the track of *messages*: the current one, extended, wherever it is theirs."""
        listed = messages if isinstance(messages, list) else list(messages)
        if self._track is None or not self._track.extend_to(listed):
            self._track = start_track(listed, self._checkpoints)
        return self._track

    def _detach_track(self, messages: Sequence[AgentMessage]) -> Track:
        """Return a track that no other call extends, behind the checkpoint that is theirs by now."""
        track = self._follow(messages)
        self._track = None
        if find_checkpoint(track.inputs, self._checkpoints) is not track.checkpoint:
            track = start_track(track.inputs, self._checkpoints)
        return track

    def _budget_for(self, track: Track) -> Budget:
        """Return the budget without the overhead of each prompt, as usage or the config gives it."""
        return self._budget.narrow(track.tokens(self._config.overhead_tokens) - track.plain)

    def _plan(self, track: Track, *, force: bool = False) -> CutPlan | None:
        return plan_compaction(track.view, self._budget_for(track), force=force, costs=track.costs)

    async def _carry_out(
        self, track: Track, plan: CutPlan, model: ChatModel | None, wishes: str = ""
    ) -> tuple[list[AgentMessage], CompactionInfo | None]:
        """Return the view after *plan*, and the record, or None where items were only shrunk."""
        run = self._config.run
        if plan.cut == 0:
            return self._remember(await run(make_checkpoint, track, plan, None)), None
        started = self._clock()
        written = await write_summary(
            model,
            track.originals,
            plan,
            self._summariser_budget,
            wishes=wishes,
            effects_of=self._config.effects_of,
            run=run,
        )
        self.breaker = self.breaker.after(called=model is not None, failed=written.failed)
        before = await run(estimate_total, track.view)
        summary = CompactionSummary(
            written.text, before, written.files.read, written.files.modified, self._clock(), written.unread
        )
        view = self._remember(await run(make_checkpoint, track, plan, summary))
        info = CompactionInfo(
            tokens_before=before,
            tokens_after=await run(estimate_total, view),
            messages_before=len(track.view),
            messages_after=len(view),
            compacted_count=plan.dropped_count,
            kept_count=plan.kept_count,
            is_split_turn=plan.is_split_turn,
            is_incremental=plan.is_incremental,
            summary_len=len(written.text),
            duration=self._clock() - started,
            summary_source=written.source,
        )
        if self._config.on_compaction is not None:
            with suppress(Exception):  # An observer's mistake must not cost the compaction it was paid for.
                self._config.on_compaction(info)
        return view, info

    def _remember(self, checkpoint: Checkpoint) -> list[AgentMessage]:
        self._checkpoints = [checkpoint, *self._checkpoints[: _MAX_CHECKPOINTS - 1]]
        return checkpoint.view
