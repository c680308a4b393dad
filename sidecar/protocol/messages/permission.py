"""Messages of ``sidecar/permission/rules``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from sidecar.conductor.contract import PermissionRule, PermissionVerdict


@dataclass(frozen=True, slots=True)
class PermissionTest:
    """A call to judge without running it: the *tool* and its *input*, such as ``bash`` and ``{command}``."""

    tool: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PermissionChange:
    """A rule to add to the user's settings, or with *remove* to take out of them.

    A rule is the beginning of a command, such as ``git push`` or ``npm run *``, or ``edit: docs/**``,
    ``fetch: HOST`` or ``mcp: SERVER TOOL``.
    """

    effect: Literal["allow", "deny"]
    rule: str
    remove: bool = False


@dataclass(frozen=True, slots=True)
class PermissionRulesParams:
    """The session. Without *test* and *set* its rules are listed; each answer has the list."""

    sid: str
    _: KW_ONLY
    test: PermissionTest | None = None
    set: PermissionChange | None = None


@dataclass(frozen=True, slots=True)
class PermissionRulesResult:
    """The rules in the order in which they decide, and the *verdict* on the call of *test*.

    A change holds in every session at once. It is stored in the user's own settings and never in a folder.
    """

    mode: str
    rules: tuple[PermissionRule, ...]
    seq: int
    verdict: PermissionVerdict | None = None
