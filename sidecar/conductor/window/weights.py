"""The weights of a request: the tokens of each of its parts, anchored on the provider's figures.

The weights of an entry are counted once, when it is new. The anchor belongs to the answer of the call that it
measures, so it moves with the conversation. Pure values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import accumulate, pairwise
from operator import add, attrgetter

import msgspec

from sidecar._internal.values import Value, replace
from sidecar.conductor.contract import UsageBy
from sidecar.conductor.token_estimate import (
    IMAGE_TOKENS,
    estimate_text_tokens,
    estimate_turn_tokens,
    text_tokens,
)
from sidecar.conversation import Entry, Index, UsageAnchor
from sidecar.llmgateway.contract import Conversation, ImageBlock, ThinkingBlock, ToolDescriptor

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

    def as_parts(self) -> UsageBy:
        """Return it as parts of a request."""
        return replace(_NOTHING, system=self.system, tool_defs=self.tool_defs, rules=self.rules)


def overhead_of(system: str, tools: Sequence[ToolDescriptor]) -> Overhead:
    """Weigh the system prompt and the tool schemas, each as a message of its text."""
    schemas = msgspec.json.encode([*map(attrgetter("name", "description", "parameters"), tools)]).decode()
    return Overhead(text_tokens(system), text_tokens(schemas) if tools else 0)


def estimate_request_tokens(conversation: Conversation) -> int:
    """Return about how many tokens a request has that is not the next one of a session."""
    overhead = overhead_of(conversation.system or "", conversation.tools or ())
    return overhead.total + sum(map(estimate_turn_tokens, conversation.turns))


class Weights(Value):
    """The weight of some entries: by part and in all, and the newest anchor among them."""

    by: UsageBy = _NOTHING
    tokens: int = 0
    anchor: UsageAnchor | None = None

    def plus(self, other: Weights) -> Weights:
        """Return both together; the anchor of *other* is the newer one."""
        return Weights(
            UsageBy(*map(add, _VALUES(self.by), _VALUES(other.by))),
            self.tokens + other.tokens,
            other.anchor or self.anchor,
        )

    def with_shorter(self, shorter: Entry, whole: Entry) -> Weights:
        """Return the weights with *shorter*, a prompt that is sent cut, in the place of *whole*."""
        less = weigh_entry(whole).tokens - weigh_entry(shorter).tokens
        by = replace(self.by, user=self.by.user - less)
        return replace(self, by=by, tokens=self.tokens - less)

    def occupancy(self, overhead: Overhead, factor: float = 1.0) -> int:
        """Return the tokens of a request with these entries, best known; *factor* is that of the model.

        New entries are added to the provider's figure. A conversation that was shortened since then has its
        share of the figure, so that it is always smaller.

        >>> half_counted = Weights(tokens=30, anchor=UsageAnchor(reported_tokens=50, estimated_tokens=100))
        >>> half_counted.occupancy(Overhead(0, 0))
        15
        """
        whole = self.tokens + overhead.total
        if self.anchor is None:
            return round(factor * whole)
        reported, added = self.anchor.reported_tokens, self.tokens - self.anchor.estimated_tokens
        if added < 0:
            return round(reported * whole / (whole - added))
        return reported + round(factor * added)

    def parts(self, overhead: Overhead, used: int) -> UsageBy:
        """Return the parts of a request of *used* tokens with these entries: they add up to it.

        >>> found = Weights(UsageBy(0, 0, 20, 10, 0, 0, 0, 0, 0), 30).parts(Overhead(10, 0), 41)
        >>> found.system, found.user, found.assistant
        (10, 21, 10)
        """
        counts = _VALUES(Weights(overhead.as_parts()).plus(self).by)
        whole = sum(counts) or 1
        # Where each running sum is rounded, no part is off by more than a token, and the last sum is exact.
        ends = [round(used * end / whole) for end in accumulate(counts)]
        return UsageBy(*(end - before for before, end in pairwise((0, *ends))))


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
    return Weights(replace(_NOTHING, **parts), tokens, entry.anchor)
