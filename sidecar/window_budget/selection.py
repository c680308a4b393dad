"""Selection: which facts a digest keeps when not all fit, and how they are laid out and read again.

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

The layout is one section per kind. :func:`parse_digest` reads it again, so that carrying a digest on merges
its facts and never nests one digest in another.

Invariants: deterministic; no text is reworded; each fact once. Cost: one sort of the candidates; the index
    bounds their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sidecar.window_budget.fact_index import NEWEST_GROUPS, FactIndex
from sidecar.window_budget.facts import Fact, FactKind, fact_key
from sidecar.window_budget.message import BRANCH_HEADER, DIGEST_HEADER
from sidecar.window_budget.text import one_line

CARRYOVER = "# Carryover"
COUNT_LINE = "{} earlier message{} condensed without a model."
JOINT = "; "
INDENT = "  "
"""Begins each further line of a fact of several lines."""

JOINED_KINDS = frozenset({FactKind.READ, FactKind.SEARCH, FactKind.ENVIRONMENT, FactKind.NAME})
"""Kinds that stand on one line, parted by :data:`JOINT`."""

PROSE_LINE_CHARS = 400
"""How much of one line of prose is kept once the whole does not fit."""

BASE_RANK = 8
"""Added to every rank: how little it matters to be the newest of a kind, against being short."""

MIN_LINE_CHARS = 40
"""A fact with a line of its own costs as much as this at least: "go on" is short, but says nothing."""

MIN_NAME_CHARS = 20
"""A name or a path costs as much as this at least."""

AGED_COMMAND_CHARS = 72
"""How much of a carried command is kept where room is short."""

MINOR_RANK = 24
"""How much later a minor fact of its kind comes."""

CARRIED_RANK = 4
"""How much later a fact of an earlier digest comes than one as new within its kind."""

GOAL_CHARS = 400
GOAL_PRICE, TODO_PRICE = -1.0, -0.5
"""The first and the latest request come before all else and at length, then the open todos."""

CHARS_PER_GROUP = 50
"""A digest of so many characters more chooses from one more group of each kind of fact."""

_WEIGHTS = {
    FactKind.RULE: 8.0,
    FactKind.REQUEST: 5.0,
    FactKind.DECISION: 7.0,
    FactKind.ERROR: 4.0,
    FactKind.MODIFIED: 8.0,
    FactKind.COMMAND: 5.0,
    FactKind.SEARCH: 2.0,
    FactKind.TODO: 8.0,
    FactKind.QUESTION: 8.0,
    FactKind.ENVIRONMENT: 3.0,
    FactKind.NAME: 1.5,
    FactKind.READ: 2.0,
    FactKind.OUTCOME: 0.8,
}
_SHARES = {FactKind.RULE: 0.4, FactKind.REQUEST: 0.3}
"""How much of a digest belongs to rules and to the user's words before anything else."""

WHOLE_PROMPTS_SHARE = 0.15
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

_COUNTED = re.compile(r"^\d+ earlier messages? condensed without a model\.$")
_SECTIONS = {f"## {kind.value}": kind for kind in FactKind}
_FOREIGN_HEADER = re.compile(r"\A\s*\[[^\[\]\n]{1,80}\] *(?:\n|\Z)")
"""An opening line in square brackets: the mark of another engine, which this one need not know."""

_GUARDRAILS = re.compile(r"^#+\s*guardrails\b", re.IGNORECASE)
_BULLET = re.compile(r"^\s*[-*•]\s+")


@dataclass(frozen=True, slots=True)
class FactCandidate:
    """A fact that a digest could keep, and its *price*: the lowest goes first.

    *full_text* is the fact at more length, used once everything else has its room; empty when there is none.
    """

    price: float
    fact: Fact
    full_text: str = ""


@dataclass(frozen=True, slots=True)
class PreviousDigest:
    """An earlier digest: the facts of our own sections, in order, and all its other lines as *prose*."""

    facts: tuple[Fact, ...] = ()
    prose: tuple[str, ...] = ()

    @property
    def prose_chars(self) -> int:
        """The length of the prose as text."""
        return sum(len(line) + 1 for line in self.prose)

    def fit_prose(self, max_chars: int) -> str:
        """Return the prose within *max_chars*: headings, then guardrails, then the top of every section.

        A heading goes when no line of its section is kept.
        """
        whole = "\n".join(self.prose)
        if len(whole) <= max_chars:
            return whole
        lines = [one_line(line, PROSE_LINE_CHARS) for line in self.prose]
        depth, by_depth = 0, list[tuple[int, int]]()
        in_rules = False
        for number, line in enumerate(lines):
            if line.startswith("#"):
                depth, in_rules = 0, "guardrails" in line.casefold()
            else:
                depth += 1
            by_depth.append((0 if in_rules else depth, number))
        kept: list[int] = []
        for _, number in sorted(by_depth):
            cost = len(lines[number]) + 1
            if 1 < cost <= max_chars:
                max_chars -= cost
                kept.append(number)
        chosen = [lines[number] for number in sorted(kept)]
        following = [*chosen, "#"][1:]
        pairs = zip(chosen, following, strict=True)
        return "\n".join(
            line for line, after in pairs if not (line.startswith("#") and after.startswith("#"))
        )

    def rules(self) -> Iterator[str]:
        """Yield its rules: the lines under a guardrails heading, then the facts of our own section.

        >>> list(parse_digest("# Guardrails\\n- never push\\n# Plan\\n- push").rules())
        ['never push']
        """
        inside = False
        for line in self.prose:
            if line.startswith("#"):
                inside = bool(_GUARDRAILS.match(line))
            elif inside and (rule := _BULLET.sub("", line).strip()).casefold().rstrip(".") not in (
                "",
                "none",
            ):
                yield rule
        yield from (fact.text for fact in self.facts if fact.kind is FactKind.RULE)


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
    previous: PreviousDigest = PreviousDigest()
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
        fact = candidate.fact
        whole = replace(fact, text=candidate.full_text or fact.text)
        if fact.kind is FactKind.REQUEST and len(whole.text) <= left_whole:
            left_whole -= len(whole.text)
            candidate = replace(candidate, fact=whole)
        if candidate.price >= 0 and len(candidate.fact.text) <= left.get(fact.kind, 0):
            left[fact.kind] -= len(candidate.fact.text) + LINE_CHARS
            urgent.append(candidate)
        elif candidate.price >= 0:
            rest.append(candidate)
    urgent.sort(key=lambda each: each.fact.kind is not FactKind.RULE)
    return [*first, *urgent, *rest]


def select_facts(candidates: Iterable[FactCandidate], max_chars: int) -> list[Fact]:
    """Return the facts of *candidates* that fit *max_chars* once laid out, by kind, then oldest first."""
    chosen: list[FactCandidate] = []
    titled = set[FactKind]()
    kept_sentences = set[str]()
    for candidate in candidates:
        fact = candidate.fact
        key = fact_key(fact.kind, fact.text) if fact.kind in _PROSE_KINDS else ""
        cost = len(_indent(fact.text)) + LINE_CHARS + (0 if fact.kind in titled else len(fact.kind.value) + 5)
        if cost <= max_chars and key not in kept_sentences:
            max_chars -= cost
            titled.add(fact.kind)
            kept_sentences.update(filter(None, [key]))
            chosen.append(candidate)
    facts: list[Fact] = []
    # What users typed comes first here as well.
    for candidate in sorted(chosen, key=lambda each: each.fact.kind is not FactKind.REQUEST):
        more = len(_indent(candidate.full_text)) - len(candidate.fact.text)
        if candidate.full_text != candidate.fact.text and 0 < more <= max_chars:
            max_chars -= more
            facts.append(replace(candidate.fact, text=candidate.full_text))
        else:
            facts.append(candidate.fact)
    order = {kind: position for position, kind in enumerate(FactKind)}
    said = "\n".join(fact.text for fact in facts if fact.kind is not FactKind.NAME)
    facts = [fact for fact in facts if fact.kind is not FactKind.NAME or fact.text not in said]
    return sorted(facts, key=lambda fact: (order[fact.kind], fact.index))


def render_facts(facts: Iterable[Fact]) -> str:
    """Return *facts* under the titles of their kinds; empty for none.

    >>> rule = Fact(FactKind.RULE, "be brief")
    >>> print(render_facts([rule, Fact(FactKind.READ, "a.py"), Fact(FactKind.READ, "b.py")]))
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
        lines.extend(
            f"- {_indent(text)}" for text in ([JOINT.join(texts)] if kind in JOINED_KINDS else texts)
        )
    return "\n".join(lines)


def parse_digest(text: str) -> PreviousDigest:
    """Return the content of the digest *text*; headers and our own count line fall away.

    >>> previous = parse_digest("# Plan\\nship it\\n## Rules\\n- be brief")
    >>> previous.prose, [fact.text for fact in previous.facts]
    (('# Plan', 'ship it'), ['be brief'])
    """
    facts: list[Fact] = []
    prose: list[str] = []
    section: FactKind | None = None
    lines = [line.rstrip() for line in _FOREIGN_HEADER.sub("", text).strip().split("\n")]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line in (DIGEST_HEADER, BRANCH_HEADER) or _COUNTED.match(line):
            continue
        if line == CARRYOVER and _COUNTED.match(following):
            continue
        if line in _SECTIONS:
            section = _SECTIONS[line]
        elif section is not None and line.startswith("- "):
            items = line[2:].split(JOINT) if section in JOINED_KINDS else [line[2:]]
            facts.extend(Fact(section, item) for item in items if item or section not in JOINED_KINDS)
        elif section is not None and line.startswith(INDENT) and facts:
            facts[-1] = replace(facts[-1], text=f"{facts[-1].text}\n{line.removeprefix(INDENT)}")
        elif line or prose[-1:] not in ([], [""]):
            section = None
            prose.append(line)
    while prose and not prose[-1]:
        prose.pop()
    return PreviousDigest(tuple(facts), tuple(prose))


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
        yield replace(_price(_shorten(fact, _MAX_CHARS[kind]), rank), full_text=fact.text)
    aged = earlier if kind is FactKind.RULE else reversed(earlier)
    for position, fact in enumerate(aged):
        candidate = _price(replace(fact, text=shorten_carried(fact)), CARRIED_RANK + position)
        is_cut = candidate.fact.text != fact.text
        yield replace(candidate, full_text=fact.text) if is_cut else candidate


def shorten_carried(fact: Fact) -> str:
    """Return a carried fact without the details that matter most while it is new."""
    match fact.kind:
        case FactKind.MODIFIED:
            return fact_key(fact.kind, fact.text)
        case FactKind.ERROR:
            return fact.text.rpartition("…: ")[2]
        case FactKind.COMMAND:
            return one_line(fact.text, AGED_COMMAND_CHARS)
        case _:
            return fact.text


def _indent(text: str) -> str:
    return text.replace("\n", f"\n{INDENT}")


def _price(fact: Fact, rank: int) -> FactCandidate:
    rank += BASE_RANK + (MINOR_RANK if fact.is_minor else 0)
    least = MIN_NAME_CHARS if fact.kind in JOINED_KINDS else MIN_LINE_CHARS
    return FactCandidate(rank * max(len(fact.text), least) / _WEIGHTS[fact.kind], fact)


def _shorten(fact: Fact, limit: int) -> Fact:
    return fact if len(fact.text) <= limit else replace(fact, text=one_line(fact.text, limit))
