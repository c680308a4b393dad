"""Permissions: a tool's question is put on the board of the session's questions, and answered exactly once.

The question counts as rejected when no client controls the session, when no answer comes in time, when the
client disconnects, or when the answer is not one of the options.

The question of a sub-agent goes to the clients of its parent, too. A client that does not follow the
sub-agent is asked in the name of the parent, about the call that the sub-agent works for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal

from msgspec import Struct, field

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import Diff, PermissionDecision, PermissionQuestion
from sidecar.capabilities.hunks import find_hunks
from sidecar.capabilities.toolbox import SessionToolBox, access_of_call
from sidecar.conductor.clients import ClientPort
from sidecar.conductor.contract import (
    HunkAnswer,
    PermissionAnswer,
    PermissionEffect,
    PermissionOption,
    PermissionRequest,
    PermissionRule,
    PermissionSubject,
    PermissionVerdict,
)
from sidecar.conductor.workbench.questions import Poll, QuestionBoard
from sidecar.llmgateway.user_rules import UserRules
from sidecar.permissions.policy import OUTCOME_NAMES, PERMISSION_NAMES, Policy, Verdict
from sidecar.permissions.protected import PROTECTED
from sidecar.permissions.rules import Rule
from sidecar.permissions.table import entries
from sidecar.text.visible import make_visible

_ALLOWING = frozenset({"allow_once", "allow_always"})


class PermissionBroker(Struct):
    """The questions for permission of one session; *timeout_ms* limits the wait for an answer.

    A question that *policy* decides is not asked. Those on the *board* go to the controllers, and every
    listener is notified of the outcome. The mode and the answers "always" last as long as the session is
    loaded.
    """

    board: QuestionBoard
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]
    timeout_ms: int
    policy: Policy
    _unasked: set[str] = field(default_factory=set)

    @contextmanager
    def skip_question(self, call_id: str) -> Iterator[None]:
        """Ask nobody for the tool call *call_id* inside the block; a refusal of the policy holds."""
        self._unasked.add(call_id)
        try:
            yield
        finally:
            self._unasked.discard(call_id)

    async def ask(self, ask: PermissionQuestion, turn_id: str | None) -> PermissionDecision:
        """Return whether *ask* is allowed; where the user is asked, the first answer decides."""
        verdict = await asyncio.to_thread(self.policy.judge, ask.access)
        if verdict.outcome != "ask":
            is_allowed = verdict.outcome == "allow"
            return PermissionDecision(is_allowed, None if is_allowed else verdict.why)
        if ask.call_id in self._unasked:
            return PermissionDecision(True)
        if not self.board.controllers:
            return PermissionDecision(False)
        diffs = await asyncio.to_thread(tuple, map(describe_diff, ask.diffs))
        request = PermissionRequest(
            sid=self.board.sid,
            turn_id=turn_id,
            permission_id=self.new_id(),
            title=make_visible(ask.title),
            subject=PermissionSubject(ask.subject, ask.call_id, ask.tool, make_visible(ask.detail), diffs),
            options=make_options(verdict),
            expires_at=self.clock_ms() + self.timeout_ms,
            description=f"{verdict.why[:1].upper()}{verdict.why[1:]}.",
        )
        offered = [each.option_id for each in request.options]
        shown = {(at, hunk) for at, diff in enumerate(diffs) for hunk in range(len(diff["hunks"]))}
        refused = PermissionAnswer("selected", "reject_once")

        async def put(client: ClientPort) -> PermissionAnswer | None:
            answer = await client.request_permission(self.board.as_asked(request, client))
            if answer.outcome != "selected":
                return None
            is_known = shown.issuperset((each.diff, each.hunk) for each in answer.hunks or ())
            return answer if is_known and answer.option_id in offered else refused

        poll, option, by = Poll(put, no=refused), "cancelled", "the tool call"
        hunks: tuple[HunkAnswer, ...] = ()
        asking = self.board.ask(
            poll, self.timeout_ms, waiting_for="permission", text=request.title, tool=ask.tool
        )
        try:
            chosen, by = await asking
            if chosen is not None and chosen.option_id is not None:
                option, hunks = chosen.option_id, chosen.hunks or ()
        except TimeoutError:
            option, by = "expired", "timeout"
        finally:
            # Also when the tool call was cancelled: no client may go on showing the question.
            for client in self.board.listeners:
                sid = self.board.as_asked(request, client).sid
                client.permission_resolved(sid, request.permission_id, option, by)
        if option == "allow_always":
            self.policy.grant(verdict)
        is_allowed = option in _ALLOWING
        if not is_allowed:
            return PermissionDecision(False, poll.refusal)
        changed = {
            (each.diff, each.hunk): each for each in hunks if not each.accepted or each.text is not None
        }
        chosen_texts = {place: each.text if each.accepted else None for place, each in changed.items()}
        return PermissionDecision(True, hunks=chosen_texts)


def describe_diff(diff: Diff) -> Mapping[str, Any]:
    """Return *diff* as clients are asked about it: with the hunks that may be chosen, in lines from 0."""
    found = () if diff.is_whole else find_hunks(diff.old_text, diff.new_text)
    hunks = [
        {
            "oldStart": each.old_start,
            "oldEnd": each.old_end,
            "newStart": each.new_start,
            "newEnd": each.new_end,
        }
        for each in found
    ]
    return {"path": str(diff.path), "oldText": diff.old_text, "newText": diff.new_text, "hunks": hunks}


def make_options(verdict: Verdict) -> tuple[PermissionOption, ...]:
    """Return the answers on offer; "always" names its scope, and is left out without one."""
    always = PermissionOption("allow_always", f"Always allow {verdict.label} in this session", "allow_always")
    return (
        PermissionOption("allow_once", "Allow", "allow_once"),
        *((always,) if verdict.keys else ()),
        PermissionOption("reject_once", "Reject", "reject_once"),
    )


_EFFECTS: Final[Mapping[str, PermissionEffect]] = {"allowAll": "allow", "plan": "deny"}
_USAGE: Final = "/permissions [mode], rules, test ACTION, allow RULE, deny RULE, or remove RULE"


class PermissionRules:
    """The rules that hold in one session; *settings* belong to the user, None for none."""

    def __init__(self, policy: Policy, tools: SessionToolBox, settings: UserRules | None) -> None:
        self._policy = policy
        self._tools = tools
        self._settings = settings

    @property
    def mode(self) -> str:
        """The mode of the session."""
        return self._policy.mode

    async def list(self) -> tuple[PermissionRule, ...]:
        """Return the rules in the order in which they decide."""
        await asyncio.to_thread(self._policy.read_again)
        return tuple(self.describe_all())

    def describe_all(self) -> Iterator[PermissionRule]:
        """Yield the rules as they were read last."""
        policy, mode = self._policy, self._policy.mode
        yield from (describe_rule(rule, "deny") for rule in policy.rules.deny)
        if (unread := policy.rules.problem) is not None:
            yield PermissionRule("ask", "every action", "user", f"{unread[:1].upper()}{unread[1:]}.")
        effect = _EFFECTS.get(mode, "ask")
        yield PermissionRule(effect, f"mode {mode}", "session", f"{PERMISSION_NAMES[mode]}.")
        for label in policy.answers:
            yield PermissionRule("allow", label, "session", f"You have always allowed {label}.")
        yield from (describe_rule(rule, "allow", is_of_turn=True) for rule in policy.turn_rules)
        yield from (describe_rule(rule, "allow") for rule in policy.rules.allow)
        for root in policy.place.roots:
            text = f"Reading and searching in {root} needs no question."
            yield PermissionRule("allow", f"read: {root}/**", "workspace", text)
        free = dict.fromkeys(" ".join(each.words) for each in entries().values() if each.kind == "free")
        text = f"These commands run without a question in the session's folders: {', '.join(free)}."
        yield PermissionRule("allow", "commands that only read", "builtIn", text)
        for why, names in PROTECTED.items():
            yield PermissionRule("ask", f"edit: {names}", "builtIn", f"Each change of {why} asks.")

    async def test(self, tool: str, arguments: Mapping[str, Any]) -> PermissionVerdict:
        """Return the answer to a call of *tool*; nothing is run. Raises InvalidInput, FileAccessError."""
        effects, roots = self._tools.effects(), self._policy.place.roots
        if tool not in effects:
            raise InvalidInput(f"there is no tool {tool!r:.100}", hint=f"the tools are {', '.join(effects)}")
        access = await asyncio.to_thread(access_of_call, tool, effects[tool], arguments, roots[0], roots)
        if access is None:
            return PermissionVerdict("allow", "such a call needs no permission")
        found = await asyncio.to_thread(self._policy.judge, access)
        effect: Literal["allow", "deny"] = "deny" if found.outcome == "deny" else "allow"
        is_of_turn = found.rule in self._policy.turn_rules
        rule = None if found.rule is None else describe_rule(found.rule, effect, is_of_turn=is_of_turn)
        return PermissionVerdict(found.outcome, found.why, rule, found.label or None)

    async def change(self, effect: Literal["allow", "deny"], rule: str, *, remove: bool = False) -> str:
        """Add a rule to the user's settings, or remove one, and say so; raises as ``UserRules.change``."""
        if self._settings is None:
            raise InvalidInput(
                "this daemon has no settings of a user", hint="start it with a state directory"
            )
        await asyncio.to_thread(self._settings.change, effect, rule.strip(), remove=remove)
        return f"The rule {rule.strip()!r} ({effect}) is {'removed from' if remove else 'in'} your settings."

    async def run(self, rest: str, choose_mode: Callable[[str, str], Awaitable[str]]) -> str:
        """Return the answer of ``/permissions``; *choose_mode* shows or sets the mode."""
        word, _, rule = rest.partition(" ")
        rule = rule.strip()
        if word == "rules" and not rule:
            return "\n".join(f"- {each.effect}: {each.description}" for each in await self.list())
        if word not in ("test", "allow", "deny", "remove"):
            return await choose_mode("permissions", rest)
        if not rule:
            raise InvalidInput(f"{word} needs a rule or an action", hint=f"the command is {_USAGE}")
        if word == "test":
            is_edit = rule.startswith("edit:")
            path, line = {"path": rule.removeprefix("edit:").strip()}, {"command": rule}
            verdict = await (self.test("edit", path) if is_edit else self.test("bash", line))
            always = f'\n"Always" would allow {verdict.always}.' if verdict.always else ""
            return f"{rule}: {OUTCOME_NAMES[verdict.outcome]}, because {verdict.reason}.{always}"
        if word == "remove":
            await asyncio.to_thread(self._policy.read_again)
            is_denied = rule in [each.text for each in self._policy.rules.deny]
            return await self.change("deny" if is_denied else "allow", rule, remove=True)
        return await self.change("deny" if word == "deny" else "allow", rule)


def describe_rule(
    rule: Rule, effect: Literal["allow", "deny"], *, is_of_turn: bool = False
) -> PermissionRule:
    """Return *rule* with words for it.

    >>> from sidecar.permissions.rules import parse_rule
    >>> [describe_rule(parse_rule(text), "deny").description for text in ("git push", "edit: docs/**")]
    ['Commands `git push` are refused.', 'Changes of files that match `docs/**` are refused.']
    """
    what = {
        "command": f"Commands `{rule.text}`",
        "edit": f"Changes of files that match `{' '.join(rule.words)}`",
        "fetch": f"Pages of `{' '.join(rule.words)}`",
        "mcp": f"Calls of the tools `{' '.join(rule.words)}` of a server",
    }[rule.kind]
    ends = "need no question" if effect == "allow" else "are refused"
    source: Literal["turn", "user"] = "turn" if is_of_turn else "user"
    return PermissionRule(effect, rule.text, source, f"{what} {ends}{' in this turn' * is_of_turn}.")
