"""Values about the facts of a conversation, as clients see them: a loss report, its counts, and pins.

They are apart from :mod:`sidecar.conductor.contract` because of its length alone. Imports nothing but the
standard library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from sidecar._internal.values import Value
from sidecar.text.clip import clip

FactName: TypeAlias = Literal["request", "outcome", "modified", "read", "command", "search", "error"]
"""A kind of fact: the words of the user or of the agent, a changed or read file, a command, a result that was
looked up, or a failure."""

FactState: TypeAlias = Literal["kept", "shortened", "line", "gone"]
"""How the model sees a fact: whole, in part, as a share of a line that stands for several, or not at all."""

_LINE_CHARS: Final = 160
_STATE_WORDS: Final[Mapping[FactState, str]] = {"gone": "let go", "line": "in one line"}
_NOUNS: Final[Mapping[FactName, str]] = {"modified": "changed file", "read": "read file"}
_PINNED: Final = "The user pinned these passages of the conversation. They hold, word for word:"


@dataclass(frozen=True, slots=True)
class KindLoss:
    """The facts of one kind that a compaction folded away, by their state."""

    kind: FactName
    kept: int
    shortened: int
    let_go: int = field(metadata={"wire": "gone"})
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """The facts that stood in the folded part of a conversation, each counted once.

    The model still sees the *kept* ones whole, the *shortened* ones in part, and of each in *line* that it
    was there. *share* is the part of the folded text that it sees, from 0 to 1. *mended* is the number of
    lines that were dropped from a model's summary because they could not be true.
    """

    kept: int
    shortened: int
    let_go: int = field(metadata={"wire": "gone"})
    mended: int = 0
    kinds: tuple[KindLoss, ...] = ()
    line: int | None = None
    share: float | None = None

    @property
    def total(self) -> int:
        """The number of facts."""
        return self.kept + self.shortened + (self.line or 0) + self.let_go


class ReportedFact(Value):
    """One fact of a loss report; *nodeId* is the node that holds it, on the branch before the compaction.

    *factId* is the same in every report of a session. *place* is the place of the node in the chronicle. A
    text is cut to 2,000 characters.
    """

    fact_id: str
    kind: FactName
    state: FactState
    text: str
    node_id: str
    pinned: bool = False
    place: int | None = None


def describe_loss(kept: int, shortened: int, let_go: int, mended: int = 0, line: int = 0) -> str:
    """Return the counts of a loss report as one line for a user.

    >>> describe_loss(95, 3, 12)
    'Facts of the folded part: 95 kept word for word, 3 shortened, 12 let go.'
    >>> describe_loss(95, 3, 0, line=40)
    'Facts of the folded part: 95 kept word for word, 3 shortened, 40 in one line of several, 0 let go.'
    """
    counts = f"{kept:,} kept word for word, {shortened:,} shortened"
    counts += f", {line:,} in one line of several" if line else ""
    lines = f" {mended} unfounded line{'s' * (mended != 1)} of the summary dropped." if mended else ""
    return f"Facts of the folded part: {counts}, {let_go:,} let go.{lines}"


def report_loss(kept: int, shortened: int, let_go: int, mended: int = 0, line: int = 0) -> str:
    """Return the line of a compaction that was made, with the command that lists the thinned facts.

    >>> report_loss(95, 3, 12)
    'Facts of the folded part: 95 kept word for word, 3 shortened, 12 let go. /loss lists them.'
    """
    counts = describe_loss(kept, shortened, let_go, mended, line)
    return f"{counts} /loss lists them." if shortened or line or let_go else counts


def draw_loss(kept: int, shortened: int, line: int, let_go: int, width: int = 24) -> str:
    """Return a strip of *width* cells, from whole to gone; each count that is not 0 has one at least.

    >>> draw_loss(6, 12, 6, 0), draw_loss(1, 0, 200, 0), draw_loss(0, 0, 0, 0)
    ('██████▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░', '█░░░░░░░░░░░░░░░░░░░░░░░', '')
    """
    counts = (kept, shortened, line, let_go)
    total = sum(counts)
    if not total:
        return ""
    cells = [max(1, width * count // total) if count else 0 for count in counts]
    cells[cells.index(max(cells))] += width - sum(cells)
    return "".join(sign * n for sign, n in zip("█▓░·", cells, strict=True))


def count_kind(kind: FactName, n_facts: int) -> str:
    """Return a number of facts of one kind in words.

    >>> count_kind("search", 2), count_kind("modified", 1), count_kind("error", 1)
    ('2 searches', '1 changed file', '1 error')
    """
    noun = _NOUNS.get(kind, kind)
    return f"{n_facts:,} {noun}{('es' if noun == 'search' else 's') * (n_facts != 1)}"


def fact_line(fact: ReportedFact) -> str:
    """Return *fact* as one line for a user.

    >>> fact_line(ReportedFact("0a1b2c3d4e", "command", "gone", "make test [exit 2]", "n7"))
    '- 0a1b2c3d4e let go, command: make test [exit 2]'
    """
    state = _STATE_WORDS.get(fact.state, fact.state)
    text = clip(fact.text, _LINE_CHARS)
    return f"- {fact.fact_id} {state}{', pinned' * fact.pinned}, {fact.kind}: {text}"


class Pin(Value):
    """A text that the model sees word for word in each request; *nodeId* is its node, null for none.

    The pin of a fact has the id of the fact.
    """

    pin_id: str
    text: str
    node_id: str | None = None


def describe_pins(pins: Sequence[Pin]) -> str:
    """Return *pins* as a part of the system prompt; empty for none.

    >>> print(describe_pins([Pin("0a1b2c3d4e", "port 7013"), Pin("1b2c3d4e5f", "one\\ntwo")]))
    The user pinned these passages of the conversation. They hold, word for word:
    <BLANKLINE>
    - port 7013
    - one
      two
    """
    lines = ("- " + pin.text.replace("\n", "\n  ") for pin in pins)
    return "\n".join((f"{_PINNED}\n", *lines)) if pins else ""
