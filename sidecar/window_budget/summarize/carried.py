"""Reading an earlier digest again, so that carrying it on never nests one digest in another.

Our own local digests fall apart into their facts; a model's digest stays the prose it is. Nothing is judged
here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sidecar.window_budget.marks import BRANCH_HEADER, DIGEST_HEADER
from sidecar.window_budget.summarize.facts import Fact, FactKind

__all__ = ["CARRYOVER", "COUNT_LINE", "JOINED_KINDS", "JOINT", "Carried", "guardrails_in", "read_digest"]

CARRYOVER = "# Carryover"
COUNT_LINE = "{} earlier message{} condensed without a model."
JOINT = "; "
JOINED_KINDS = frozenset({FactKind.READ, FactKind.NAME})
"""Kinds that stand on one line, parted by :data:`JOINT`."""

_COUNTED = re.compile(r"^\d+ earlier messages? condensed without a model\.$")
_SECTIONS = {f"## {kind.value}": kind for kind in FactKind}
_HEADERS = frozenset({DIGEST_HEADER, BRANCH_HEADER, "[condensed earlier context]"})
_GUARDRAILS = re.compile(r"^#+\s*guardrails\b", re.IGNORECASE)
_BULLET = re.compile(r"^\s*[-*•]\s+")


@dataclass(frozen=True, slots=True)
class Carried:
    """An earlier digest: the facts of its own sections, in order, and whatever else it says, line by line."""

    facts: tuple[Fact, ...] = ()
    prose: tuple[str, ...] = ()


def read_digest(text: str) -> Carried:
    """Return what the digest *text* says; headers and counts fall away.

    >>> carried = read_digest("# Plan\\nship it\\n## Rules\\n- be brief")
    >>> carried.prose, [fact.text for fact in carried.facts]
    (('# Plan', 'ship it'), ['be brief'])
    """
    facts: list[Fact] = []
    prose: list[str] = []
    section: FactKind | None = None
    for line in _own_lines(text):
        if line in _SECTIONS:
            section = _SECTIONS[line]
        elif section is not None and line.startswith("- "):
            facts.extend(Fact(section, item) for item in _items(section, line[2:]))
        elif line or prose[-1:] not in ([], [""]):
            section = None
            prose.append(line)
    while prose and not prose[-1]:
        prose.pop()
    return Carried(tuple(facts), tuple(prose))


def guardrails_in(carried: Carried) -> Iterator[str]:
    """Yield the rules in *carried*: those of our own section, and the lines under a guardrails heading.

    >>> list(guardrails_in(read_digest("# Guardrails\\n- never push\\n# Plan\\n- push")))
    ['never push']
    """
    inside = False
    for line in carried.prose:
        if line.startswith("#"):
            inside = bool(_GUARDRAILS.match(line))
        elif inside and (rule := _BULLET.sub("", line).strip()).casefold().rstrip(".") not in ("", "none"):
            yield rule
    yield from (fact.text for fact in carried.facts if fact.kind is FactKind.RULE)


def _own_lines(text: str) -> Iterator[str]:
    """Yield the lines of *text* without headers and without the count under our own heading."""
    lines = [line.rstrip() for line in text.strip().split("\n")]
    for number, line in enumerate(lines):
        follows = lines[number + 1] if number + 1 < len(lines) else ""
        is_ours = _COUNTED.match(line) or (line == CARRYOVER and _COUNTED.match(follows))
        if line not in _HEADERS and not is_ours:
            yield line


def _items(kind: FactKind, line: str) -> list[str]:
    return [item for item in line.split(JOINT) if item] if kind in JOINED_KINDS else [line]
