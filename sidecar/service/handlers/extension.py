"""``sidecar/extension/list``: the commands, skills, hooks and tool servers of one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar.protocol import messages as m

if TYPE_CHECKING:
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection


async def list_extensions(connection: Connection, params: m.SidParams) -> m.ExtensionListResult:
    """List the extensions as they are now."""
    extensions = connection.hub.session(params.sid).workbench.extensions
    await extensions.refresh()
    found = extensions.list()
    return m.ExtensionListResult(found.commands, found.skills, found.hooks, found.servers, found.problems)


HANDLERS: Final[dict[str, Handler]] = {"sidecar/extension/list": list_extensions}
