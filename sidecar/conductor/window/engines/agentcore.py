"""``agentcore``: the engine of ``sidecar.agentcore`` at work in one session.

Its summary stands in the conversation as a ``<context-summary>`` turn, so that the next one updates it. It
tracks which files were read and modified; the host restores them. While the model fails, local digests take
the place of its summaries; the next summary of a model is made of the messages behind them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from functools import partial, reduce
from typing import Any, ClassVar, Final

from msgspec import Struct, field

from sidecar._internal.breaker import Breaker
from sidecar._internal.values import Value
from sidecar.agentcore import SUMMARY_MARK, AgentMessage
from sidecar.agentcore.estimate import cost_in_prompt
from sidecar.agentcore.files import split_sections
from sidecar.agentcore.gateway import InvokerModel, messages_to_turns, turns_to_messages
from sidecar.agentcore.memory import (
    Budget,
    CompactionConfig,
    CompactionInfo,
    CompactionSummary,
    CutPlan,
    HistoryCompactor,
    fit_budget,
    new_compaction,
)
from sidecar.agentcore.messages import Unread
from sidecar.agentcore.summaries import LOCAL_HEADING, serialize_parts
from sidecar.agentcore.view import shrink_message
from sidecar.conductor.contract import Gate, Microcompact, NoOp
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
    SessionEngine,
    compacted_entries,
)
from sidecar.conversation import Entry, History, Index
from sidecar.llmgateway.contract import TextBlock, Turn, UserTurn
from sidecar.text.calls import ANYTHING

_LEAST_GAIN: Final = 20
"""An automatic compaction saves at least one in so many tokens: it costs a call and the provider's cache."""


class _Messages(Struct):
    """A history as messages of the engine, with the first message of each entry and the tokens of all."""

    messages: list[AgentMessage] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    tokens: int = 0

    def add(self, entry: Entry, in_view: bool) -> _Messages:
        """Convert and weigh one entry."""
        is_summary = entry.kind == "summary"
        turns: Sequence[Turn] = (entry.turn,)
        if is_summary:  # the chronicle behind the note is a message of its own
            turns = [UserTurn((block,)) for block in entry.turn.blocks if isinstance(block, TextBlock)]
        new = turns_to_messages(turns, self.names, parses_summaries=is_summary)
        self.starts.append(len(self.messages))
        self.messages.extend(new)
        self.tokens += sum(map(cost_in_prompt, new))
        return self

    def copy(self) -> _Messages:
        """Return the same messages, which grow by themselves."""
        return _Messages([*self.messages], [*self.starts], {**self.names}, self.tokens)


class _Planned(Value):
    """The messages of a plan, and whether the engine must be forced to carry it out."""

    messages: Sequence[AgentMessage]
    is_forced: bool


class AgentcoreEngine(SessionEngine):
    """``agentcore.memory`` at work in one session.

    The policy names ``reserveTokens`` or ``triggerRatio``, and ``keepRecent``.
    """

    name: ClassVar[str] = "agentcore"
    marks: ClassVar[EngineMarks] = EngineMarks(summaries=(SUMMARY_MARK,))

    def __init__(self) -> None:
        self.index: Index[_Messages] = Index(_Messages, _Messages.add)
        self._synced = _Messages()
        self._breaker = Breaker()

    def apart(self) -> AgentcoreEngine:
        """Return a copy, for a thread: a plan looks at every message."""
        copy = AgentcoreEngine()
        copy.index, copy._breaker = self.index.apart(_Messages.copy), self._breaker
        return copy

    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return whether the next request is over window minus reserve."""
        budget = _budget(given, request)
        if budget is None:
            return Gate(given.context_tokens, 0, 0, over=False)
        self._sync(given.history)
        tokens = given.context_tokens or self._synced.tokens + given.overhead_tokens
        # Where the overhead alone is near the threshold, a part of that stays the conversation's.
        limit = budget.narrow(given.overhead_tokens).threshold + given.overhead_tokens
        return Gate(tokens, limit, budget.window, over=tokens > limit)

    def weigh(self, entries: Sequence[Entry]) -> int:
        """Return the tokens of *entries*."""
        return reduce(lambda messages, entry: messages.add(entry, True), entries, _Messages()).tokens

    def plan(self, given: EngineInput, request: CompactionRequest) -> CompactionPlan | NoOp:
        """Return where it would cut."""
        refusal = self._refusal(given, request)
        if refusal is not None:
            return refusal
        own = with_unread(self._sync(given.history), given.history, self._turn_at)
        plan, is_forced = self._plan(own, request, new_compaction(_config(given, request)))
        if plan is None:
            return NOTHING_TO_FOLD
        messages, cut, pinned = self._synced.messages, self._turn_at(plan.cut), self._find_pinned(plan)
        whole = sum(cost_in_prompt(messages[index]) for index, _ in plan.shrink)
        shrunk = sum(cost_in_prompt(shrink_message(messages[index], most)) for index, most in plan.shrink)
        kept = self._synced.tokens - plan.dropped_tokens - whole + shrunk
        beside, pre_tokens = kept + given.overhead_tokens, self._synced.tokens + given.overhead_tokens
        high = beside + plan.summary_tokens
        if pre_tokens - high < _least_gain(request, self._synced.tokens):
            high = max(high, pre_tokens)  # with a summary of that length nothing is done
        return CompactionPlan(
            cut=cut,
            pinned=pinned,
            pre_tokens=pre_tokens,
            dropped_tokens=self._synced.tokens - kept,
            kept_tokens=kept,
            projected_tokens=beside + min(plan.summary_tokens, plan.dropped_tokens // 2),
            low_tokens=beside,
            high_tokens=high,
            microcompact=Microcompact(len(plan.shrink), whole - shrunk),
            kept=partial(kept_turns, [*own], plan),
            # A copy: while the model writes, the conversation may grow.
            details=_Planned([*own], is_forced),
        )

    async def compact(
        self, given: EngineInput, request: CompactionRequest, plan: CompactionPlan, deps: EngineDeps
    ) -> CompactionResult | NoOp:
        """Summarise the head, update an earlier summary, keep the tail."""
        if deps.invoke is None:
            return NO_MODEL
        planned: _Planned = plan.details
        infos: list[CompactionInfo] = []
        model = InvokerModel(deps.invoke, cancel=lambda: deps.cancel)
        compactor = new_compaction(_config(given, request, model, infos), breaker=self._breaker)
        messages = planned.messages
        if planned.is_forced:
            done = await compactor.compact_now(
                messages, request.instructions, heeds_breaker=not request.force
            )
            view: Sequence[AgentMessage] = done[0] if done is not None else ()
        else:
            view = await compactor(messages)
        deps.cancel.raise_if_cancelled()
        self._breaker = compactor.breaker
        if not infos:
            return WOULD_NOT_SHRINK
        gained = infos[-1].tokens_before - infos[-1].tokens_after
        if gained < _least_gain(request, infos[-1].tokens_before):
            return WOULD_NOT_SHRINK
        result = await asyncio.to_thread(to_result, given, plan.cut, plan.pinned, view, infos[-1])
        return replace(result, microcompacted=plan.microcompact.blanked)

    def _refusal(self, given: EngineInput, request: CompactionRequest) -> NoOp | None:
        if _budget(given, request) is None:
            return NO_WINDOW
        return None if request.force or self.gate(given, request).over else UNDER_LIMIT

    def _plan(
        self, messages: Sequence[AgentMessage], request: CompactionRequest, compactor: HistoryCompactor
    ) -> tuple[CutPlan | None, bool]:
        """Return the cut plan, and whether it must be forced.

        That is so also where the live occupancy alone is over the limit, and where the engine would merely
        shrink an item: here that would change the stored conversation for good.
        """
        plan = None if request.force else compactor.preview(messages).plan
        if plan is not None and plan.cut > 0:
            return plan, False
        return compactor.preview(messages, force=True).plan, True

    def _sync(self, history: History) -> list[AgentMessage]:
        """Return *history* as messages; only its new entries are converted and weighed."""
        self._synced = self.index.of(history)
        return self._synced.messages

    def _find_pinned(self, plan: CutPlan) -> tuple[int, ...]:
        """Return the turn of the prompt that stays in front of the cut, if there is one."""
        return (self._turn_at(plan.pinned),) if plan.pinned >= 0 else ()

    def _turn_at(self, message_index: int) -> int:
        """Return the turn that begins at *message_index*; a tail never begins inside a turn."""
        return bisect_left(self._synced.starts, message_index)


def kept_turns(messages: Sequence[AgentMessage], plan: CutPlan) -> Sequence[Turn]:
    """Return the turns of *messages* that stay with *plan*, shrunk where it shrinks them."""
    shrunk = dict(plan.shrink)
    return messages_to_turns(
        [
            shrink_message(message, shrunk[at]) if at in shrunk else message
            for at, message in enumerate(messages)
            if at >= plan.cut or at == plan.pinned
        ]
    )


def _least_gain(request: CompactionRequest, tokens_before: int) -> int:
    """Return the least tokens that a compaction must save."""
    return 1 if request.force else max(1, tokens_before // _LEAST_GAIN)


def with_unread(
    messages: list[AgentMessage], history: History, turn_at: Callable[[int], int]
) -> Sequence[AgentMessage]:
    """Return *messages*; the newest summary holds the parts that its local digest left unread.

    Args:
        messages: the messages of *history*.
        history: the conversation, which still holds the entries behind each summary.
        turn_at: returns the entry of a message.
    """
    places = [at for at, message in enumerate(messages) if is_local(message)]
    if not places:
        return messages
    folded = history.unfold(history[turn_at(places[-1])], lambda entry: not is_local(*_as_messages([entry])))
    found = _as_messages(folded)
    earlier = [each.summary for each in found if isinstance(each, CompactionSummary)]
    parts = serialize_parts([each for each in found if not isinstance(each, CompactionSummary)])
    unread = Unread(split_sections(earlier[-1])[0] if earlier else "", parts)
    return [
        replace(each, unread=unread) if at == places[-1] and isinstance(each, CompactionSummary) else each
        for at, each in enumerate(messages)
    ]


def is_local(message: AgentMessage) -> bool:
    """Whether *message* is a summary that no model wrote, or not all of it."""
    return isinstance(message, CompactionSummary) and LOCAL_HEADING in message.summary


def _as_messages(entries: Iterable[Entry]) -> list[AgentMessage]:
    names: dict[str, str] = {}
    return [
        message
        for entry in entries
        for message in turns_to_messages((entry.turn,), names, parses_summaries=entry.kind == "summary")
    ]


def _budget(given: EngineInput, request: CompactionRequest) -> Budget | None:
    if given.window <= 0:
        return None
    reserve = _reserve(given.window, request)
    return fit_budget(given.window, reserve, int(request.policy.get("keepRecent", 0)))


def _reserve(window: int, request: CompactionRequest) -> int:
    """Return the tokens that the policy of *request* keeps free, 0 for as many as usual."""
    policy = request.policy
    if "reserveTokens" in policy or request.force or request.limit_by == "price":
        return int(policy.get("reserveTokens", 0))
    return window - int(window * policy["triggerRatio"]) if "triggerRatio" in policy else 0


def _config(
    given: EngineInput,
    request: CompactionRequest,
    model: InvokerModel | None = None,
    infos: list[CompactionInfo] | None = None,
) -> CompactionConfig:
    """Return the settings of one compaction; the files of all tools count, declared or not."""
    return CompactionConfig(
        model,
        given.window,
        _reserve(given.window, request),
        int(request.policy.get("keepRecent", 0)),
        None if infos is None else infos.append,
        overhead_tokens=given.overhead_tokens,
        summariser_window=given.summarizer_card.context_window if given.summarizer_card else None,
        effects_of=lambda name: given.tool_effects.get(name, ANYTHING),
        run=asyncio.to_thread,
    )


def to_result(
    given: EngineInput,
    cut: int,
    pinned: tuple[int, ...],
    view: Sequence[AgentMessage],
    info: CompactionInfo,
) -> CompactionResult:
    summary = next((message for message in view if isinstance(message, CompactionSummary)), None)
    turns = messages_to_turns(view)
    folds = summary is not None and cut > 0
    return CompactionResult(
        entries=compacted_entries(
            given.history, cut, turns[0] if folds else None, turns[1:] if folds else turns, pinned=pinned
        ),
        cut=cut,
        dropped_count=cut - len(pinned),
        pre_tokens=info.tokens_before + given.overhead_tokens,
        post_tokens=info.tokens_after + given.overhead_tokens,
        summary=summary.summary if summary is not None else "",
        summary_source="model" if info.summary_source == "model" else "localFallback",
        fallback_reason=None if info.summary_source == "model" else "the model gave no usable summary",
        info=record_of(info, summary),
    )


def record_of(info: CompactionInfo, summary: CompactionSummary | None) -> Mapping[str, Any]:
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
