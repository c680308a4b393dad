"""What the daemon says of itself in a handshake, before it has loaded anything that it could be asked.

What is known only where it is made is written down here; a test compares it with what a daemon has.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from sidecar import __version__
from sidecar._internal.env import speaks_acp_draft
from sidecar.protocol.handshake import SCHEMA_HASH, ServerInfo, face_names

if TYPE_CHECKING:
    from sidecar.acp import AgentInfo

__all__ = ["agent_info", "server_info"]

_BUILD: Final = f"python-{'.'.join(map(str, sys.version_info[:3]))}"
_ENGINES: Final = ("windowBudget", "runtime", "agentcore", "slidingWindow", "summarizing", "none")
_EVENT_BUFFER: Final = 50_000


def server_info(socket: str | None = None) -> ServerInfo:
    """Return it for language clients; *socket* is where more clients may attach."""
    return ServerInfo(
        name="sidecar",
        version=__version__,
        build=_BUILD,
        engines=_ENGINES,
        faces=face_names(with_draft=speaks_acp_draft()),
        event_buffer=_EVENT_BUFFER,
        schema_hash=SCHEMA_HASH,
        socket=socket,
    )


def agent_info(socket: str | None = None) -> AgentInfo:
    """Return it for agent panels; *socket* is where more clients may attach."""
    from sidecar.acp import AgentInfo  # not above: language clients do without

    return AgentInfo("Sidecar", server_info(socket), reaches_mcp=find_spec("mcp") is not None)
