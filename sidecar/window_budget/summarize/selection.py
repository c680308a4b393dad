"""Choosing which facts a digest tells when not all fit, and laying them out.

A small economy: each fact has a rank within its kind and each kind a weight; the cheapest ratio goes first,
until the characters are spent. What is evicted is what is oldest and tells least. Deterministic; no text is
reworded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sidecar.window_budget.summarize.carried import JOINED_KINDS, JOINT, Carried
from sidecar.window_budget.summarize.facts import Fact, FactKind, fact_key
from sidecar.window_budget.summarize.ledger import FactLedger
from sidecar.window_budget.text import one_line

__all__ = ["Offer", "choose", "offers", "render"]

MINOR_RANK = 24
"""How much later a minor fact of its kind comes."""

CARRIED_RANK = 4
"""How much later a fact of an earlier digest comes than one as new within its kind."""

_WEIGHTS = {
    FactKind.RULE: 8.0,
    FactKind.ERROR: 4.0,
    FactKind.DECISION: 4.0,
    FactKind.MODIFIED: 4.0,
    FactKind.REQUEST: 3.0,
    FactKind.NAME: 3.0,
    FactKind.COMMAND: 3.0,
    FactKind.READ: 2.0,
    FactKind.OUTCOME: 1.5,
}
_MAX_CHARS = {
    FactKind.REQUEST: 160,
    FactKind.RULE: 240,
    FactKind.DECISION: 200,
    FactKind.OUTCOME: 140,
    FactKind.MODIFIED: 140,
    FactKind.READ: 120,
    FactKind.COMMAND: 160,
    FactKind.ERROR: 180,
    FactKind.NAME: 80,
}
GOAL_CHARS = 500
GOAL_RANK = -1
"""The first and the latest request come before all else and are told at length; the others get a line."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A fact that could be told, and its *price*: the lowest goes first."""

    price: float
    fact: Fact


def offers(
    ledger: FactLedger, before: int, carried: Carried, kinds: Iterable[FactKind] = FactKind
) -> list[Offer]:
    """Return the facts of *kinds* before *before*, with those of *carried*, each once, cheapest first."""
    found: dict[tuple[FactKind, str], Offer] = {}
    for kind in kinds:
        for rank, fact in _candidates(kind, ledger, before, carried):
            key = (kind, fact_key(kind, fact.text))
            price = (rank + (MINOR_RANK if fact.is_minor else 0)) / _WEIGHTS[kind]
            if fact.text and (key not in found or price < found[key].price):
                found[key] = Offer(price, fact)
    return sorted(found.values(), key=lambda offer: offer.price)


def choose(offered: Iterable[Offer], max_chars: int) -> list[Fact]:
    """Return the facts of *offered* that fit *max_chars* once laid out, by kind, then oldest first."""
    chosen: list[Fact] = []
    titled = set[FactKind]()
    for offer in offered:
        fact = offer.fact
        cost = len(fact.text) + 3 + (0 if fact.kind in titled else len(fact.kind.value) + 5)
        if cost <= max_chars:
            max_chars -= cost
            titled.add(fact.kind)
            chosen.append(fact)
    order = {kind: position for position, kind in enumerate(FactKind)}
    return sorted(chosen, key=lambda fact: (order[fact.kind], fact.index))


def render(facts: Iterable[Fact]) -> str:
    """Return *facts* under the titles of their kinds; empty for none.

    >>> rule = Fact(FactKind.RULE, "be brief")
    >>> print(render([rule, Fact(FactKind.READ, "a.py"), Fact(FactKind.READ, "b.py")]))
    ## Rules
    - be brief
    ## Files read
    - a.py; b.py
    """
    by_kind: dict[FactKind, list[str]] = {}
    for fact in facts:
        by_kind.setdefault(fact.kind, []).append(fact.text)
    lines: list[str] = []
    for kind, texts in by_kind.items():
        lines.append(f"## {kind.value}")
        lines.extend(f"- {text}" for text in ([JOINT.join(texts)] if kind in JOINED_KINDS else texts))
    return "\n".join(lines)


def _candidates(
    kind: FactKind, ledger: FactLedger, before: int, carried: Carried
) -> Iterator[tuple[int, Fact]]:
    """Yield rank and fact: the ledger's, then those of the earlier digest, which count as older than all."""
    earlier = [fact for fact in carried.facts if fact.kind is kind]
    earlier = [replace(fact, index=position - len(earlier)) for position, fact in enumerate(earlier)]
    ranked = ledger.ranked(kind, before)
    if kind is FactKind.REQUEST:
        first = earlier[0] if earlier else ledger.first(kind, before)
        latest = next((fact for _, fact in ranked if not fact.is_minor), None)
        for fact in filter(None, (first, latest)):
            yield GOAL_RANK, _clipped(fact, GOAL_CHARS)
    for rank, fact in ranked:
        yield rank, _clipped(fact, _MAX_CHARS[kind])
    for position, fact in enumerate(earlier):
        yield CARRIED_RANK + position, fact


def _clipped(fact: Fact, limit: int) -> Fact:
    return fact if len(fact.text) <= limit else replace(fact, text=one_line(fact.text, limit))
