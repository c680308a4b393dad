"""``sidecar/permission/rules``: the rules for permissions, the answer to an action, and changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.events import Notice
from sidecar.protocol import messages as m

if TYPE_CHECKING:
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection


async def rules(connection: Connection, params: m.PermissionRulesParams) -> m.PermissionRulesResult:
    """List the rules, after a change or with the answer to an action."""
    session = connection.hub.session(params.sid)
    own, verdict = session.workbench.permission_rules, None
    if params.test is not None and params.set is not None:
        raise InvalidInput("give test or set, not both", hint="send two requests")
    if params.set is not None:
        connection.check_control(params.sid)
        change = params.set
        done = await own.change(change.effect, change.rule, remove=change.remove)
        session.record.notices.add(Notice("info", "Permissions", done))
        session.record.notices.emit_pending()
    if params.test is not None:
        verdict = await own.test(params.test.tool, params.test.input)
    return m.PermissionRulesResult(own.mode, await own.list(), session.record.log.seq, verdict)


HANDLERS: Final[dict[str, Handler]] = {"sidecar/permission/rules": rules}
