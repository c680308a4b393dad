"""The meter of a session: the tokens of each part of the next request, anchored on the provider's figures.

The weights of an entry are counted once, when it is new. ``used`` is never a cumulative sum: it is the size
of the next request. The anchor belongs to the answer of the call that it measures, so it moves with
the conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import add, attrgetter

import msgspec

from sidecar._internal.values import Value, replace
from sidecar.conductor.contract import ContextUsage, EngineView, UsageBy
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.token_estimate import (
    IMAGE_TOKENS,
    ModelFactors,
    estimate_text_tokens,
    estimate_turn_tokens,
    text_tokens,
)
from sidecar.conversation import Entry, History, Index, UsageAnchor
from sidecar.llmgateway.contract import ImageBlock, ModelCard, ThinkingBlock, ToolDescriptor, Usage
from sidecar.runtime.memory import CHARS_PER_TOKEN, IMAGE_CHARS, turn_chars

_NOTHING = UsageBy(0, 0, 0, 0, 0, 0, 0, 0, 0)
_VALUES = attrgetter(*(spec.name for spec in fields(UsageBy)))
_PARTS = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool_results",
    "summary": "summary",
    "file": "files",
    "branch": "summary",
    "shell": "user",
    "note": "files",
}
"""The part of the window that an entry of each kind belongs to."""


class Overhead(Value):
    """The tokens that every request carries besides its turns."""

    system: int
    tool_defs: int
    rules: int = 0

    @property
    def total(self) -> int:
        """All of it together."""
        return self.system + self.tool_defs + self.rules


def overhead_of(system: str, tools: Sequence[ToolDescriptor]) -> Overhead:
    """Weigh the system prompt and the tool schemas, each as a message of its text."""
    schemas = msgspec.json.encode([*map(attrgetter("name", "description", "parameters"), tools)]).decode()
    return Overhead(text_tokens(system), text_tokens(schemas) if tools else 0)


class Weights(Value):
    """The weight of some entries: by part and in all, and the newest anchor among them.

    *quarters* is a quarter of their characters; an engine with a plain estimate counts about as many tokens.
    """

    by: UsageBy = _NOTHING
    tokens: int = 0
    anchor: UsageAnchor | None = None
    quarters: int = 0

    def plus(self, other: Weights) -> Weights:
        """Return both together; the anchor of *other* is the newer one."""
        return Weights(
            UsageBy(*map(add, _VALUES(self.by), _VALUES(other.by))),
            self.tokens + other.tokens,
            other.anchor or self.anchor,
            self.quarters + other.quarters,
        )

    def occupancy(self, overhead: Overhead, factor: float = 1.0) -> int:
        """Return the tokens of a request with these entries, best known; *factor* is that of the model."""
        if self.anchor is None:
            return round(factor * (self.tokens + overhead.total))
        return self.anchor.reported_tokens + round(factor * (self.tokens - self.anchor.estimated_tokens))


class ContextMeter:
    """The meter of one session, which counts the usage of its model calls in *record*.

    Attributes:
        factors: how far the providers' counts of tokens are from the estimate, by model.
    """

    def __init__(self, record: SessionRecord, factors: ModelFactors) -> None:
        self._index = weights_index()
        # Weighs a history; only its new entries are weighed. A move to a long one is prepared.
        self.weigh, self.prepare, self.forget = self._index.of, self._index.prepare, self._index.forget
        self._spending = record.spending
        record.history.follow(self)
        self.factors = factors

    def weigh_with(self, shorter: Entry, history: History) -> Weights:
        """Weigh *history* with *shorter* in the place of the same entry, which is sent cut down."""
        whole = next(entry for entry in reversed(history) if entry.node_id == shorter.node_id)
        weights, less = self.weigh(history), weigh_entry(whole).tokens - weigh_entry(shorter).tokens
        by = replace(weights.by, user=weights.by.user - less)
        return replace(weights, by=by, tokens=weights.tokens - less)

    def count(
        self, usage: Usage, card: ModelCard | None, sent: Weights, overhead: Overhead
    ) -> UsageAnchor | None:
        """Add the usage of one call.

        Args:
            usage: the tokens that the provider reported.
            card: the card of the model, None for an unknown one.
            sent: the weights of the entries of its request.
            overhead: the tokens of the request beside them.

        Returns:
            The anchor for the answer; None where the provider reported no request tokens.
        """
        last = self._spending.last_turn = self._spending.add(usage, card)
        request = last.input + last.cache_read + last.cache_write
        self.factors.learn(card, estimated=sent.tokens + overhead.total, reported=request)
        return UsageAnchor(request, sent.tokens) if request else None

    def usage(
        self,
        weights: Weights,
        overhead: Overhead,
        *,
        card: ModelCard | None,
        views: Mapping[str, EngineView],
        limit: int,
        node: str | None,
        detail: bool = False,
    ) -> ContextUsage:
        """Return the whole picture of a request with *weights*; *detail* adds where its tokens come from."""
        window = card.context_window if card else 0
        factor = self.factors.of(card)
        used = weights.occupancy(overhead, factor)
        fixed = replace(_NOTHING, system=overhead.system, tool_defs=overhead.tool_defs, rules=overhead.rules)
        return ContextUsage(
            used=used,
            window=window,
            limit=limit,
            pct=round(100 * used / window, 1) if window else 0.0,
            source="estimate" if weights.anchor is None else "provider",
            as_of_node=node,
            engine_view=views,
            by=Weights(fixed).plus(weights).by if detail else None,
            factor=factor if detail else None,
            last_turn=self._spending.last_turn,
            session_total=self._spending.total,
            cost=self._spending.cost,
        )


def weights_index() -> Index[Weights]:
    """Return a new index of the weights of a conversation."""
    return Index(Weights, lambda weights, entry, _: weights.plus(weigh_entry(entry)))


def entry_tokens(entry: Entry) -> int:
    """Return the tokens of one entry."""
    return estimate_turn_tokens(entry.turn)


def weigh_entry(entry: Entry) -> Weights:
    """Weigh one entry. Images and thinking are parts of their own."""
    tokens, parts = estimate_turn_tokens(entry.turn), {"images": 0, "thinking": 0}
    for block in entry.turn.blocks:
        if isinstance(block, ImageBlock):
            parts["images"] += IMAGE_TOKENS
        elif isinstance(block, ThinkingBlock):
            parts["thinking"] += estimate_text_tokens(block.text)
    parts[_PARTS[entry.kind]] = tokens - sum(parts.values())
    quarters = turn_chars(entry.turn, IMAGE_CHARS) // CHARS_PER_TOKEN
    return Weights(replace(_NOTHING, **parts), tokens, entry.anchor, quarters)
