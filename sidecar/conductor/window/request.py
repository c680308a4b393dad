"""The next request of a session: weighed, judged by the engine, and published as the fill of the window.

A prompt asks many times how large the next request is, and it seldom changed in between.
"""

from __future__ import annotations

from dataclasses import replace

from sidecar._internal.values import Value
from sidecar.conductor.contract import ContextUsage, EngineView, Gate
from sidecar.conductor.engine import CompactionPlan, CompactionRequest, EngineInput
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.spending import counts_of
from sidecar.conductor.token_estimate import ModelFactors, estimate_turn_tokens
from sidecar.conductor.window.head import RequestHead
from sidecar.conductor.window.knowledge import Knowledge
from sidecar.conductor.window.session_engines import SessionEngines
from sidecar.conductor.window.weights import Weights, entry_tokens, weights_index
from sidecar.conductor.workbench.workbench import Workbench
from sidecar.conversation import Entry, History, UsageAnchor
from sidecar.llmgateway.contract import ModelCard, TextBlock, Usage, UserTurn
from sidecar.text.clip import cut_middle

_PROMPT_CUT = "[... {} characters of the prompt left out, for the model's window does not hold them ...]"


class CutPrompt(Value):
    """A prompt that the window does not hold: *whole* as it is stored, and *short* as it is sent."""

    whole: Entry
    short: Entry


class _Weighed(Value):
    """The conversation as it was weighed last.

    Attributes:
        of: everything besides the history that the result was made of.
        given: the conversation as the engines are given it.
        weights: the weights of its entries.
        used: the size of a request that shows all of them, without a prompt that is about to enter.
    """

    of: tuple[object, ...]
    given: EngineInput
    weights: Weights
    used: int


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
        knowledge: Knowledge,
        factors: ModelFactors,
    ) -> None:
        """*factors* say how far the providers' counts of tokens are from the estimate, by model."""
        self._record = record
        self._history = record.history
        self._workbench = workbench
        self._head = head
        self._engines = engines
        self._knowledge = knowledge
        self._factors = factors
        # Weighs a conversation: only its new entries, and a move to a long one is prepared.
        self._weights = weights_index()
        record.history.follow(self._weights)
        self.entering: UserTurn | None = None
        self._weighed: _Weighed | None = None
        self._gate: tuple[CompactionRequest, EngineInput, Gate] | None = None

    def make_input(self) -> EngineInput:
        """Return the conversation as it is now, weighed, the entering prompt included.

        It is the same value until something that it is made of changes.
        """
        return self._weigh().given

    def _weigh(self) -> _Weighed:
        """Weigh the conversation, unless that was done since something that the result is made of changed."""
        history, overhead, card = self._history.current, self._head.overhead(), self._record.card
        finds, factor = self._find_tokens(), self._factors.of(card)
        participants, effects = self._workbench.participants(), self._workbench.tools.effects()
        pending = self._history.pending_anchor
        of = (overhead, card, finds, factor, participants, effects, self.entering, pending)
        known = self._weighed
        if known is not None and known.given.history is history and known.of == of:
            return known
        weights = self._weights.of(history)
        if pending is not None:  # the provider's figure for an answer that is not stored yet
            weights = replace(weights, anchor=pending)
        used = weights.occupancy(overhead, factor)
        beside = finds + (estimate_turn_tokens(self.entering) if self.entering is not None else 0)
        given = EngineInput(
            history=history,
            card=card,
            overhead_tokens=overhead.total + beside,
            context_tokens=used + beside,
            participants=participants,
            same_file=self._workbench.files.uri_of,
            tool_effects=effects,
        )
        self._weighed = _Weighed(of, given, weights, used)
        return self._weighed

    def gate(self, request: CompactionRequest) -> Gate:
        """Return whether the next request is over the limit of the engine of *request*; judged once."""
        given = self.make_input()
        if self._gate is None or self._gate[1] is not given or self._gate[0] != request:
            self._gate = (request, given, self._engines.get(request.engine).gate(given, request))
        return self._gate[2]

    def too_long_prompt(self, request: CompactionRequest) -> CutPrompt | None:
        """Return the newest prompt cut to fit the window, None where it does, or where nothing compacts."""
        gate = self.gate(request)
        if not (self._engines.get(request.engine).compacts and 0 < gate.window < gate.tokens):
            return None
        return fit_prompt(self._history.current, gate)

    def used(self) -> int:
        """Return the tokens of the next request, by the meter that every face shows."""
        return self._weigh_shown(self._engines.automatic())[1]

    def anchor_now(self) -> UsageAnchor | None:
        """Return the size of the next request as an anchor, None while no provider has reported one.

        A conversation that is made of this one has its share of it, and so has each part that both have.
        """
        weights, used = self._weigh_shown(self._engines.automatic())
        return None if weights.anchor is None else UsageAnchor(used, weights.tokens)

    def size_of(self, turn_tokens: int) -> int:
        """Return the tokens of a request with other turns, which are estimated at *turn_tokens*."""
        return self._occupancy(Weights(tokens=turn_tokens, anchor=self.anchor_now()))

    def share_of(self, turn_tokens: int) -> int:
        """Return the tokens that turns take in the next request, which are estimated at *turn_tokens*."""
        return self.size_of(turn_tokens) - self.size_of(0)

    def size_with(self, history: History) -> int:
        """Return the tokens of a request with *history*, a prepared move, in place of the conversation."""
        return self.size_of(self._weights.peek(history).tokens)

    def measure_plan(self, plan: CompactionPlan, kept: int, overhead_tokens: int) -> CompactionPlan:
        """Return *plan* in the tokens of the meter; its parts and the overhead add up to the size before it.

        The length of the summary is the engine's guess in any case.

        Args:
            plan: the plan, in the tokens of its engine.
            kept: the estimated tokens of the turns that it keeps.
            overhead_tokens: the part of its sizes that is no turn.
        """
        used, beside = self.used(), plan.kept_tokens

        def measure(size: int) -> int:
            return min(used, self.size_of(kept + max(0, size - beside - overhead_tokens)))

        high = used if plan.high_tokens >= plan.pre_tokens else measure(plan.high_tokens)
        return replace(
            plan,
            pre_tokens=used,
            dropped_tokens=max(0, used - self.size_of(kept)),
            kept_tokens=self.share_of(kept),
            projected_tokens=measure(plan.projected_tokens),
            low_tokens=measure(plan.low_tokens),
            high_tokens=high,
        )

    def _find_tokens(self) -> int:
        """Return the most tokens of the knowledge that a prompt may bring into the request."""
        return self._knowledge.max_tokens(self._record.window) if self._knowledge.sources else 0

    def _occupancy(self, weights: Weights) -> int:
        return weights.occupancy(self._head.overhead(), self._factors.of(self._record.card))

    def usage(self, *, detail: bool = False) -> ContextUsage:
        """Return the size of the request; *detail* adds its parts, and why it has its limit."""
        record, request = self._record, self._engines.automatic()
        gate, overhead = self.gate(request), self._head.overhead()
        weights, used = self._weigh_shown(request)
        return ContextUsage(
            used=used,
            window=record.window,
            limit=max(0, gate.limit - self._find_tokens()),
            pct=round(100 * used / record.window, 1) if record.window else 0.0,
            source="estimate" if weights.anchor is None else "provider",
            as_of_node=self._history.head,
            engine_view={request.engine: EngineView(gate.tokens, gate.limit)},
            by=weights.parts(overhead, used) if detail else None,
            last_turn=record.spending.last_turn,
            session_total=record.spending.total,
            cost=record.spending.cost,
            rules=self._workbench.rule_files.usage() if detail else None,
            limit_by=request.limit_by,
            factor=self._factors.of(record.card) if detail else None,
            limit_why=self._engines.describe_limit(request) if detail else None,
            budgets=record.spending.states() or None,
        )

    def count(self, usage: Usage, card: ModelCard | None) -> None:
        """Learn from one call of the model of *card*; its size becomes part of the answer's entry."""
        used = self._record.spending.last_turn = counts_of(usage)
        reported = used.input + used.cache_read + used.cache_write
        sent = self._weigh_shown(self._engines.automatic())[0].tokens
        self._factors.learn(card, estimated=sent + self._head.overhead().total, reported=reported)
        if reported:
            self._history.note_usage(UsageAnchor(reported, sent))

    def _weigh_shown(self, request: CompactionRequest) -> tuple[Weights, int]:
        """Weigh the entries that the next call shows, and that call.

        The newest prompt is cut where the gate of *request* asks for it.
        """
        weighed, cut = self._weigh(), self.too_long_prompt(request)
        if cut is None:
            return weighed.weights, weighed.used
        weights = weighed.weights.with_shorter(cut.short, cut.whole)
        return weights, self._occupancy(weights)


def fit_prompt(history: History, gate: Gate) -> CutPrompt | None:
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
    return CutPrompt(prompt, replace(prompt, turn=UserTurn(blocks)))
