"""Messages of ``sidecar/rule/*``."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.conductor.rule_shapes import SessionRule


@dataclass(frozen=True, slots=True)
class RuleListParams:
    """The session; with *all* also the rules that were taken back."""

    sid: str
    all: bool = False


@dataclass(frozen=True, slots=True)
class RuleListResult:
    """The rules of the user, oldest first."""

    rules: tuple[SessionRule, ...]


@dataclass(frozen=True, slots=True)
class RuleAddParams:
    """The rule to set, at most 2,000 characters; the model is told with the next prompt."""

    sid: str
    text: str


@dataclass(frozen=True, slots=True)
class RuleRemoveParams:
    """The rule to take back: its id, or words that only one rule has."""

    sid: str
    rule: str


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The rule as it is now; a ``rules`` event has all that hold."""

    rule: SessionRule
    seq: int
