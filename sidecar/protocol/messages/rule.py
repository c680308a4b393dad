"""Messages of ``sidecar/rule/*``."""

from __future__ import annotations

from sidecar._internal.values import Value
from sidecar.conductor.rule_shapes import SessionRule


class RuleListParams(Value):
    """The session; with *all* also the rules that were taken back."""

    sid: str
    all: bool = False


class RuleListResult(Value):
    """The rules of the user, oldest first."""

    rules: tuple[SessionRule, ...]


class RuleAddParams(Value):
    """The rule to set, at most 2,000 characters; the model is told with the next prompt."""

    sid: str
    text: str


class RuleRemoveParams(Value):
    """The rule to take back: its id, or words that only one rule has."""

    sid: str
    rule: str


class RuleKeepParams(Value):
    """The proposed rule to keep: its id, or words that only one has; all proposed rules without *rule*."""

    sid: str
    rule: str | None = None


class RuleDismissParams(Value):
    """The proposed rule to dismiss: its id, or words that only one has; all proposed rules without *rule*."""

    sid: str
    rule: str | None = None


class RuleDecisionResult(Value):
    """The rules that were proposed, as they are now; a ``rulesChanged`` event has all that hold."""

    rules: tuple[SessionRule, ...]
    seq: int


class RuleResult(Value):
    """The rule as it is now; a ``rulesChanged`` event has all that hold."""

    rule: SessionRule
    seq: int
