"""The rules for permissions as clients see them. Shapes only."""

from __future__ import annotations

from typing import Literal, TypeAlias

from sidecar._internal.values import Value

PermissionEffect: TypeAlias = Literal["allow", "ask", "deny"]

RuleOrigin: TypeAlias = Literal["user", "session", "turn", "workspace", "builtIn"]
"""The user's settings, the session (its mode and the answers "always"), the running turn, the folders of the
session, or the daemon itself."""


class PermissionRule(Value):
    """A rule that holds in a session; *rule* is as the settings write it, *description* says it in words."""

    effect: PermissionEffect
    rule: str
    source: RuleOrigin
    description: str


class PermissionVerdict(Value):
    """The answer to an action that was not run: whether it would be allowed, asked or denied, and why.

    *rule* is the rule of the user or of the turn that decides, absent where none does. *always* is the
    scope of an answer "always".
    """

    outcome: PermissionEffect
    reason: str
    rule: PermissionRule | None = None
    always: str | None = None
