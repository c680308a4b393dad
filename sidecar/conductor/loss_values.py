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

FactName: TypeAlias = Literal[
    "request",
    "rule",
    "todo",
    "question",
    "decision",
    "outcome",
    "modified",
    "read",
    "command",
    "search",
    "error",
    "environment",
    "name",
]
"""A kind of fact, such as a request of the user, a rule, a decision, a changed file or a command."""

FactState: TypeAlias = Literal["kept", "shortened", "gone"]
"""Whether the model still sees a fact word for word, in a shorter form, or not at all."""

_LINE_CHARS: Final = 160
_NOUNS: Final[Mapping[FactName, str]] = {"modified": "changed file", "read": "read file"}
_PINNED: Final = "The user pinned these passages of the conversation. They hold, word for word:"


@dataclass(frozen=True, slots=True)
class KindLoss:
    """The facts of one kind that a compaction folded away, by their state."""

    kind: FactName
    kept: int
    shortened: int
    let_go: int = field(metadata={"wire": "gone"})


@dataclass(frozen=True, slots=True)
class Loss:
    """The facts that stood in the folded part of a conversation, each counted once.

    The model still sees the *kept* ones word for word and the *shortened* ones in part. *mended* is the
    number of lines that were dropped from a model's summary because they could not be true.
    """

    kept: int
    shortened: int
    let_go: int = field(metadata={"wire": "gone"})
    mended: int = 0
    kinds: tuple[KindLoss, ...] = ()

    @property
    def total(self) -> int:
        """The number of facts."""
        return self.kept + self.shortened + self.let_go


class ReportedFact(Value):
    """One fact of a loss report; *nodeId* is the node that holds it, on the branch before the compaction.

    *factId* is the same in every report of a session. A text is cut to 2,000 characters.
    """

    fact_id: str
    kind: FactName
    state: FactState
    text: str
    node_id: str
    pinned: bool = False


def describe_loss(kept: int, shortened: int, let_go: int, mended: int = 0) -> str:
    """Return the counts of a loss report as one line for a user.

    >>> describe_loss(95, 3, 12)
    'Facts of the folded part: 95 kept word for word, 3 shortened, 12 let go.'
    """
    counts = f"{kept:,} kept word for word, {shortened:,} shortened, {let_go:,} let go"
    lines = f" {mended} unfounded line{'s' * (mended != 1)} of the summary dropped." if mended else ""
    return f"Facts of the folded part: {counts}.{lines}"


def report_loss(kept: int, shortened: int, let_go: int, mended: int = 0) -> str:
    """Return the line of a compaction that was made, with the command that lists the facts it lost.

    >>> report_loss(95, 3, 12)
    'Facts of the folded part: 95 kept word for word, 3 shortened, 12 let go. /loss lists them.'
    """
    line = describe_loss(kept, shortened, let_go, mended)
    return f"{line} /loss lists them." if shortened or let_go else line


def count_kind(kind: FactName, n_facts: int) -> str:
    """Return a number of facts of one kind in words.

    >>> count_kind("search", 2), count_kind("modified", 1), count_kind("name", 1)
    ('2 searches', '1 changed file', '1 name')
    """
    noun = _NOUNS.get(kind, kind)
    return f"{n_facts:,} {noun}{('es' if noun == 'search' else 's') * (n_facts != 1)}"


def fact_line(fact: ReportedFact) -> str:
    """Return *fact* as one line for a user.

    >>> fact_line(ReportedFact("0a1b2c3d4e", "command", "gone", "make test [exit 2]", "n7"))
    '- 0a1b2c3d4e let go, command: make test [exit 2]'
    """
    state = "let go" if fact.state == "gone" else fact.state
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
