"""``summarizing``: a model's notes take the place of the oldest events, as in the rooms' memory.

The notes stand at the beginning of the conversation. The next compaction continues them: the model is shown
the notes and the events that came since. Without a model nothing is done.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import ClassVar, Final

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.engine import (
    NO_MODEL,
    NO_WINDOW,
    NOTHING_TO_FOLD,
    UNDER_LIMIT,
    WOULD_NOT_SHRINK,
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    EngineMarks,
    SummaryFailedError,
    compacted_entries,
)
from sidecar.conductor.window.engines.room import RoomCut, RoomEngine, SessionRoom, fit_event, limits_of
from sidecar.llmgateway.channel import collect_reply
from sidecar.llmgateway.contract import (
    Conversation,
    ModelCard,
    StreamOptions,
    TextBlock,
    UserTurn,
    join_texts,
)
from sidecar.rooms import AIContext, AIProvider, AIResponse, EventSource, RoomEvent, TextContent
from sidecar.rooms.memory import SUMMARY_MARK, MemoryResult
from sidecar.rooms.memory.budget import MemoryLimits, tail_cut
from sidecar.rooms.memory.estimate import chars_within, event_tokens, message_tokens
from sidecar.rooms.memory.plan import RetrievePlan, plan_retrieve
from sidecar.rooms.memory.prompt import chunk_lines, prompt_budget, summariser_context
from sidecar.rooms.memory.summaries import (
    SUMMARY_OVERHEAD_TOKENS,
    SummaryChain,
    SummaryLink,
    summary_body,
    summary_message,
)
from sidecar.rooms.memory.summarizing import SummaryProgress, first_prompt, summarize_events
from sidecar.runtime.contract import ModelInvoker
from sidecar.text.clip import cut_end

_NOBODY: Final = RoomEvent(id="", room_id="", source=EventSource("", ""), content=TextContent(""))
_NOTES_CUT: Final = "[... {} characters of these notes left out ...]"
_LENGTH_DIGITS: Final = 8
_WORTH: Final = 2
"""Events are worth notes when they take so many times what the notes may take."""

_WORTH_SHARE: Final = 4
"""Notes that are too long stand whole where they free one in so many tokens of the room."""

_LEFT_SHARE: Final = 2
"""A compaction leaves at most one in so many tokens of the limit, so that the next is not due at once."""

_WINDOW_SHARE: Final = 10
"""A compaction by hand keeps at most one in so many tokens of the window; the chronicle has as many."""

_FORCED_SHARE: Final = 4
"""A compaction by hand leaves one in so many tokens as it is."""

_LEAST_FOLDED_TOKENS: Final = 50
"""Less than this is not worth a model's notes, which could hardly be shorter."""


class _Folding(Value):
    """A compaction: *reading* has the notes so far and the events that new ones are to cover.

    An event that stays takes at most *item_tokens*.
    """

    room: SessionRoom
    limits: MemoryLimits
    reading: RetrievePlan
    item_tokens: int

    @property
    def worth_tokens(self) -> int:
        """The tokens that notes of any length are to free."""
        return self.limits.max_context_tokens // _WORTH_SHARE

    @property
    def before(self) -> int:
        """The tokens of the conversation before it."""
        return self.room.tokens(0)

    def cut_behind(self, folded: Sequence[RoomEvent]) -> RoomCut:
        """Return the events that stay behind notes on *folded*."""
        return RoomCut(self.room, self.room.at_turn(folded[-1].index) + 1, self.item_tokens)


class SummarizingEngine(RoomEngine):
    """``rooms.memory`` at work in one session. The policy is that of ``limits_of``."""

    name: ClassVar[str] = "summarizing"
    marks: ClassVar[EngineMarks] = EngineMarks(summaries=(SUMMARY_MARK,))

    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return whether the second tier is reached, above which the oldest events are summarised."""
        limits = limits_of(given, request)
        if limits is None:
            return Gate(given.context_tokens, 0, 0, over=False)
        own = self.index.of(given.history).tokens(0) + given.overhead_tokens
        tokens = given.context_tokens or own
        limit = limits.tier2_tokens + given.overhead_tokens
        return Gate(tokens, limit, given.window, over=tokens > limit)

    def plan(self, given: EngineInput, request: CompactionRequest) -> CompactionPlan | NoOp:
        """Return which events would give way to notes."""
        found = self._fold(given, request)
        if isinstance(found, NoOp):
            return found
        folded, overhead = found.reading.to_summarize, given.overhead_tokens
        staying = found.cut_behind(folded)
        kept = staying.tokens
        most = message_tokens(summary_message("x" * chars_within(found.limits.summary_max_tokens)))
        notes = min(most, sum(map(event_tokens, folded)) // 2)
        low = kept + message_tokens(summary_message(""))
        return CompactionPlan(
            cut=staying.cut,
            pinned=staying.pinned,
            pre_tokens=found.before + overhead,
            dropped_tokens=found.before - kept,
            kept_tokens=kept,
            projected_tokens=min(found.before, kept + notes) + overhead,
            low_tokens=low + overhead,
            # Longer notes stand whole where they free a part of the room all the same.
            high_tokens=min(found.before, max(kept + most, found.before - found.worth_tokens)) + overhead,
            kept=staying.turns,
            prompt=partial(first_request_text, given, found),
            details=found,
        )

    async def compact(
        self, given: EngineInput, request: CompactionRequest, plan: CompactionPlan, deps: EngineDeps
    ) -> CompactionResult | NoOp:
        """Have notes taken on the oldest events. Raises SummaryFailedError when none came."""
        found: _Folding = plan.details
        if deps.invoke is None:
            return NO_MODEL
        provider = InvokerProvider(
            deps.invoke, given.summarizer_card, deps.cancel, wishes=request.instructions
        )
        progress = await summarize_events(
            found.reading, provider, found.limits.summary_max_tokens, run=asyncio.to_thread
        )
        deps.cancel.raise_if_cancelled()
        if not progress.n_events:
            raise SummaryFailedError("the model gave no usable summary")
        return await asyncio.to_thread(to_result, given, found, progress)

    def _fold(self, given: EngineInput, request: CompactionRequest) -> _Folding | NoOp:
        """Return the compaction of the conversation as it is now, or why there is none to be made."""
        limits = limits_of(given, request)
        if limits is None:
            return NO_WINDOW
        if not self.gate(given, request).over and not request.force:
            return UNDER_LIMIT
        room = self.index.of(given.history)
        notes = limits.summary_max_tokens + SUMMARY_OVERHEAD_TOKENS
        item_tokens = room.share_of_newest(limits.tier2_tokens - notes)
        places = [at for at in range(room.front(), len(room.events)) if at != room.prompt]
        events = [fit_event(room.events[at], item_tokens) for at in places]
        summary = room.summary()
        chain = SummaryChain()
        if summary is not None:
            chain = SummaryChain((SummaryLink(summary_body(summary), {}, partial=True),))
        reading = plan_retrieve(
            MemoryResult(events=events),
            room.context([room.events[at] for at in places], given.participants),
            _NOBODY if room.prompt is None else fit_event(room.events[room.prompt], item_tokens),
            chain,
            limits=limits,
            is_fresh=lambda made_at: True,
        )
        costs = [event_tokens(event) for event in reading.window]
        if request.force:
            most = given.window // _WINDOW_SHARE or sum(costs)
            cut = tail_cut(costs, min(sum(costs) // _FORCED_SHARE, most))
            if sum(costs[:cut]) < _LEAST_FOLDED_TOKENS:
                return NOTHING_TO_FOLD
        else:
            asked = [] if room.prompt is None else [fit_event(room.events[room.prompt], item_tokens)]
            taken = limits.summary_max_tokens + sum(map(event_tokens, asked))
            left = limits.tier2_tokens // _LEFT_SHARE - taken
            worth = bisect_left(list(accumulate(costs)), limits.summary_max_tokens * _WORTH) + 1
            cut = max(tail_cut(costs, left), min(worth, len(costs) - limits.min_events))
        if not 0 < cut <= len(costs):
            return NOTHING_TO_FOLD
        found = _Folding(room, limits, replace(reading, cut=cut), item_tokens)
        staying = found.cut_behind(found.reading.to_summarize)
        return found if staying.tokens < found.before else WOULD_NOT_SHRINK


def to_result(given: EngineInput, found: _Folding, progress: SummaryProgress) -> CompactionResult | NoOp:
    """Return the result with the notes of *progress*; NoOp where the conversation is not smaller."""
    folded = found.reading.to_summarize[: progress.n_events]
    staying = found.cut_behind(folded)
    cut, pinned, kept_tokens = staying.cut, staying.pinned, staying.tokens
    # A model may write more than it was asked for, and nothing of it is lost where it pays all the same.
    notes, most = progress.summary, chars_within(found.limits.summary_max_tokens)
    gained = found.before - kept_tokens - message_tokens(summary_message(notes))
    if len(notes) > most and gained < found.worth_tokens:
        notes = cut_end(notes, max(0, most - len(_NOTES_CUT) - _LENGTH_DIGITS), _NOTES_CUT)
    message = summary_message(notes)
    after = kept_tokens + message_tokens(message)
    if after >= found.before:
        return WOULD_NOT_SHRINK
    turn = UserTurn((TextBlock(str(message.content)),))
    return CompactionResult(
        entries=compacted_entries(given.history, cut, turn, staying.turns(), pinned=pinned),
        cut=cut,
        dropped_count=cut - len(pinned),
        pre_tokens=found.before + given.overhead_tokens,
        post_tokens=after + given.overhead_tokens,
        summary=notes,
        summary_source="model",
        info={
            "eventsSummarised": len(folded),
            "eventsKept": len(staying.events),
            "tokensBefore": found.before,
            "tokensAfter": after,
        },
    )


def first_request_text(given: EngineInput, found: _Folding) -> str:
    """Return the text of the first request to the model."""
    card, most = given.summarizer_card, found.limits.summary_max_tokens
    budget = prompt_budget(card.context_window if card is not None else None, most)
    notes, lines = first_prompt(found.reading, budget)
    piece = chunk_lines(lines, budget.chunk_bytes)[0]
    request = summariser_context(piece.text, notes, budget)
    return "\n\n".join(
        filter(None, (request.system_prompt, *(str(each.content) for each in request.messages)))
    )


class InvokerProvider(AIProvider):
    """The gateway as the light model that takes the rooms' notes, for prompts of text alone.

    *wishes* are the instructions of the user.
    """

    def __init__(
        self, invoke: ModelInvoker, card: ModelCard | None, cancel: CancelToken, wishes: str | None = None
    ) -> None:
        self._invoke = invoke
        self._card = card
        self._cancel = cancel
        self._wishes = wishes

    @property
    def model_name(self) -> str:
        """The model's id, empty where nothing is known of it."""
        return self._card.id if self._card is not None else ""

    @property
    def context_window(self) -> int | None:
        """The model's window in tokens."""
        return self._card.context_window if self._card is not None else None

    async def generate(self, context: AIContext) -> AIResponse:
        """Answer *context*.

        Raises:
            CancelledByToken: the token was cancelled.
            GatewayError: the call failed.
        """
        self._cancel.raise_if_cancelled()
        system = context.system_prompt or ""
        if self._wishes:
            system = f"{system}\n\nThe user wants this heeded: {self._wishes}"
        conversation = Conversation(
            tuple(
                UserTurn((TextBlock(each.content if isinstance(each.content, str) else ""),))
                for each in context.messages
            ),
            system=system or None,
        )
        # ModelRegistry that reason refuse a temperature; the notes' own is 0.
        reasons = self._card is not None and self._card.reasoning
        options = StreamOptions(
            cancel=self._cancel,
            temperature=None if reasons else context.temperature,
            max_output_tokens=context.max_tokens,
        )
        reply = await collect_reply(self._invoke(conversation, options), model=self.model_name)
        self._cancel.raise_if_cancelled()
        text = join_texts(reply.blocks)
        usage = {"input": reply.usage.input_tokens, "output": reply.usage.output_tokens}
        return AIResponse(text, finish_reason=reply.stop, usage=usage)
