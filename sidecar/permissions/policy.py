"""The policy of a session: whether an action runs, asks or is refused, and the reason.

Decided in this order, for every kind of action: a rule that denies; the mode ``plan``, which allows nothing
but reading; a rule that may deny but cannot be read, so that all that is not free asks, each time; the mode
``allowAll``; and then each need of the action by itself. A need is met when it is
free, when an earlier answer "always" covers it, when a rule allows it, or, for changes of files, by the
mode ``allowEdits``. The action runs when all its needs are met, and else asks once for the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct, field

from sidecar._internal.values import Value
from sidecar.permissions.access import (
    Access,
    CommandAccess,
    EditAccess,
    FetchAccess,
    PatchAccess,
    ProjectTextAccess,
    ReadAccess,
    ServerToolAccess,
)
from sidecar.permissions.protected import SessionFolders
from sidecar.permissions.rules import EDITS, Need, Rule, Rules, need_of_edit, need_of_reading

PermissionMode: TypeAlias = Literal["ask", "allowEdits", "plan", "allowAll"]
"""The actions that need no question: reads, edits inside too, or all; ``plan`` allows reads alone."""

PERMISSION_MODES: Final = get_args(PermissionMode)

PERMISSION_NAMES: Final = {
    "ask": "Ask before every change",
    "allowEdits": "Edit files in the session's folders without asking",
    "plan": "Only read, and change nothing",
    "allowAll": "Never ask",
}
"""The modes in words."""

OUTCOME_NAMES: Final = {"allow": "runs without a question", "ask": "asks", "deny": "is refused"}
"""The outcomes of a :class:`Verdict` in words."""


class Verdict(Value, kw_only=True):
    """The decision about one action.

    Attributes:
        outcome: whether it runs, asks or is refused.
        why: the reason, for people.
        keys: the keys that an answer "always" would grant; empty when it cannot be given.
        label: the words for *keys*.
        needs: each thing that the action needs permission for.
        rule: the rule of the user that decides, or the first one of several; None where none does.
    """

    outcome: Literal["allow", "ask", "deny"]
    why: str
    keys: frozenset[str] = frozenset()
    label: str = ""
    needs: tuple[Need, ...] = ()
    rule: Rule | None = None


class Policy(Struct, eq=False):
    """The policy of one session.

    *granted* are the keys of its answers "always", and *answers* the words for them; *turn_rules* allow
    actions in the present turn. *read_rules* returns the user's rules as they are now; it looks at the disk.
    *children* are the policies of its sub-agents that are at work.
    """

    place: SessionFolders
    rules: Rules = field(default_factory=Rules)
    mode: PermissionMode = "ask"
    granted: set[str] = field(default_factory=set)
    turn_rules: tuple[Rule, ...] = ()
    answers: list[str] = field(default_factory=list)
    read_rules: Callable[[], Rules] | None = None
    children: list[Policy] = field(default_factory=list)

    def choose(self, mode: PermissionMode) -> None:
        """Set the mode, also for the sub-agents."""
        for policy in (self, *self.children):
            policy.mode = mode

    def share_with(self, child: Policy) -> Callable[[], None]:
        """Let a sub-agent have the mode and the answers "always", those to come included.

        The returned function ends that for the mode.
        """
        child.mode, child.granted, child.answers = self.mode, self.granted, self.answers
        self.children.append(child)
        return lambda: self.children.remove(child)

    def read_again(self) -> None:
        """Read the user's rules. Looks at the disk, so call it in a worker thread."""
        if self.read_rules is not None:
            self.rules = self.read_rules()

    def grant(self, verdict: Verdict) -> None:
        """Remember the answer "always" to the question of *verdict*."""
        self.granted.update(verdict.keys)
        self.answers.append(verdict.label)

    def judge(self, access: Access) -> Verdict:
        """Return the decision about an action. Looks at the disk, so call it in a worker thread."""
        self.read_again()
        needs = needs_of(access, self.place)
        line = access.line if isinstance(access, CommandAccess) else ""
        root = self.place.roots[0]
        for rule in self.rules.deny:
            if any(rule.denies(need, line, root) for need in needs):
                why = f"your rule {rule.text!r} denies it"
                return Verdict(outcome="deny", why=why, needs=needs, rule=rule)
        may_read = isinstance(access, ReadAccess | FetchAccess | ProjectTextAccess) or (
            isinstance(access, ServerToolAccess) and access.is_read_only
        )
        if self.mode == "plan" and not may_read and not all(need.is_free for need in needs):
            return Verdict(outcome="deny", why="the mode is plan, which allows only reading", needs=needs)
        if self.rules.problem is not None and not all(need.is_free for need in needs):
            return Verdict(outcome="ask", why=self.rules.problem, needs=needs)
        if self.mode == "allowAll":
            return Verdict(outcome="allow", why="the mode is allowAll", needs=needs)
        open_needs = tuple(need for need in needs if self._why_met(need) is None)
        if not open_needs:
            why = "; ".join(dict.fromkeys(str(self._why_met(need)) for need in needs))
            rules = (self._rule_for(need) for need in needs if not need.is_free)
            return Verdict(outcome="allow", why=why, needs=needs, rule=next(filter(None, rules), None))
        why = "; ".join(dict.fromkeys(need.why for need in open_needs))
        if any(need.key is None for need in open_needs):
            return Verdict(outcome="ask", why=why, needs=needs)
        keys = frozenset(str(need.key) for need in open_needs)
        labels = list(dict.fromkeys(need.label for need in open_needs))
        label = " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))
        return Verdict(outcome="ask", why=why, keys=keys, label=label, needs=needs)

    def _why_met(self, need: Need) -> str | None:
        """Return the reason why *need* needs no question, None when it needs one."""
        if need.is_free:
            return need.why
        if need.key is not None and (need.key in self.granted or self.is_below_granted(need.key)):
            return f"you have always allowed {need.label}"
        if need.key == EDITS and self.mode == "allowEdits":
            return "the mode is allowEdits"
        rule = self._rule_for(need)
        return None if rule is None else f"your rule {rule.text!r} allows it"

    def _rule_for(self, need: Need) -> Rule | None:
        rules = (*self.rules.allow, *self.turn_rules)
        return next((rule for rule in rules if rule.allows(need, self.place.roots[0])), None)

    def is_below_granted(self, key: str) -> bool:
        kind, _, path = key.partition(":")
        folders = (Path(path), *Path(path).parents) if kind in ("read", "tree") else ()
        return any(f"tree:{folder}" in self.granted for folder in folders)


def needs_of(access: Access, place: SessionFolders) -> tuple[Need, ...]:
    """Return the needs of an action in *place*."""
    match access:
        case CommandAccess(line, cwd, is_posix):
            if not is_posix:
                return (Need(text=line, why="it is not a line of a POSIX shell"),)
            from sidecar.permissions.commands import needs_of_command  # not above: it takes 4 ms to load

            return needs_of_command(line, cwd, place)
        case ReadAccess(path):
            return (need_of_reading(path, os.path.isdir(path)),)
        case EditAccess(path, is_inside):
            return (need_of_edit(path, place, is_inside=is_inside),)
        case PatchAccess(edits):
            return tuple(need_of_edit(each.path, place, is_inside=each.is_inside) for each in edits)
        case FetchAccess(host):
            why = "it fetches a page from the network"
            return (Need(text=f"fetch {host}", why=why, key=f"fetch:{host}", label=f"`{host}`", host=host),)
        case ServerToolAccess(server, tool, is_read_only):
            label = f"the tools of {server} that only read" if is_read_only else f"`{tool}` of {server}"
            key = f"mcp:{server}" if is_read_only else f"mcp:{server}:{tool}"
            why = "a tool of a server asks first"
            return (Need(text=f"{server} {tool}", why=why, key=key, label=label, tool=(server, tool)),)
        case ProjectTextAccess(path):
            why = "the text came with the folder; your answer holds until it changes"
            return (Need(text=f"use {path}", why=why),)
