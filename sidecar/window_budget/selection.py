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
before a command of 60 (weight 5: 96) and before an outcome of 60 (weight 0.8: 600).

Nothing stands in a digest twice. A name goes where another fact has it, and a failed command where its error
has it. Of outcomes that differ in a number alone, two are looked at; of older edits, the path without the
line. A second pass gives the characters that this saves to facts without room.

Invariants: deterministic; no text is reworded; each fact once. Cost: one sort of the candidates; the index
    bounds their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sidecar.window_budget.digest_layout import JOINED_KINDS, PreviousDigest, indent, render_facts
from sidecar.window_budget.fact_index import NEWEST_GROUPS, FactIndex
from sidecar.window_budget.facts import Fact, FactKind, fact_key, split_error
from sidecar.window_budget.text import one_line

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

GOAL_CHARS = 400
GOAL_PRICE, TODO_PRICE = -1.0, -0.5
"""The first and the latest request come before all else and at length, then the open todos."""

NEWEST_EDITS = 16
"""How many changed files show the line that changed where room is short."""

EXCERPT_CHARS = 40
"""How much of a command is kept with its error at least."""

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
    FactKind.NAME: 2.0,
    FactKind.READ: 2.0,
    FactKind.OUTCOME: 0.8,
}
_SHARES = {FactKind.RULE: 0.4, FactKind.REQUEST: 0.3}
"""How much of a digest belongs to rules and to the user's words before anything else."""

WHOLE_PROMPTS_SHARE = 0.08
"""How much of a digest the newest prompts take, word for word, before other facts have their room."""

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


@dataclass(frozen=True, slots=True)
class FactCandidate:
    """A fact that a digest could keep, and its *price*: the lowest goes first.

    *full_text* is the fact at more length, used once everything else has its room; empty when there is none.
    """

    price: float
    fact: Fact
    full_text: str = ""


@dataclass(frozen=True, slots=True)
class Known:
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
    found: dict[tuple[FactKind, str], FactCandidate] = {}
    for kind in kinds:
        for candidate in _candidates_of_kind(kind, known, n_groups):
            key = (kind, fact_key(kind, candidate.fact.text))
            is_newer = key in found and bool(candidate.full_text)
            if (
                candidate.fact.text
                and not is_newer
                and (key not in found or candidate.price < found[key].price)
            ):
                found[key] = candidate
    return sorted(found.values(), key=lambda candidate: candidate.price)


def put_first(candidates: Sequence[FactCandidate], max_chars: int) -> list[FactCandidate]:
    """Return *candidates* in the order of their claims on a digest.

    The first and the latest request and the open todos come first. Rules follow, then requests, both within
    their shares of *max_chars*; the newest requests stand there word for word, the others in short.
    """
    first = [each for each in candidates if each.price < 0]
    urgent, rest = list[FactCandidate](), list[FactCandidate]()
    left = {kind: int(max_chars * share) for kind, share in _SHARES.items()}
    left_whole = int(max_chars * WHOLE_PROMPTS_SHARE)
    for candidate in candidates:
        fact, whole = candidate.fact, candidate.full_text or candidate.fact.text
        if fact.kind is FactKind.REQUEST and len(whole) <= left_whole:
            left_whole -= len(whole)
            candidate = replace(candidate, fact=fact.with_text(whole))
        if candidate.price >= 0 and len(candidate.fact.text) <= left.get(fact.kind, 0):
            left[fact.kind] -= len(candidate.fact.text) + LINE_CHARS
            urgent.append(candidate)
        elif candidate.price >= 0:
            rest.append(candidate)
    urgent.sort(key=lambda each: each.fact.kind is not FactKind.RULE)
    return [*first, *urgent, *rest]


def select_facts(candidates: Iterable[FactCandidate], max_chars: int) -> list[Fact]:
    """Return the facts of *candidates* that fit *max_chars* once laid out, by kind, then oldest first."""
    chosen, left, room = list[FactCandidate](), list(candidates), max_chars
    while left:
        taken, passed = take_fitting(left, chosen, room)
        chosen = drop_repeated(taken)
        room = max_chars - len(render_facts(each.fact for each in chosen))
        if len(chosen) == len(taken) or len(passed) == len(left):
            break
        left = passed
    facts: list[Fact] = []
    # What users typed comes first here as well.
    for candidate in sorted(chosen, key=lambda each: each.fact.kind is not FactKind.REQUEST):
        more = len(indent(candidate.full_text)) - len(candidate.fact.text)
        if candidate.full_text != candidate.fact.text and 0 < more <= room:
            room -= more
            facts.append(candidate.fact.with_text(candidate.full_text))
        else:
            facts.append(candidate.fact)
    order = {kind: position for position, kind in enumerate(FactKind)}
    return sorted(facts, key=lambda fact: (order[fact.kind], fact.index))


def take_fitting(
    candidates: Iterable[FactCandidate], chosen: Iterable[FactCandidate], room: int
) -> tuple[list[FactCandidate], list[FactCandidate]]:
    """Return *chosen* with the candidates that fit beside them, and the candidates that do not fit.

    Args:
        candidates: more facts, the most wanted first.
        chosen: the facts that have their room.
        room: the characters that are left.
    """
    taken, passed = list(chosen), list[FactCandidate]()
    titled = {each.fact.kind for each in taken}
    kept_sentences = {_sentence_of(each.fact) for each in taken}
    for candidate in candidates:
        fact, sentence = candidate.fact, _sentence_of(candidate.fact)
        cost = len(indent(fact.text)) + LINE_CHARS + (0 if fact.kind in titled else len(fact.kind.value) + 5)
        if sentence and sentence in kept_sentences:
            continue
        if cost <= room:
            room -= cost
            titled.add(fact.kind)
            kept_sentences.add(sentence)
            taken.append(candidate)
        else:
            passed.append(candidate)
    return taken, passed


def _sentence_of(fact: Fact) -> str:
    return fact_key(fact.kind, fact.text) if fact.kind in _PROSE_KINDS else ""


def drop_repeated(chosen: Sequence[FactCandidate]) -> list[FactCandidate]:
    """Return *chosen*, by kind and age, without names and commands that stand in other facts."""
    said = "\n".join(each.fact.text for each in chosen if each.fact.kind is not FactKind.NAME)
    errors = {each.fact.index: each.fact.text for each in chosen if each.fact.kind is FactKind.ERROR}

    def is_repeated(fact: Fact) -> bool:
        if fact.kind is FactKind.COMMAND:
            return errors.get(fact.index, "").startswith(f"{fact.text}: ")
        return fact.kind is FactKind.NAME and fact.text in said

    return [each for each in chosen if not is_repeated(each.fact)]


def _candidates_of_kind(kind: FactKind, known: Known, n_groups: int) -> Iterator[FactCandidate]:
    """Yield the facts of the index, then the facts of earlier digests."""
    index, before = known.index, known.before
    earlier = [fact for fact in known.previous.facts if fact.kind is kind]
    earlier = [replace(fact, index=position - len(earlier)) for position, fact in enumerate(earlier)]
    ranked = index.rank(kind, before, n_groups)
    if kind is FactKind.RULE and known.rules is not None:
        facts = [Fact(kind, rule, number) for number, rule in enumerate(known.rules)]
        ranked, earlier = list(enumerate(reversed(facts))), []
    if kind is FactKind.TODO and (todos := index.todos(before)) is not None:
        yield from (FactCandidate(TODO_PRICE, Fact(kind, item, before)) for item in todos)
        return
    if kind is FactKind.QUESTION:
        if question := index.question(before):
            yield FactCandidate(TODO_PRICE, Fact(kind, question, before))
        return
    if kind is FactKind.REQUEST:
        first = earlier[0] if earlier else index.oldest(kind, before)
        latest = next((fact for _, fact in ranked if not fact.is_minor), None)
        for fact in filter(None, (first, latest)):
            yield FactCandidate(GOAL_PRICE, _shorten(fact, GOAL_CHARS), fact.text)
    for rank, fact in ranked:
        is_aged = kind is FactKind.MODIFIED and rank >= NEWEST_EDITS
        short = fact.with_text(fact_key(kind, fact.text)) if is_aged else fact
        is_old = kind is FactKind.REQUEST and rank >= AGED_FROM_RANK
        limit = AGED_REQUEST_CHARS if is_old else _MAX_CHARS[kind]
        yield _price(_shorten(short, limit), rank, fact.text)
    aged = earlier if kind is FactKind.RULE else reversed(earlier)
    for position, fact in enumerate(aged):
        short = fact.with_text(shorten_carried(fact))
        yield _price(short, CARRIED_RANK + position, "" if short is fact else fact.text)


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


def _price(fact: Fact, rank: int, full_text: str) -> FactCandidate:
    rank += BASE_RANK + (MINOR_RANK if fact.is_minor else 0)
    least = MIN_NAME_CHARS if fact.kind in JOINED_KINDS else MIN_LINE_CHARS
    return FactCandidate(rank * max(len(fact.text), least) / _WEIGHTS[fact.kind], fact, full_text)


def _shorten(fact: Fact, limit: int) -> Fact:
    if len(fact.text) <= limit:
        return fact
    subject, line = split_error(fact.text) if fact.kind is FactKind.ERROR else ("", "")
    if subject:
        subject = one_line(subject, max(EXCERPT_CHARS, limit - len(line) - 2))
        return fact.with_text(one_line(f"{subject}: {line}", limit))
    return fact.with_text(one_line(fact.text, limit))
