"""The next request of a session: weighed, judged by the engine, and published as the fill of the window.

A prompt asks many times how large the next request is, and it seldom changed in between.
"""

from __future__ import annotations

from dataclasses import replace

from sidecar.conductor.contract import ContextUsage, EngineView, Gate
from sidecar.conductor.engine import CompactionRequest, EngineInput
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.token_estimate import estimate_turn_tokens
from sidecar.conductor.window.head import RequestHead
from sidecar.conductor.window.knowledge import Knowledge
from sidecar.conductor.window.meter import ContextMeter, Weights, entry_tokens
from sidecar.conductor.window.session_engines import SessionEngines
from sidecar.conductor.workbench.workbench import Workbench
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import ModelCard, TextBlock, Usage, UserTurn
from sidecar.text.clip import cut_middle

_PROMPT_CUT = "[... {} characters of the prompt left out, for the model's window does not hold them ...]"


class NextRequest:
    """The next request of one session.

    Attributes:
        entering: the prompt that is about to enter, which a gate must count; None for none.
    """

    def __init__(
        self,
        record: SessionRecord,
        workbench: Workbench,
        head: RequestHead,
        engines: SessionEngines,
        meter: ContextMeter,
        knowledge: Knowledge,
    ) -> None:
        self._record = record
        self._history = record.history
        self._workbench = workbench
        self._head = head
        self._engines = engines
        self._meter = meter
        self._knowledge = knowledge
        self.entering: UserTurn | None = None
        self._input: tuple[tuple[object, ...], EngineInput] | None = None
        self._gate: tuple[CompactionRequest, EngineInput, Gate] | None = None

    def make_input(self) -> EngineInput:
        """Return the conversation as it is now, weighed, the entering prompt included.

        It is the same value until something that it is made of changes.
        """
        history, overhead, card = self._history.current, self._head.overhead(), self._record.card
        window = card.context_window if card is not None else 0
        finds = self._knowledge.max_tokens(window) if self._knowledge.sources else 0
        participants, effects = self._workbench.participants(), self._workbench.tools.effects()
        rules, factor = self._head.user_rules.texts, self._meter.factors.of(card)
        of = (
            *(overhead, card, finds, participants, effects, rules, factor),
            *(self.entering, self._history.pending_anchor),
        )
        if self._input is not None and self._input[1].history is history and self._input[0] == of:
            return self._input[1]
        entering = estimate_turn_tokens(self.entering) if self.entering is not None else 0
        made = EngineInput(
            history=history,
            card=card,
            overhead_tokens=overhead.total + entering + finds,
            context_tokens=self._weigh(history).occupancy(overhead, factor) + entering,
            participants=participants,
            same_file=self._workbench.files.uri_of,
            tool_effects=effects,
        )
        self._input = (of, made)
        return made

    def gate(self, request: CompactionRequest) -> Gate:
        """Return whether the next request is over the limit of the engine of *request*; judged once."""
        given = self.make_input()
        if self._gate is None or self._gate[1] is not given or self._gate[0] != request:
            self._gate = (request, given, self._engines.get(request.engine).gate(given, request))
        return self._gate[2]

    def too_long_prompt(self, request: CompactionRequest) -> Entry | None:
        """Return the newest prompt cut to fit the window, None where it does, or where nothing compacts."""
        gate = self.gate(request)
        if not (self._engines.get(request.engine).compacts and 0 < gate.window < gate.tokens):
            return None
        return fit_prompt(self._history.current, gate)

    def usage(self, *, detail: bool = False) -> ContextUsage:
        """Return the size of the request; *detail* adds where its tokens come from."""
        request = self._engines.automatic()
        gate = self.gate(request)
        usage = self._meter.usage(
            self._weigh_shown(request),
            self._head.overhead(),
            card=self._record.card,
            views={request.engine: EngineView(gate.tokens, gate.limit)},
            limit=gate.limit,
            node=self._history.head,
            detail=detail,
        )
        usage = replace(usage, limit_by=request.limit_by)
        return replace(usage, rules=self._head.rules()) if detail else usage

    def count(self, usage: Usage, card: ModelCard | None) -> None:
        """Count one call of the model of *card*; its size becomes part of the answer's entry."""
        anchor = self._meter.count(
            usage, card, self._weigh_shown(self._engines.automatic()), self._head.overhead()
        )
        if anchor is not None:
            self._history.note_usage(anchor)

    def _weigh(self, history: History) -> Weights:
        """Weigh *history* with the provider's newest figure, that of an answer not stored yet included."""
        weights, pending = self._meter.weigh(history), self._history.pending_anchor
        return weights if pending is None else replace(weights, anchor=pending)

    def _weigh_shown(self, request: CompactionRequest) -> Weights:
        """Weigh the entries that the next call shows, with the newest prompt cut where *request* says so."""
        weights = self._weigh(self._history.current)
        if (short := self.too_long_prompt(request)) is not None:
            weights = self._meter.weigh_with(short, self._history.current)
        return weights


def fit_prompt(history: History, gate: Gate) -> Entry | None:
    """Return the newest prompt of *history* cut by the tokens beyond the window of *gate*, None for none.

    Of its texts the beginning and the end stay, at least a quarter of the limit. The stored prompt stays
    whole, so a later compaction still summarises all of it.
    """
    prompt = next((entry for entry in reversed(history) if entry.kind == "user"), None)
    if prompt is None:
        return None
    tokens = entry_tokens(prompt)
    keep = max(gate.limit // 4, tokens - (gate.tokens - gate.limit))
    if keep >= tokens:
        return None
    blocks = tuple(
        replace(block, text=cut_middle(block.text, len(block.text) * keep // tokens, _PROMPT_CUT))
        if isinstance(block, TextBlock)
        else block
        for block in prompt.turn.blocks
    )
    return replace(prompt, turn=UserTurn(blocks))
