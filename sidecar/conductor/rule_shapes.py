"""The rules of a session as it publishes them. Imports nothing but the standard library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from sidecar._internal.values import Value

RuleSource: TypeAlias = Literal["prompt", "user", "summary", "imported"]
"""The origin of a rule: a typed prompt, a rule set by hand, a summary that quoted a prompt, or a prompt of an
imported session."""


@dataclass(frozen=True, slots=True)
class RuleRevocation:
    """The words that took a rule back; without *text* it was withdrawn by hand."""

    source: RuleSource
    at: int
    text: str | None = None
    node_id: str | None = field(default=None, metadata={"wire": "node"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRule:
    """A rule of the user, word for word.

    *node* is the prompt that set it, and *quote* its words there; a rule set by hand has neither. It holds
    *since* that time. A later statement takes a rule back: then *holds* is false and *revokedBy* has that
    statement. *conflicts* are later statements that may have done so; it is not clear, and both stand.
    """

    id: str
    text: str
    source: RuleSource
    at: int = field(metadata={"wire": "since"})
    node_id: str | None = field(default=None, metadata={"wire": "node"})
    quote: str | None = None
    holds: bool = True
    revoked_by: RuleRevocation | None = None
    conflicts: tuple[str, ...] = ()


class RulesChanged(Value):
    """The user's rules that hold, complete."""

    kind: ClassVar[str] = "rulesChanged"
    rules: tuple[SessionRule, ...]
