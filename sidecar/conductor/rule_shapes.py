"""The rules of a session as it publishes them. Imports nothing but the standard library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

RuleSource: TypeAlias = Literal["prompt", "user", "summary", "imported"]
"""The origin of a rule: a typed prompt, a rule set by hand, a summary that quoted a prompt, or a prompt of an
imported session."""


@dataclass(frozen=True, slots=True)
class RuleRevocation:
    """The words that took a rule back; without *text* it was withdrawn by hand."""

    source: RuleSource
    at: int
    text: str | None = None
    node_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRule:
    """A rule of the user, word for word.

    *nodeId* is the prompt that set it; a rule set by hand has none. A later statement takes a rule back:
    then *holds* is false and *revokedBy* has that statement. *conflicts* are later statements that may have
    done so; it is not clear, and both stand.
    """

    id: str
    text: str
    source: RuleSource
    at: int
    node_id: str | None = None
    holds: bool = True
    revoked_by: RuleRevocation | None = None
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RulesChanged:
    """The user's rules that hold, complete."""

    kind: ClassVar[str] = "rules"
    rules: tuple[SessionRule, ...]
