"""``summarizing``: the two tiers of the rooms at work in one session.

Old long texts are truncated and the oldest events give way to notes, but only in the view: the stored
conversation stays whole. The notes are kept as the record of their compaction. Each record continues the one
before, and undoing it shows its events again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from sidecar._internal.cancel import CancelToken
from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.window.engines.contract import (
    WOULD_NOT_SHRINK,
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    EngineMarks,
    FreshFile,
    StandingSummary,
    SummaryFailedError,
    View,
)
from sidecar.conductor.window.engines.room import SessionRoom, turns_of
from sidecar.conductor.window.engines.room_scene import PINNED, Scene
from sidecar.conductor.window.engines.room_view import limits_of
from sidecar.llmgateway.channel import collect_reply
from sidecar.llmgateway.contract import Conversation, ModelCard, StreamOptions, TextBlock, UserTurn
from sidecar.rooms import AIContext, AIProvider, AIResponse, RoomEvent
from sidecar.rooms.memory import SUMMARY_MARK
from sidecar.rooms.memory.budget import MemoryLimits, tail_cut
from sidecar.rooms.memory.estimate import chars_within, event_tokens
from sidecar.rooms.memory.plan import RetrievePlan
from sidecar.rooms.memory.prompt import chunk_lines, prompt_budget, summariser_context
from sidecar.rooms.memory.summaries import SUMMARY_OVERHEAD_TOKENS
from sidecar.rooms.memory.summarizer import SummaryProgress, first_prompt, summarize_events
from sidecar.runtime.contract import ModelInvoker
from sidecar.window_budget.text import cut_end

_NO_CARD: Final = NoOp("the model's context window is unknown")
_NO_MODEL: Final = NoOp("no model is at hand to condense with")
_NOTHING: Final = NoOp("there is nothing to condense")
_UNDER: Final = NoOp("the conversation is under the limit")
_NOTES_CUT: Final = "[... {} characters of these notes left out ...]"
_LENGTH_DIGITS: Final = 8
_WORTH_SHARE: Final = 4
"""Notes that are too long stand whole where they free one in so many tokens of the room."""
_FORCED_SHARE: Final = 4
"""A compaction by hand leaves one in so many tokens as it is."""

_LEAST_FOLDED_TOKENS: Final = 50
"""Less than this is not worth a model's notes, which could hardly be shorter."""


class SummarizingEngine:
    """``rooms.memory`` at work in one session, both tiers. The policy is that of ``limits_of``."""

    name: ClassVar[str] = "summarizing"
    marks: ClassVar[EngineMarks] = EngineMarks(summaries=(SUMMARY_MARK,))
    compacts = True
    commits_view = False

    def __init__(self) -> None:
        self._room = SessionRoom()
        self._scene: Scene | None = None

    def apart(self) -> SummarizingEngine:
        """Return a copy, for a thread: a plan looks at every event."""
        copy = SummarizingEngine()
        copy._room = self._room.copy()
        return copy

    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return whether events must give way to notes before the next request."""
        scene = self._look(given, request)
        if scene is None or given.card is None:
            return Gate(given.context_tokens, 0, 0, over=False)
        tokens = scene.shown_tokens
        limit, window = scene.threshold + given.overhead_tokens, given.card.context_window
        return Gate(tokens + given.overhead_tokens, limit, window, scene.is_due)

    def plan(
        self,
        given: EngineInput,
        request: CompactionRequest,
        fresh: Mapping[str, FreshFile] | None = None,
    ) -> CompactionPlan | NoOp:
        """Return which events would give way to notes."""
        due = self._due(given, request)
        if isinstance(due, NoOp):
            return due
        scene, reading = due
        least, folded = _after(scene, reading.to_summarize, ""), reading.to_summarize
        notes = min(scene.limits.summary_max_tokens, sum(map(event_tokens, folded)) // 2)
        kept_tokens = least.shown_tokens - SUMMARY_OVERHEAD_TOKENS
        # With longer notes the rest may be truncated, where it is not beside short ones.
        truncating = replace(scene.limits, tier1_ratio=0.0)
        low = min(least.shown_tokens, _after(scene, folded, "", truncating).sent_tokens())
        # Where notes of full length would save nothing, the compaction may do nothing.
        longest = "x" * chars_within(scene.limits.summary_max_tokens)
        high = scene.shown_tokens - is_smaller(scene, reading, longest)
        return CompactionPlan(
            cut=scene.turn_behind(folded),
            dropped=tuple(
                index for event in folded for index in range(event.index, event.index + len(turns_of(event)))
            ),
            pinned=tuple(_find_pinned_prompt(scene, folded).values()),
            pre_tokens=scene.shown_tokens + given.overhead_tokens,
            dropped_tokens=scene.shown_tokens - kept_tokens,
            kept_tokens=kept_tokens,
            projected_tokens=min(high, least.shown_tokens + notes) + given.overhead_tokens,
            low_tokens=low + given.overhead_tokens,
            high_tokens=high + given.overhead_tokens,
            prompt=partial(first_request_text, given, scene, reading),
        )

    async def compact(
        self, given: EngineInput, request: CompactionRequest, deps: EngineDeps
    ) -> CompactionResult | NoOp:
        """Have notes taken on the events that must give way. Raises SummaryFailedError when none came."""
        due = await asyncio.to_thread(self.apart()._due, given, request)
        if isinstance(due, NoOp):
            return due
        if deps.invoke is None:
            return _NO_MODEL
        scene, reading = due
        provider = InvokerProvider(
            deps.invoke, given.summarizer_card, deps.cancel, wishes=request.instructions
        )
        progress = await summarize_events(
            reading, provider, scene.limits.summary_max_tokens, run=asyncio.to_thread
        )
        deps.cancel.raise_if_cancelled()
        if not progress.n_events:
            raise SummaryFailedError("the model gave no usable summary")
        return await asyncio.to_thread(to_result, given, scene, reading, progress)

    def view(self, given: EngineInput, request: CompactionRequest) -> View:
        """Return the notes, the newest prompt, and the events that nothing covers, the old ones truncated."""
        scene = self._look(given, request)
        if scene is None or (scene.is_roomy and scene.notes is None):
            return View(given.history, is_whole=True)
        return scene.view()

    def _look(self, given: EngineInput, request: CompactionRequest) -> Scene | None:
        """Return the scene as it is now, the last one while nothing has changed."""
        limits = limits_of(given, request)
        if limits is None:
            return None
        self._room.sync(given.history, given.participants())
        if self._scene is None or not self._scene.is_still(limits, given.standing):
            self._scene = Scene(self._room, limits, given.standing)
        return self._scene

    def _due(self, given: EngineInput, request: CompactionRequest) -> tuple[Scene, RetrievePlan] | NoOp:
        """Return the scene and a reading of it that has a cut, or why there is none to be made."""
        scene = self._look(given, request)
        if scene is None:
            return _NO_CARD
        if not request.force:
            return find_due(scene) if scene.is_due else _UNDER
        cut = tail_cut(scene.costs, sum(scene.costs) // _FORCED_SHARE)
        if sum(scene.costs[:cut]) < _LEAST_FOLDED_TOKENS:
            return _NOTHING
        reading = replace(scene.reading, cut=cut)
        return (scene, reading) if is_smaller(scene, reading, "") else WOULD_NOT_SHRINK


def find_due(scene: Scene) -> tuple[Scene, RetrievePlan] | NoOp:
    """Return *scene* and a reading with the first cut at which notes of full length make the view smaller.

    It is the cut that is due, or one of a few further on: where fewer tokens are left, long texts that were
    truncated are shown whole again.
    """
    notes = "x" * chars_within(scene.limits.summary_max_tokens)
    cut, last = scene.cut or 0, len(scene.costs) - 1
    while True:
        reading = replace(scene.reading, cut=cut)
        if is_smaller(scene, reading, notes):
            return scene, reading
        if cut >= last:
            return WOULD_NOT_SHRINK
        cut += (last - cut + 1) // 2


def is_smaller(scene: Scene, reading: RetrievePlan, notes: str) -> bool:
    """Whether the view is smaller once *notes* stand for the events that the cut of *reading* names."""
    return _after(scene, reading.to_summarize, notes).shown_tokens < scene.shown_tokens


def _after(
    scene: Scene, folded: Sequence[RoomEvent], summary: str, limits: MemoryLimits | None = None
) -> Scene:
    """Return *scene* once *summary* stands for *folded* as well; *limits* other than its own count then."""
    standing = StandingSummary(scene.turn_behind(folded), summary, _find_pinned_prompt(scene, folded))
    return Scene(scene.room, limits or scene.limits, standing)


def _find_pinned_prompt(scene: Scene, folded: Sequence[RoomEvent]) -> dict[str, int]:
    """Return the turn of the newest prompt where it stays in front of the cut behind *folded*."""
    prompt = scene.prompt
    is_before = prompt is not None and prompt.index < scene.turn_behind(folded)
    return {PINNED: prompt.index} if prompt is not None and is_before else {}


def to_result(
    given: EngineInput, scene: Scene, reading: RetrievePlan, progress: SummaryProgress
) -> CompactionResult | NoOp:
    """Return the result with the notes of *progress*; NoOp where the view is not smaller."""
    folded = reading.to_summarize[: progress.n_events]
    # A model may write more than it was asked for, and nothing of it is lost where it pays all the same.
    notes, most = progress.summary, chars_within(scene.limits.summary_max_tokens)
    gained = scene.shown_tokens - _after(scene, folded, notes).shown_tokens
    if len(notes) > most and gained < scene.limits.max_context_tokens // _WORTH_SHARE:
        notes = cut_end(notes, max(0, most - len(_NOTES_CUT) - _LENGTH_DIGITS), _NOTES_CUT)
    after, pinned = _after(scene, folded, notes), _find_pinned_prompt(scene, folded)
    if after.shown_tokens >= scene.shown_tokens:
        return WOULD_NOT_SHRINK
    return CompactionResult(
        view=after.view(),
        cut=scene.turn_behind(folded),
        dropped_count=sum(len(turns_of(event)) for event in folded),
        pre_tokens=scene.shown_tokens + given.overhead_tokens,
        post_tokens=after.shown_tokens + given.overhead_tokens,
        summary=notes,
        summary_source="model",
        info=figures_of(scene, after, len(folded), pinned),
    )


def figures_of(scene: Scene, after: Scene, n_folded: int, pinned: dict[str, int]) -> dict[str, Any]:
    return {
        "eventsSummarised": n_folded,
        "eventsKept": len(after.room.events) - after.first + len(pinned),
        "tokensBefore": scene.shown_tokens,
        "tokensAfter": after.shown_tokens,
        "isIncremental": scene.notes is not None,
        **pinned,
    }


def first_request_text(given: EngineInput, scene: Scene, reading: RetrievePlan) -> str:
    """Return the text of the first request to the model."""
    card = given.summarizer_card
    budget = prompt_budget(card.context_window if card is not None else None, scene.limits.summary_max_tokens)
    notes, lines = first_prompt(reading, budget)
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
        # Models that reason refuse a temperature; the notes' own is 0.
        reasons = self._card is not None and self._card.reasoning
        options = StreamOptions(
            cancel=self._cancel,
            temperature=None if reasons else context.temperature,
            max_output_tokens=context.max_tokens,
        )
        reply = await collect_reply(self._invoke(conversation, options), model=self.model_name)
        self._cancel.raise_if_cancelled()
        text = "".join(block.text for block in reply.blocks if isinstance(block, TextBlock))
        usage = {"input": reply.usage.input_tokens, "output": reply.usage.output_tokens}
        return AIResponse(text, finish_reason=reply.stop, usage=usage)
