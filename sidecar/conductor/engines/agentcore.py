"""``agentcore``: the engine of seed 004 at work in one session.

Its summary stands in the conversation as a ``<context-summary>`` turn, so that the next one updates it. It
tracks which files were read and modified, and restores none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final

from sidecar.agentcore import AgentMessage
from sidecar.agentcore.bridge import messages_to_turns, turns_to_messages
from sidecar.agentcore.invoker import InvokerModel
from sidecar.agentcore.memory import (
    CompactionConfig,
    CompactionInfo,
    CompactionSummary,
    new_compaction,
)
from sidecar.conductor.contract import Gate, Microcompact, NoOp
from sidecar.conductor.engines.base import CompactAsk, Condensed, EnginePlan, Frame, Helpers
from sidecar.llmgateway.contract import Turn

__all__ = ["AgentcoreEngine"]

_NO_CARD: Final = NoOp("the model's context window is unknown")
_NOTHING: Final = NoOp("there is nothing to condense")
_UNDER: Final = NoOp("the conversation is under the limit")
_NO_GAIN: Final = NoOp("the result would not be smaller")
_OVERHEAD_STEP: Final = 256
"""The overhead is taken in steps of this many tokens, so that a prompt's length alone weighs nothing anew."""


class AgentcoreEngine:
    """``agentcore.memory`` at work in one session."""

    name = "agentcore"
    compacts = True

    def __init__(self) -> None:
        self._turns: Sequence[Turn] = ()
        self._n_turns = 0
        self._messages: list[AgentMessage] = []
        self._starts: list[int] = []
        self._key: object = None
        self._compactor = new_compaction(CompactionConfig(None, 0))

    def gate(self, frame: Frame, ask: CompactAsk) -> Gate:
        """Return whether the estimate, or the live occupancy, is over window minus reserve."""
        window = frame.card.context_window if frame.card else 0
        if not window:
            return Gate(frame.context_tokens, 0, 0, over=False)
        seen = self._compactor_for(frame, ask).preview(self._sync(frame.turns))
        tokens = max(seen.tokens, frame.context_tokens)
        return Gate(tokens, seen.limit, window, over=tokens > seen.limit)

    def plan(self, frame: Frame, ask: CompactAsk) -> EnginePlan | NoOp:
        """Return where it would cut."""
        refusal = self._refusal(frame, ask)
        if refusal is not None:
            return refusal
        seen = self._compactor_for(frame, ask).preview(self._sync(frame.turns), force=True)
        plan = seen.plan
        if plan is None:
            return _NOTHING
        return EnginePlan(
            cut=self._turn_at(plan.cut),
            dropped_tokens=plan.dropped_tokens,
            kept_tokens=plan.kept_tokens,
            projected_tokens=plan.projected_tokens + frame.overhead_tokens,
            microcompact=Microcompact(len(plan.shrink), 0),
            rehydrate=(),
        )

    async def condense(self, frame: Frame, ask: CompactAsk, helpers: Helpers) -> Condensed | NoOp:
        """Summarise the head, update an earlier summary, keep the tail."""
        refusal = self._refusal(frame, ask)
        if refusal is not None:
            return refusal
        messages = self._sync(frame.turns)
        cut = self.plan(frame, ask)
        if isinstance(cut, NoOp):
            return cut
        compactor = new_compaction(self._config(frame, ask, helpers))
        done = await compactor.compact_now(messages, ask.instructions)
        if done is None:
            return _NOTHING
        view, info = done
        if info.tokens_after >= info.tokens_before:
            return _NO_GAIN
        return _condensed(frame, cut.cut, view, info)

    def _refusal(self, frame: Frame, ask: CompactAsk) -> NoOp | None:
        if frame.card is None or not frame.card.context_window:
            return _NO_CARD
        return None if ask.force or self.gate(frame, ask).over else _UNDER

    def _sync(self, turns: Sequence[Turn]) -> list[AgentMessage]:
        """Return *turns* as messages; only what is new since the last call is converted."""
        if turns is not self._turns or len(turns) < self._n_turns:
            self._turns, self._n_turns, self._messages, self._starts = turns, 0, [], []
        for turn in turns[self._n_turns :]:
            self._starts.append(len(self._messages))
            self._messages.extend(turns_to_messages((turn,)))
        self._n_turns = len(turns)
        return self._messages

    def _turn_at(self, message_index: int) -> int:
        """Return the turn whose messages begin at *message_index* or after it."""
        for index, start in enumerate(self._starts):
            if start >= message_index:
                return index
        return len(self._starts)

    def _compactor_for(self, frame: Frame, ask: CompactAsk) -> Any:
        """Return the compactor that weighs; another one only when what it depends on has changed."""
        config = self._config(frame, ask, None)
        key = (
            config.context_window,
            config.reserve_tokens,
            config.keep_recent_tokens,
            config.overhead_tokens,
        )
        if key != self._key:
            self._key, self._compactor = key, new_compaction(config)
        return self._compactor

    def _config(self, frame: Frame, ask: CompactAsk, helpers: Helpers | None) -> CompactionConfig:
        model = None
        if helpers is not None and helpers.invoke is not None:
            model = InvokerModel(helpers.invoke, cancel=lambda: helpers.cancel)
        steps = -(-frame.overhead_tokens // _OVERHEAD_STEP)
        return CompactionConfig(
            model,
            frame.card.context_window if frame.card else 0,
            int(ask.policy.get("reserveTokens", 0)),
            int(ask.policy.get("keepRecent", 0)),
            overhead_tokens=steps * _OVERHEAD_STEP,
        )


def _condensed(frame: Frame, cut: int, view: Sequence[AgentMessage], info: CompactionInfo) -> Condensed:
    summary = next((message for message in view if isinstance(message, CompactionSummary)), None)
    return Condensed(
        turns=tuple(messages_to_turns(view)),
        cut=cut,
        dropped_count=info.compacted_count,
        pre_tokens=info.tokens_before,
        post_tokens=info.tokens_after,
        summary=summary.summary if summary is not None else "",
        summary_source="model" if info.summary_source == "model" else "localFallback",
        fallback_reason=None if info.summary_source == "model" else "the model gave no usable summary",
        microcompacted=0,
        restored=(),
        missing=(),
        info=_info(info, summary),
    )


def _info(info: CompactionInfo, summary: CompactionSummary | None) -> Mapping[str, Any]:
    """Return the engine's own record, in the wire's spelling."""
    record: dict[str, Any] = {}
    for spec in fields(info):
        value = getattr(info, spec.name)
        head, *rest = spec.name.split("_")
        name = head + "".join(word.capitalize() for word in rest)
        is_time = isinstance(value, timedelta)
        record[f"{name}Ms" if is_time else name] = round(value.total_seconds() * 1000) if is_time else value
    if summary is not None:
        record |= {"readFiles": list(summary.read_files), "modifiedFiles": list(summary.modified_files)}
    return record
