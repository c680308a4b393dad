"""Automatic compaction: the stateful shell around the engine's pure parts (seed 004, fact A3).

It keeps the compacted view of each conversation it is fed, so that every crossing of the threshold costs
one summary and the next one updates it (failure B-A1). It decides nothing itself, never stores a history,
and never fails a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta

from sidecar.agentcore.breaker import Breaker
from sidecar.agentcore.budget import DEFAULT_KEEP_RECENT_TOKENS, DEFAULT_RESERVE_TOKENS, Budget, fit_budget
from sidecar.agentcore.estimate import estimate_total
from sidecar.agentcore.messages import AgentMessage, ChatModel, CompactionSummary
from sidecar.agentcore.plan import CompactionPlan, plan_compaction
from sidecar.agentcore.summaries import SummarySource, write_summary
from sidecar.agentcore.track import Checkpoint, Track, advance, find_checkpoint, follow

__all__ = ["CompactionConfig", "CompactionInfo", "CompactionPreview", "Compactor", "new_compaction"]

_MAX_CHECKPOINTS = 8


@dataclass(frozen=True, slots=True)
class CompactionInfo:
    """What a finished compaction did. Tokens are plain estimates, counts are messages of the view.

    Attributes:
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
    """How to compact. All sizes in tokens.

    Attributes:
        model: who writes the summaries, usually the agent's own; None switches automatic compaction off.
        context_window: the model's window. There is no default.
        reserve_tokens: headroom for the answer; 0 or less means the default.
        keep_recent_tokens: the least tail that stays verbatim; 0 or less means the default.
        on_compaction: told of each finished compaction, before its view is returned. What it raises is
            ignored.
        overhead_tokens: what each prompt holds beside the messages, the system prompt and the tools'
            schemas; it matters where no usage is reported (failure B-A10).
        summariser_window: the window of *model*, where that is smaller than the agent's own.
    """

    model: ChatModel | None
    context_window: int
    reserve_tokens: int = DEFAULT_RESERVE_TOKENS
    keep_recent_tokens: int = DEFAULT_KEEP_RECENT_TOKENS
    on_compaction: Callable[[CompactionInfo], None] | None = None
    _: KW_ONLY
    overhead_tokens: int = 0
    summariser_window: int | None = None


@dataclass(frozen=True, slots=True)
class CompactionPreview:
    """What the gate sees: tokens of the next prompt, the limit they may reach, and the plan, or None."""

    tokens: int
    limit: int
    window: int
    plan: CompactionPlan | None

    @property
    def is_over_limit(self) -> bool:
        """Whether the next call would find the view too large."""
        return self.tokens > self.limit


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The view after a plan was carried out, and what was condensed, or None where items were only shrunk."""

    view: list[AgentMessage]
    info: CompactionInfo | None


def _utc_now() -> datetime:
    return datetime.now(UTC)


def new_compaction(config: CompactionConfig, *, clock: Callable[[], datetime] = _utc_now) -> Compactor:
    """Return an async ``transform(messages) -> messages`` that compacts a history when it nears its window.

    Feed it the whole history or the view it returned, before every model call; either way a crossing is
    summarised once. *clock* returns aware times.
    """
    return Compactor(config, clock)


class Compactor:
    """The transform of :func:`new_compaction`: ``await compactor(messages)``.

    It may be shared by several conversations: what it remembers is bound to the messages it stands for.
    """

    def __init__(self, config: CompactionConfig, clock: Callable[[], datetime]) -> None:
        self._config = config
        self._clock = clock
        self._budget = fit_budget(config.context_window, config.reserve_tokens, config.keep_recent_tokens)
        writers = min(config.context_window, config.summariser_window or config.context_window)
        self._writers_budget = fit_budget(writers, config.reserve_tokens, config.keep_recent_tokens)
        self._breaker = Breaker()
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
        track = self._follow(messages)
        if self._is_over(track):
            async with self._lock:
                # Another call may have compacted this conversation while this one waited.
                track = self._look_up(messages)
                plan = self._plan(track)
                if plan is not None:
                    model = self._config.model if self._breaker.may_ask() else None
                    return list((await self._carry_out(track, plan, model)).view)
                self._track = track
        return list(track.view) if track.n_covered else messages

    async def compact_now(
        self, messages: Sequence[AgentMessage], instructions: str | None = None
    ) -> tuple[list[AgentMessage], CompactionInfo] | None:
        """Compact *messages* although they fit, or return None when there is nothing to condense.

        The model is asked even while the breaker is open; *instructions* tell it what to heed. Later calls
        of the transform go on from here.

        Raises:
            CancelledByToken: the model's token was cancelled while it wrote; nothing has changed then.
        """
        async with self._lock:
            track = self._look_up(messages)
            plan = self._plan(track, force=True)
            if plan is None:
                return None
            outcome = await self._carry_out(track, plan, self._config.model, instructions or "")
        return (list(outcome.view), outcome.info) if outcome.info else None

    def preview(self, messages: Sequence[AgentMessage], *, force: bool = False) -> CompactionPreview:
        """Return what the next call, or :meth:`compact_now`, would do; no model is asked and nothing changes.

        The plan's indices are those of the view, which is *messages* where no summary stands for a part of
        them.
        """
        track = self._follow(messages)
        tokens = track.tokens(self._config.overhead_tokens)
        return CompactionPreview(
            tokens, self._budget.threshold, self._budget.window, self._plan(track, force=force)
        )

    def _follow(self, messages: Sequence[AgentMessage]) -> Track:
        """Return the track of *messages*: the current one, extended, wherever it is theirs."""
        listed = messages if isinstance(messages, list) else list(messages)
        if self._track is None or not self._track.grows_into(listed):
            self._track = follow(listed, self._checkpoints)
        return self._track

    def _look_up(self, messages: Sequence[AgentMessage]) -> Track:
        """Return a track that no other call extends, behind the checkpoint that is theirs by now."""
        track = self._follow(messages)
        self._track = None
        if find_checkpoint(track.inputs, self._checkpoints) is not track.checkpoint:
            track = follow(track.inputs, self._checkpoints)
        return track

    def _is_over(self, track: Track) -> bool:
        return track.plain > self._budget_for(track).threshold > 0

    def _budget_for(self, track: Track) -> Budget:
        """Return the budget less what prompts hold beside the messages, as usage or the config tell it."""
        overhead = track.tokens(self._config.overhead_tokens) - track.plain
        return self._budget.narrowed(overhead)

    def _plan(self, track: Track, *, force: bool = False) -> CompactionPlan | None:
        return plan_compaction(track.view, self._budget_for(track), force=force, costs=track.costs)

    async def _carry_out(
        self, track: Track, plan: CompactionPlan, model: ChatModel | None, wishes: str = ""
    ) -> _Outcome:
        if plan.cut == 0:
            return _Outcome(self._remember(advance(track, plan, None)), None)
        started = self._clock()
        written = await write_summary(model, track.originals, plan, self._writers_budget, wishes)
        self._breaker = self._breaker.after(asked=model is not None, failed=written.failed)
        before = estimate_total(track.view)
        summary = CompactionSummary(
            written.text, before, written.files.read, written.files.modified, self._clock()
        )
        view = self._remember(advance(track, plan, summary))
        info = CompactionInfo(
            tokens_before=before,
            tokens_after=estimate_total(view),
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
        self._tell(info)
        return _Outcome(view, info)

    def _remember(self, checkpoint: Checkpoint) -> list[AgentMessage]:
        self._checkpoints = [checkpoint, *self._checkpoints[: _MAX_CHECKPOINTS - 1]]
        return checkpoint.view

    def _tell(self, info: CompactionInfo) -> None:
        if self._config.on_compaction is None:
            return
        try:
            self._config.on_compaction(info)
        except Exception:
            # An observer's mistake must not cost the run the compaction it has paid for.
            return
