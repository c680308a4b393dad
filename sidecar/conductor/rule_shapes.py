"""The rules of a session as it publishes them. Imports nothing but the standard library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from sidecar._internal.values import Value

RuleSource: TypeAlias = Literal["user", "summary", "found"]
"""The origin of a rule: set by hand, proposed by the model that writes summaries, or found in a prompt by an
earlier version."""


@dataclass(frozen=True, slots=True)
class RuleRevocation:
    """The words that took a rule back; without *text* it was withdrawn by hand."""

    source: Literal["user", "summary"]
    at: int
    text: str | None = None
    node_id: str | None = field(default=None, metadata={"wire": "node"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRule:
    """A rule of the user, word for word.

    *node* is the prompt that it is quoted from, and *quote* its words there; a rule set by hand has neither.
    While *proposed* the user has neither kept nor dismissed it: it holds, and the user is asked. It holds
    *since* that time. Once it was taken back *holds* is false, and *revokedBy* has the words that did it.
    *conflicts* are later words of the user that may have done so; it is not clear, and both stand.
    """

    id: str
    text: str
    source: RuleSource
    at: int = field(metadata={"wire": "since"})
    node_id: str | None = field(default=None, metadata={"wire": "node"})
    quote: str | None = None
    proposed: bool = False
    holds: bool = True
    revoked_by: RuleRevocation | None = None
    conflicts: tuple[str, ...] = ()


class RuleStatement(Value):
    """A line of a model about rules: *quote* is a rule, or with *rule_id* the words about that one."""

    kind: Literal["standing", "ended", "conflict"]
    rule_id: str
    quote: str


class RulesChanged(Value):
    """The user's rules that hold, complete."""

    kind: ClassVar[str] = "rulesChanged"
    rules: tuple[SessionRule, ...]
