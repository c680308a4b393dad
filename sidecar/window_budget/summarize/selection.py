"""Choosing which facts a digest tells when not all fit, and laying them out.

A small economy: a fact costs its characters times its rank within its kind, over the weight of the kind; the
cheapest go first, until the characters are spent. What is evicted is what is old, long and tells little.
Deterministic; no text is reworded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sidecar.window_budget.summarize.carried import JOINED_KINDS, JOINT, Carried
from sidecar.window_budget.summarize.facts import Fact, FactKind, fact_key
from sidecar.window_budget.summarize.ledger import FactLedger
from sidecar.window_budget.text import one_line

__all__ = ["Offer", "choose", "offers", "render"]

BASE_RANK = 8
"""Added to every rank: how little it matters to be the newest of a kind, against being short."""

CHEAPEST_CHARS = 40
"""A fact with a line of its own costs as much as this at least: "go on" is short, but tells nothing."""

CHEAPEST_NAME_CHARS = 20
"""So does a name or a path: short ones by the dozen tell less than one error."""

AGED_COMMAND_CHARS = 72
"""How much of a carried command is told where room is short."""

MINOR_RANK = 24
"""How much later a minor fact of its kind comes."""

CARRIED_RANK = 4
"""How much later a fact of an earlier digest comes than one as new within its kind.

Of the carried ones the oldest rule comes first, for rules do not age; of all else the newest, so that a long
session does not carry its first hour for ever and forget each later one at once.
"""

_WEIGHTS = {
    FactKind.RULE: 8.0,
    FactKind.REQUEST: 5.0,
    FactKind.DECISION: 7.0,
    FactKind.ERROR: 4.0,
    FactKind.MODIFIED: 8.0,
    FactKind.COMMAND: 5.0,
    FactKind.NAME: 3.0,
    FactKind.READ: 2.0,
    FactKind.OUTCOME: 1.5,
}
_MAX_CHARS = {
    FactKind.REQUEST: 120,
    FactKind.RULE: 400,
    FactKind.DECISION: 160,
    FactKind.OUTCOME: 120,
    FactKind.MODIFIED: 220,
    FactKind.READ: 160,
    FactKind.COMMAND: 120,
    FactKind.ERROR: 150,
    FactKind.NAME: 80,
}
_SAID_ONCE = frozenset({FactKind.REQUEST, FactKind.RULE, FactKind.DECISION})
"""Kinds that find the same sentence in a prompt: it is told under the one that it matters most for."""

GOAL_CHARS = 400
GOAL_PRICE = -1.0
"""The first and the latest request come before all else and are told at length; the others get a line."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A fact that could be told, and its *price*: the lowest goes first.

    *whole* is what it says at more length, once everything else has its room.
    """

    price: float
    fact: Fact
    whole: str = ""


def offers(
    ledger: FactLedger, before: int, carried: Carried, kinds: Iterable[FactKind] = FactKind
) -> list[Offer]:
    """Return the facts of *kinds* before *before*, with those of *carried*, each once, cheapest first."""
    found: dict[tuple[FactKind, str], Offer] = {}
    for kind in kinds:
        for offer in _candidates(kind, ledger, before, carried):
            key = (kind, fact_key(kind, offer.fact.text))
            is_newer = key in found and bool(offer.whole)
            if offer.fact.text and not is_newer and (key not in found or offer.price < found[key].price):
                found[key] = offer
    return sorted(found.values(), key=lambda offer: offer.price)


def choose(offered: Iterable[Offer], max_chars: int) -> list[Fact]:
    """Return the facts of *offered* that fit *max_chars* once laid out, by kind, then oldest first."""
    chosen: list[Offer] = []
    titled = set[FactKind]()
    said = set[str]()
    for offer in offered:
        fact, key = offer.fact, ""
        if fact.kind in _SAID_ONCE:
            key = fact_key(fact.kind, fact.text)
        cost = len(fact.text) + 3 + (0 if fact.kind in titled else len(fact.kind.value) + 5)
        if cost <= max_chars and key not in said:
            max_chars -= cost
            titled.add(fact.kind)
            said.update(filter(None, [key]))
            chosen.append(offer)
    facts = _told_at_length(chosen, max_chars)
    order = {kind: position for position, kind in enumerate(FactKind)}
    return sorted(facts, key=lambda fact: (order[fact.kind], fact.index))


def _told_at_length(chosen: Iterable[Offer], max_chars: int) -> Iterator[Fact]:
    """Yield the chosen facts, each as long as the characters that are left allow."""
    for offer in chosen:
        more = len(offer.whole) - len(offer.fact.text)
        if 0 < more <= max_chars:
            max_chars -= more
            yield replace(offer.fact, text=offer.whole)
        else:
            yield offer.fact


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


def _candidates(kind: FactKind, ledger: FactLedger, before: int, carried: Carried) -> Iterator[Offer]:
    """Yield the ledger's facts, then those of the earlier digest, which count as older than all."""
    earlier = [fact for fact in carried.facts if fact.kind is kind]
    earlier = [replace(fact, index=position - len(earlier)) for position, fact in enumerate(earlier)]
    ranked = ledger.ranked(kind, before)
    if kind is FactKind.REQUEST:
        first = earlier[0] if earlier else ledger.first(kind, before)
        latest = next((fact for _, fact in ranked if not fact.is_minor), None)
        for fact in filter(None, (first, latest)):
            yield Offer(GOAL_PRICE, _clipped(fact, GOAL_CHARS))
    for rank, fact in ranked:
        yield _priced(_clipped(fact, _MAX_CHARS[kind]), rank)
    aged = earlier if kind is FactKind.RULE else reversed(earlier)
    for position, fact in enumerate(aged):
        yield _aged(fact, CARRIED_RANK + position)


def _aged(fact: Fact, rank: int) -> Offer:
    """Return a carried fact, first of all without what matters most while it is new."""
    match fact.kind:
        case FactKind.MODIFIED:
            short = fact_key(fact.kind, fact.text)
        case FactKind.ERROR:
            short = fact.text.rpartition("…: ")[2]
        case FactKind.COMMAND:
            short = one_line(fact.text, AGED_COMMAND_CHARS)
        case _:
            short = fact.text
    offer = _priced(replace(fact, text=short), rank)
    return offer if short == fact.text else replace(offer, whole=fact.text)


def _priced(fact: Fact, rank: int) -> Offer:
    rank += BASE_RANK + (MINOR_RANK if fact.is_minor else 0)
    least = CHEAPEST_NAME_CHARS if fact.kind in JOINED_KINDS else CHEAPEST_CHARS
    return Offer(rank * max(len(fact.text), least) / _WEIGHTS[fact.kind], fact)


def _clipped(fact: Fact, limit: int) -> Fact:
    return fact if len(fact.text) <= limit else replace(fact, text=one_line(fact.text, limit))
