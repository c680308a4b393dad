"""Selection: which facts a digest keeps when not all fit.

The problem: a digest of 1500 tokens stands for a session that may have produced a million. The facts of
the index compete for its characters, in a small economy.

    price = (8 + rank [+ 24 when minor]) * max(length, least) / weight of the kind

``rank`` is 0 for the newest of a kind; ``least`` is 40 characters, or 20 for names and paths, so that a dozen
tiny facts do not beat one error. The cheapest candidates are taken until the characters are spent, so that
old and long facts that say little are evicted. Facts of an earlier digest rank 4 behind a new one of their
kind: the oldest rule first among them, because rules do not age; of all else the newest, so that a long
session neither carries its first hour for ever nor forgets each later one at once. The first and the latest
request come before all else (price -1).

For example, with 160 characters to spend, a rule of 60 characters (weight 8, rank 0: price 60) is taken
before a command of 60 (weight 5: 96) and before an outcome of 60 (weight 4: 120).

Nothing stands in a digest twice. A name goes where another fact has it, and a failed command where its error
has it. Of outcomes that differ in a number alone, two are looked at; of older edits, the path without the
line. A second pass gives the characters that this saves to facts without room.

Invariants: deterministic; no text is reworded; each fact once. Cost: one sort of the candidates; the index
    bounds their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from msgspec import field

from sidecar._internal.values import Value
from sidecar.text.clip import one_line
from sidecar.window_budget.digest_layout import (
    JOINED_KINDS,
    PreviousDigest,
    indent,
    measure_facts,
)
from sidecar.window_budget.fact_index import NEWEST_GROUPS, FactIndex, RankedFact
from sidecar.window_budget.facts import Fact, FactKind, fact_key, key_of_cut, split_error

BASE_RANK = 8
"""Added to every rank: how little it matters to be the newest of a kind, against being short."""

MIN_LINE_CHARS = 40
"""A fact with a line of its own costs as much as this at least: "go on" is short, but says nothing."""

MIN_NAME_CHARS = 20
"""A name or a path costs as much as this at least."""

AGED_FROM_RANK, AGED_REQUEST_CHARS = 48, 80
"""How much of a prompt is kept where room is short, once so many are newer."""

AGED_COMMAND_CHARS = 72
"""How much of a carried command is kept where room is short."""

MINOR_RANK = 24
"""How much later a minor fact of its kind comes."""

CARRIED_RANK = 4
"""How much later a fact of an earlier digest comes than one as new within its kind."""

KEPT_FROM_THE_FIRST = frozenset({FactKind.REQUEST, FactKind.DECISION})
N_FIRST, FIRST_RANK = 16, 12
"""Of these kinds the first facts of a long session compete as if so few were newer."""

GROUPS_PER_FIRST = 12
"""A digest that chooses from so many groups more keeps one more of the first facts so."""

GOAL_CHARS = 400
GOAL_PRICE, TODO_PRICE = -1.0, -0.5
"""The first and the latest request come before all else and at length, then the open todos."""

NEWEST_EDITS = 16
"""How many changed files show the line that changed where room is short."""

EXCERPT_CHARS, ERROR_LINE_CHARS = 40, 200
"""How much of a command is kept with its error at least, and how much of the line that tells the fault."""

CHARS_PER_GROUP = 50
"""A digest of so many characters more chooses from one more group of each kind of fact."""

_WEIGHTS = {
    FactKind.RULE: 8.0,
    FactKind.REQUEST: 5.0,
    FactKind.DECISION: 7.0,
    FactKind.ERROR: 6.0,
    FactKind.MODIFIED: 8.0,
    FactKind.COMMAND: 5.0,
    FactKind.SEARCH: 2.0,
    FactKind.TODO: 8.0,
    FactKind.QUESTION: 8.0,
    FactKind.ENVIRONMENT: 3.0,
    FactKind.NAME: 3.0,
    FactKind.READ: 2.0,
    FactKind.OUTCOME: 4.0,
}
MINOR_OUTCOME_WEIGHT = 0.8
"""The weight of an outcome that names nothing."""

RULES_SHARE, PROMPTS_SHARE, LEAST_PROMPTS_SHARE = 0.4, 0.45, 0.3
"""How much of a digest belongs to rules and to the user's words before anything else."""

WHOLE_PROMPTS_SHARE = 0.2
"""How much of a digest the newest prompts take, word for word, before other facts have their room."""

ROOMY_CHARS = 30_000
"""A digest of so many characters gives prompts their whole shares, and a shorter one less."""

LINE_CHARS = 3
"""The bullet and the line end of a fact."""

_MAX_CHARS = {
    FactKind.REQUEST: 120,
    FactKind.RULE: 400,
    FactKind.DECISION: 160,
    FactKind.OUTCOME: 120,
    FactKind.MODIFIED: 220,
    FactKind.READ: 160,
    FactKind.COMMAND: 120,
    FactKind.SEARCH: 100,
    FactKind.TODO: 160,
    FactKind.ERROR: 150,
    FactKind.QUESTION: 400,
    FactKind.ENVIRONMENT: 100,
    FactKind.NAME: 80,
}
_PROSE_KINDS = frozenset({FactKind.REQUEST, FactKind.RULE, FactKind.DECISION, FactKind.OUTCOME})
"""Kinds that find the same sentence in a message: it is kept once, under the weightiest kind."""

_ORDER = {kind: position for position, kind in enumerate(FactKind)}
"""The order of the kinds in a digest."""


class FactCandidate(NamedTuple):
    """A fact that a digest could keep, with its *key*, and its *price*: the lowest goes first.

    *full_text* is the fact at more length, used once everything else has its room; empty when there is none.
    A long session has thousands of them in each compaction, and a tuple takes a third of the time to make.
    """

    price: float
    fact: Fact
    key: str
    full_text: str = ""


class Known(Value):
    """Everything that a digest may draw on.

    Attributes:
        index: the facts of the conversation.
        before: only facts of messages before this position count.
        previous: the earlier digests; their facts count as older than all of the index.
        rules: the rules that hold, oldest first; None to take them from the index and the earlier digests.
    """

    index: FactIndex
    before: int
    previous: PreviousDigest = field(default_factory=PreviousDigest)
    rules: tuple[str, ...] | None = None


def list_candidates(
    known: Known, max_chars: int, kinds: Iterable[FactKind] = FactKind
) -> list[FactCandidate]:
    """Return the facts that a digest could keep, each once, cheapest first.

    Args:
        known: the facts there are.
        max_chars: the size of the digest, which decides how far back is looked.
        kinds: the kinds wanted.
    """
    n_groups = max(NEWEST_GROUPS, max_chars // CHARS_PER_GROUP)
    candidates = list[FactCandidate]()
    for kind in kinds:
        found: dict[str, FactCandidate] = {}
        for candidate in _candidates_of_kind(kind, known, n_groups):
            price, fact, key, full_text = candidate
            known_one = found.get(key)
            is_better = known_one is None or (not full_text and price < known_one.price)
            if is_better and fact.text:
                found[key] = candidate
        candidates += found.values()
    return sorted(candidates, key=attrgetter("price"))


def put_first(candidates: Sequence[FactCandidate], max_chars: int) -> list[FactCandidate]:
    """Return *candidates* in the order of their claims on a digest.

    The first and the latest request and the open todos come first. Rules follow, then requests, both within
    their shares of *max_chars*; the newest requests stand there word for word, the others in short.
    """
    first = [each for each in candidates if each.price < 0]
    urgent, rest = list[FactCandidate](), list[FactCandidate]()
    roomy = min(1.0, max_chars / ROOMY_CHARS)
    share = max(LEAST_PROMPTS_SHARE, PROMPTS_SHARE * roomy)
    left = {FactKind.RULE: int(max_chars * RULES_SHARE), FactKind.REQUEST: int(max_chars * share)}
    left_whole = int(max_chars * WHOLE_PROMPTS_SHARE * roomy)
    for candidate in candidates:
        price, fact, key, full_text = candidate
        if fact.kind is FactKind.REQUEST and len(whole := full_text or fact.text) <= left_whole:
            left_whole -= len(whole)
            if whole != fact.text:
                fact = fact.with_text(whole)
                candidate = FactCandidate(price, fact, key_of_cut(fact, key), full_text)
        if price >= 0 and len(fact.text) <= left.get(fact.kind, 0):
            left[fact.kind] -= len(fact.text) + LINE_CHARS
            urgent.append(candidate)
        elif price >= 0:
            rest.append(candidate)
    urgent.sort(key=lambda each: each.fact.kind is not FactKind.RULE)
    return [*first, *urgent, *rest]


def select_facts(candidates: Iterable[FactCandidate], max_chars: int) -> list[Fact]:
    """Return the facts of *candidates* that fit *max_chars* once laid out, by kind, then oldest first."""
    chosen, left, room = list[FactCandidate](), list(candidates), max_chars
    sentences, shown = set[str](), _ShownTexts()
    while left:
        taken, left = take_fitting(left, {each.fact.kind for each in chosen}, sentences, room)
        if not taken:
            break
        new = shown.add(taken)
        # The names chosen before stand in nothing that was shown before.
        kept = [each for each in chosen if each.fact.kind is not FactKind.NAME or each.fact.text not in new]
        kept += [each for each in taken if each.fact.kind is not FactKind.NAME or not shown.has(each.fact)]
        n_dropped = len(chosen) + len(taken) - len(kept)
        chosen = drop_commands_with_errors(kept)
        room = max_chars - measure_facts(each.fact for each in chosen)
        if n_dropped + len(kept) == len(chosen):
            break

    def rest(candidate: FactCandidate) -> tuple[bool, bool]:
        """Return the order of the parts that were cut off: a few words first, then typed ones."""
        is_long = len(candidate.full_text) - len(candidate.fact.text) > MIN_LINE_CHARS
        return is_long, candidate.fact.kind is not FactKind.REQUEST

    facts: list[Fact] = []
    for _, fact, _, full_text in sorted(chosen, key=rest):
        more = len(indent(full_text)) - len(fact.text) if full_text != fact.text else 0
        if 0 < more <= room:
            room -= more
            fact = fact.with_text(full_text)
        facts.append(fact)
    return sorted(facts, key=lambda fact: (_ORDER[fact.kind], fact.index))


class _ShownTexts:
    """The texts that a digest shows beside names, all together and by the messages that they come from."""

    def __init__(self) -> None:
        self._text = ""
        self._by_message: dict[int, str] = {}

    def add(self, taken: Iterable[FactCandidate]) -> str:
        """Add the facts *taken*, and return their texts."""
        texts: list[str] = []
        for each in taken:
            if (fact := each.fact).kind is not FactKind.NAME:
                texts.append(fact.text)
                self._by_message[fact.index] = f"{self._by_message.get(fact.index, '')}\n{fact.text}"
        new = "\n".join(texts)
        self._text = f"{self._text}\n{new}"
        return new

    def has(self, name: Fact) -> bool:
        """Return whether *name* stands in a text; mostly it is one of its own message, which is short."""
        return name.text in self._by_message.get(name.index, "") or name.text in self._text


def take_fitting(
    candidates: Iterable[FactCandidate], titled: set[FactKind], sentences: set[str], room: int
) -> tuple[list[FactCandidate], list[FactCandidate]]:
    """Return the candidates that fit, and the candidates that do not fit.

    Args:
        candidates: facts, the most wanted first.
        titled: the kinds with a title there.
        sentences: the keys of the sentences there; takes up the keys of the result.
        room: the characters that are left.
    """
    taken, passed = list[FactCandidate](), list[FactCandidate]()
    for candidate in candidates:
        fact = candidate.fact
        if len(fact.text) + LINE_CHARS > room:
            passed.append(candidate)
            continue
        sentence = candidate.key if fact.kind in _PROSE_KINDS else ""
        if sentence and sentence in sentences:
            continue
        cost = len(indent(fact.text)) + LINE_CHARS + (0 if fact.kind in titled else len(fact.kind.value) + 5)
        if cost > room:
            passed.append(candidate)
            continue
        room -= cost
        titled.add(fact.kind)
        sentences.add(sentence)
        taken.append(candidate)
    return taken, passed


def drop_commands_with_errors(chosen: Sequence[FactCandidate]) -> list[FactCandidate]:
    """Return *chosen* without the commands that stand in their own errors."""
    errors = {each.fact.index: each.fact.text for each in chosen if each.fact.kind is FactKind.ERROR}
    return [
        each
        for each in chosen
        if each.fact.kind is not FactKind.COMMAND
        or not errors.get(each.fact.index, "").startswith(f"{each.fact.text}: ")
    ]


def _candidates_of_kind(kind: FactKind, known: Known, n_groups: int) -> Iterator[FactCandidate]:
    """Yield the facts of the index, then the facts of earlier digests."""
    index, before = known.index, known.before
    earlier = [fact for fact in known.previous.facts if fact.kind is kind]
    earlier = [replace(fact, index=position - len(earlier)) for position, fact in enumerate(earlier)]
    if kind is FactKind.TODO and (todos := index.todos(before)) is not None:
        for item in todos:
            yield _candidate(TODO_PRICE, Fact(kind, item, before))
        return
    if kind is FactKind.QUESTION:
        if question := index.question(before):
            yield _candidate(TODO_PRICE, Fact(kind, question, before))
        return
    if kind is FactKind.RULE and known.rules is not None:
        rules = (Fact(kind, rule, number) for number, rule in enumerate(known.rules))
        newest_first = enumerate(reversed([*rules]))
        ranked = [RankedFact(rank, fact_key(kind, fact.text), fact) for rank, fact in newest_first]
        earlier = []
    else:
        ranked = index.rank(kind, before, n_groups)
    if kind is FactKind.REQUEST:
        first = earlier[0] if earlier else index.oldest(kind, before)
        latest = next((each.fact for each in ranked if not each.fact.is_minor), None)
        for fact in filter(None, (first, latest)):
            yield _candidate(GOAL_PRICE, _shorten(fact, GOAL_CHARS), fact.text)
    n_first = min(N_FIRST, n_groups // GROUPS_PER_FIRST)
    if kind in KEPT_FROM_THE_FIRST and len(ranked) > n_first:
        n_later = len(ranked) - n_first
        ranked = [
            each if at < n_later else each._replace(rank=min(each.rank, FIRST_RANK))
            for at, each in enumerate(ranked)
        ]
    for rank, key, fact in ranked:
        is_aged = kind is FactKind.MODIFIED and rank >= NEWEST_EDITS
        is_old = kind is FactKind.REQUEST and rank >= AGED_FROM_RANK
        limit = AGED_REQUEST_CHARS if is_old else _MAX_CHARS[kind]
        short = fact
        if is_aged or len(fact.text) > limit:
            short = _shorten(fact.with_text(key) if is_aged else fact, limit)
            key = key_of_cut(short, key)
        yield FactCandidate(_price(short, rank), short, key, fact.text)
    aged = earlier if kind is FactKind.RULE else reversed(earlier)
    for position, fact in enumerate(aged):
        short = fact.with_text(shorten_carried(fact))
        yield _candidate(_price(short, CARRIED_RANK + position), short, "" if short is fact else fact.text)


def _candidate(price: float, fact: Fact, full_text: str = "") -> FactCandidate:
    return FactCandidate(price, fact, fact_key(fact.kind, fact.text), full_text)


def shorten_carried(fact: Fact) -> str:
    """Return a carried fact without the details that matter most while it is new."""
    match fact.kind:
        case FactKind.MODIFIED:
            return fact_key(fact.kind, fact.text)
        case FactKind.ERROR:
            subject, line = split_error(fact.text)
            return line if subject.endswith(("…", "]")) else fact.text
        case FactKind.COMMAND:
            return one_line(fact.text, AGED_COMMAND_CHARS)
        case _:
            return fact.text


def _price(fact: Fact, rank: int) -> float:
    rank += BASE_RANK + (MINOR_RANK if fact.is_minor else 0)
    least = MIN_NAME_CHARS if fact.kind in JOINED_KINDS else MIN_LINE_CHARS
    is_mere = fact.kind is FactKind.OUTCOME and fact.is_minor
    return rank * max(len(fact.text), least) / (MINOR_OUTCOME_WEIGHT if is_mere else _WEIGHTS[fact.kind])


@lru_cache(maxsize=2_048)
def _shorten(fact: Fact, limit: int) -> Fact:
    if len(fact.text) <= limit:
        return fact
    subject, line = split_error(fact.text) if fact.kind is FactKind.ERROR else ("", "")
    if subject:
        subject = one_line(subject, max(EXCERPT_CHARS, limit - len(line) - 2))
        return fact.with_text(f"{subject}: {one_line(line, ERROR_LINE_CHARS)}")
    return fact.with_text(one_line(fact.text, limit))
