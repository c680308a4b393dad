"""``sidecar/rule/*``: the rules of the user in one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar.protocol import messages as m

if TYPE_CHECKING:
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection


def list_rules(connection: Connection, params: m.RuleListParams) -> m.RuleListResult:
    """List the rules that hold, or all."""
    rules = connection.hub.session(params.sid).window.rules
    return m.RuleListResult(rules.all if params.all else rules.standing)


async def add(connection: Connection, params: m.RuleAddParams) -> m.RuleResult:
    """Set a rule."""
    session = connection.hub.session(params.sid)
    return m.RuleResult(await session.add_rule(params.text), session.record.log.seq)


async def remove(connection: Connection, params: m.RuleRemoveParams) -> m.RuleResult:
    """Take a rule back."""
    session = connection.hub.session(params.sid)
    return m.RuleResult(await session.remove_rule(params.rule), session.record.log.seq)


async def keep(connection: Connection, params: m.RuleKeepParams) -> m.RuleDecisionResult:
    """Keep a rule that was proposed, or all."""
    session = connection.hub.session(params.sid)
    return m.RuleDecisionResult(await session.keep_rules(params.rule), session.record.log.seq)


async def dismiss(connection: Connection, params: m.RuleDismissParams) -> m.RuleDecisionResult:
    """Dismiss a rule that was proposed, or all."""
    session = connection.hub.session(params.sid)
    return m.RuleDecisionResult(await session.dismiss_rules(params.rule), session.record.log.seq)


HANDLERS: Final[dict[str, Handler]] = {
    "sidecar/rule/list": list_rules,
    "sidecar/rule/add": add,
    "sidecar/rule/remove": remove,
    "sidecar/rule/keep": keep,
    "sidecar/rule/dismiss": dismiss,
}
