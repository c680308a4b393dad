"""The gauge of a session: how full the model's window is, for its engines and for its clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sidecar.capabilities.recall import RECALL_NOTE
from sidecar.conductor.compaction_planner import CompactionPlanner
from sidecar.conductor.context import ContextMeter, Weights, entry_tokens
from sidecar.conductor.contract import ContextUsage, EngineView
from sidecar.conductor.engines.contract import EngineInput
from sidecar.conductor.files import SessionFiles
from sidecar.conductor.history import HistoryWriter
from sidecar.conductor.knowledge import Knowledge
from sidecar.conductor.model_calls import RequestHead
from sidecar.conductor.ports import SessionTools
from sidecar.conductor.room import Participants
from sidecar.conductor.session_engines import SessionEngines
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import ModelCard, Usage, UserTurn


class EngineInputs:
    """Makes the input of a session's engines.

    Attributes:
        entering: the prompt that is about to enter, which a gate must count; None for none.
    """

    def __init__(
        self,
        history: HistoryWriter,
        meter: ContextMeter,
        engines: SessionEngines,
        head: RequestHead,
        knowledge: Knowledge,
        files: SessionFiles,
        tools: SessionTools,
        *,
        card: Callable[[], ModelCard | None],
        participants: Callable[[], Participants],
        rules: Callable[[], tuple[str, ...]],
    ) -> None:
        """*rules* returns the texts of the user's rules that hold."""
        self._history = history
        self._meter = meter
        self._engines = engines
        self._head = head
        self._knowledge = knowledge
        self._files = files
        self._tools = tools
        self._card = card
        self._participants = participants
        self._rules = rules
        self.entering: UserTurn | None = None

    @property
    def card(self) -> ModelCard | None:
        """The session's model, None where nothing is known of it."""
        return self._card()

    def make(self) -> EngineInput:
        """Return the conversation as it is now, weighed, the entering prompt included."""
        history, overhead, card = self._history.current, self._head.overhead(), self._card()
        entering = entry_tokens(Entry(self.entering, "user")) if self.entering is not None else 0
        window = card.context_window if card is not None else 0
        beside, finds = overhead.total + entering, self._knowledge.max_tokens(window)
        weights, known = self.with_anchor(self._meter.weigh(history)), 0
        if not self._engines.own.commits_view:
            # Not all of this is sent, so the provider's figure tells only how far the estimate is off.
            beside += max(finds, weights.surplus(overhead))
        else:
            beside += finds
            known = weights.occupancy(overhead, self._meter.factors.of(card)) + entering
        return EngineInput(
            history=history,
            card=card,
            overhead_tokens=beside,
            context_tokens=known,
            participants=self._participants(),
            same_file=self._files.uri_of,
            tool_effects=self._tools.effects(),
            closing=RECALL_NOTE,
            rules=self._rules(),
        )

    def with_anchor(self, weights: Weights) -> Weights:
        """Return *weights* with the provider's newest figure, that of an answer not stored yet included."""
        return replace(weights, anchor=self._history.pending_anchor or weights.anchor)


class ContextGauge:
    """Publishes the fill level of the window, and counts the usage of model calls."""

    def __init__(
        self,
        inputs: EngineInputs,
        history: HistoryWriter,
        meter: ContextMeter,
        planner: CompactionPlanner,
        engines: SessionEngines,
        head: RequestHead,
    ) -> None:
        self._inputs = inputs
        self._history = history
        self._meter = meter
        self._planner = planner
        self._engines = engines
        self._head = head

    def usage(self, *, detail: bool = False) -> ContextUsage:
        """Return the size of the next request; *detail* adds where its tokens come from."""
        engine = self._engines.own_name
        request = self._engines.automatic()
        gate = self._planner.gate(engine, request)
        usage = self._meter.usage(
            self._weigh_request(),
            self._head.overhead(),
            card=self._inputs.card,
            views={engine: EngineView(gate.tokens, gate.limit)},
            limit=gate.limit,
            node=self._history.head,
            detail=detail,
        )
        usage = replace(usage, limit_by=request.limit_by)
        return replace(usage, rules=self._head.rules()) if detail else usage

    def count(self, usage: Usage, card: ModelCard | None) -> None:
        """Count one call of the model of *card*; its size becomes part of the answer's entry."""
        anchor = self._meter.count(usage, card, self._weigh_request(), self._head.overhead())
        if anchor is not None:
            self._history.note_usage(anchor)

    def _weigh_request(self) -> Weights:
        """Weigh the entries that the next request shows."""
        view = self._planner.view(self._engines.own_name, self._engines.automatic())
        history = self._history.current
        return self._inputs.with_anchor(
            self._meter.weigh(history) if view.is_whole else self._meter.weigh_view(view.entries, history)
        )
