"""The layout of a local digest: one section per kind of fact, read again without loss.

A digest that is carried on merges its facts with newer ones, and never nests one digest in another; so it is
read as facts again. Everything that is not in a section of ours is *prose*, as a model or another engine
writes it.

Nothing is written twice. Searches of one place name it once: ``a in src`` and ``b in src`` and ``c in src``
stand as ``a; b; c (each in src)``, and are read as three facts again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sidecar._internal.values import Value
from sidecar.text.clip import one_line
from sidecar.window_budget.facts import Fact, FactKind
from sidecar.window_budget.message import BRANCH_HEADER, DIGEST_HEADER

CARRYOVER = "# Carryover"
COUNT_LINE = "{} earlier message{} condensed without a model."
NOT_RESTORED = "Not restored: "
"""Begins the line that names files that could not come back. It is true of its own compaction alone."""

JOINT = "; "
INDENT = "  "
"""Begins each further line of a fact of several lines."""

JOINED_KINDS = frozenset({FactKind.READ, FactKind.SEARCH, FactKind.ENVIRONMENT, FactKind.NAME})
"""Kinds that stand on one line, parted by :data:`JOINT`."""

PROSE_LINE_CHARS = 400
"""How much of one line of prose is kept once the whole does not fit."""

SHARED_PLACES = 3
"""So many searches of one place name it once."""

_COUNTED = re.compile(r"^\d+ earlier messages? condensed without a model\.$")
_SECTIONS = {f"## {kind.value}": kind for kind in FactKind}
_FOREIGN_HEADER = re.compile(r"\A\s*\[[^\[\]\n]{1,80}\] *(?:\n|\Z)")
"""An opening line in square brackets: the mark of another engine, which this one need not know."""

_GUARDRAILS = re.compile(r"^#+\s*guardrails\b", re.IGNORECASE)
_BULLET = re.compile(r"^\s*[-*•]\s+")
_EACH_IN = re.compile(r"(.*) \(each in (.+)\)\Z")


class PreviousDigest(Value):
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


def render_facts(facts: Iterable[Fact]) -> str:
    """Return *facts* under the titles of their kinds; empty for none.

    >>> rule = Fact(FactKind.RULE, "be brief")
    >>> print(render_facts([rule, Fact(FactKind.READ, "a.py"), Fact(FactKind.READ, "b.py")]))
    ## Rules
    - be brief
    ## Files read
    - a.py; b.py
    """
    lines: list[str] = []
    for kind, texts in list_sections(facts):
        lines.append(f"## {kind.value}")
        lines.extend(f"- {indent(text)}" for text in texts)
    return "\n".join(lines)


def measure_facts(facts: Iterable[Fact]) -> int:
    """Return the length of the text that :func:`render_facts` returns of *facts*, which is not written.

    >>> measure_facts([Fact(FactKind.RULE, "be brief"), Fact(FactKind.READ, "a.py")])
    40
    """
    length = 0
    for kind, texts in list_sections(facts):
        together = "\n".join(texts)
        n_further = together.count("\n") + 1 - len(texts)
        length += len(f"## {kind.value}\n{together}\n") + len("- ") * len(texts) + len(INDENT) * n_further
    return max(0, length - 1)


def list_sections(facts: Iterable[Fact]) -> Iterator[tuple[FactKind, list[str]]]:
    """Yield the kinds of *facts*, each with the texts that have a bullet under its title."""
    by_kind: dict[FactKind, list[str]] = {}
    for fact in facts:
        by_kind.setdefault(fact.kind, []).append(fact.text)
    for kind, texts in by_kind.items():
        if kind is FactKind.SEARCH:
            yield kind, [*join_by_place(texts)]
        else:
            yield kind, [JOINT.join(texts)] if kind in JOINED_KINDS else texts


def join_by_place(searches: Sequence[str]) -> Iterator[str]:
    """Yield the lines for *searches*: a line for each place that several have, and one for the others."""
    by_place: dict[str, list[str]] = {}
    for search in searches:
        wanted, _, place = search.rpartition(" in ")
        by_place.setdefault(place if wanted else "", []).append(search)
    others: list[str] = []
    for place, found in by_place.items():
        if place and len(found) >= SHARED_PLACES:
            yield f"{JOINT.join(each.removesuffix(f' in {place}') for each in found)} (each in {place})"
        else:
            others += found
    if others:
        yield JOINT.join(others)


def parse_digest(text: str) -> PreviousDigest:
    """Return the content of the digest *text*; headers and our lines about one compaction fall away.

    >>> previous = parse_digest("# Plan\\nship it\\n## Rules\\n- be brief")
    >>> previous.prose, [fact.text for fact in previous.facts]
    (('# Plan', 'ship it'), ['be brief'])
    """
    facts: list[Fact] = []
    prose: list[str] = []
    section: FactKind | None = None
    lines = [line.rstrip() for line in _FOREIGN_HEADER.sub("", text).strip().split("\n")]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line in (DIGEST_HEADER, BRANCH_HEADER) or _COUNTED.match(line) or line.startswith(NOT_RESTORED):
            continue
        if line == CARRYOVER and _COUNTED.match(following):
            continue
        if line in _SECTIONS:
            section = _SECTIONS[line]
        elif section is not None and line.startswith("- "):
            each_in = _EACH_IN.match(line[2:]) if section is FactKind.SEARCH else None
            items = (each_in[1] if each_in else line[2:]).split(JOINT)
            if section not in JOINED_KINDS:
                items = [line[2:]]
            elif each_in:
                items = [f"{item} in {each_in[2]}" for item in items]
            facts.extend(Fact(section, item) for item in items if item or section not in JOINED_KINDS)
        elif section is not None and line.startswith(INDENT) and facts:
            facts[-1] = replace(facts[-1], text=f"{facts[-1].text}\n{line.removeprefix(INDENT)}")
        elif line or prose[-1:] not in ([], [""]):
            section = None
            prose.append(line)
    while prose and not prose[-1]:
        prose.pop()
    return PreviousDigest(tuple(facts), tuple(prose))


def indent(text: str) -> str:
    """Return *text* as a fact of a digest, its further lines indented."""
    return text.replace("\n", f"\n{INDENT}")
