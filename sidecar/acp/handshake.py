"""``initialize`` of the Agent Client Protocol: what a client says of itself, and what it is told.

Loads nothing of a session: the answer goes out before anything heavy does. What a client declares in a shape
nobody knows counts as not declared, as the protocol's schema asks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sidecar._internal.errors import InvalidInput
from sidecar.protocol.handshake import ClientFeatures, ServerInfo, advertise, parse_client_features
from sidecar.transport.peer import Limits

__all__ = ["ACP_DRAFT", "ACP_VERSION", "AcpProfile", "AgentInfo", "profile_of", "welcome"]

ACP_VERSION: Final = 1
"""The version spoken here, and the answer to a client that asks for any other."""

ACP_DRAFT: Final = 2
"""The version that is a draft still; where it is switched on it is the newest one spoken."""

_STEERING: Final = {"supported": True}
_SESSION_METHODS: Final = ("list", "resume", "close", "delete", "fork", "additionalDirectories")


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """What the daemon says of itself: *server*, as on its other face, and its *title* for people.

    The draft is spoken where ``acp2`` is one of its faces. *reaches_mcp*: it can use servers of the Model
    Context Protocol that run elsewhere.
    """

    title: str
    server: ServerInfo
    reaches_mcp: bool = False


@dataclass(frozen=True, slots=True)
class AcpProfile:
    """One client's capabilities, and the *version* of the protocol to speak with it.

    *wishes* is None for a client that knows the Agent Client Protocol alone; one of ours declares itself in
    ``clientCapabilities._meta.sidecar``. *options* is ``_meta.sidecar`` of the request, for the daemon.
    """

    version: int
    name: str
    takes_notices: bool
    takes_compactions: bool
    reads_files: bool
    writes_files: bool
    runs_commands: bool
    wishes: ClientFeatures | None
    options: Mapping[str, Any]


def profile_of(params: Any, faces: Collection[str] = ()) -> AcpProfile:
    """Return what the params of ``initialize`` say of a client. Raises InvalidInput without a version.

    *faces* are those of the daemon.

    >>> said = {"protocolVersion": 2, "clientCapabilities": {"fs": {"readTextFile": True}}}
    >>> profile_of(said).reads_files, profile_of(said, ["acp1", "acp2"]).version
    (True, 2)
    """
    if not isinstance(params, Mapping) or type(params.get("protocolVersion")) is not int:
        hint = f"this agent speaks version {ACP_VERSION}"
        raise InvalidInput("params.protocolVersion must be an integer", hint=hint)
    is_draft = "acp2" in faces and params["protocolVersion"] != ACP_VERSION
    declared = _object(params, "capabilities" if is_draft else "clientCapabilities")
    session, files = _object(declared, "session"), _object(declared, "fs")
    name = _object(params, "info" if is_draft else "clientInfo").get("name")
    return AcpProfile(
        version=ACP_DRAFT if is_draft else ACP_VERSION,
        name=name if isinstance(name, str) else "",
        takes_notices=isinstance(session.get("notices"), Mapping),
        takes_compactions=isinstance(session.get("compaction"), Mapping),
        reads_files=not is_draft and files.get("readTextFile") is True,
        writes_files=not is_draft and files.get("writeTextFile") is True,
        runs_commands=not is_draft and declared.get("terminal") is True,
        wishes=parse_client_features(_object(declared, "_meta").get("sidecar")),
        options=_object(_object(params, "_meta"), "sidecar"),
    )


def welcome(info: AgentInfo, limits: Limits, version: int) -> dict[str, Any]:
    """Return the answer to ``initialize``: what this agent is and can, in the words of *version*."""
    server = info.server
    named = {"name": server.name, "title": info.title, "version": server.version}
    said = advertise(server, max_message_bytes=limits.max_body_bytes, max_in_flight=limits.max_in_flight)
    if version == ACP_DRAFT:
        capabilities = {"session": _draft_session(info), "_meta": {"sidecar": said}}
        return {
            "protocolVersion": version,
            "info": named,
            "capabilities": capabilities,
            "authMethods": [],
        }
    return {
        "protocolVersion": version,
        "agentInfo": named,
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": info.reaches_mcp, "sse": info.reaches_mcp},
            "sessionCapabilities": {name: {} for name in _SESSION_METHODS},
            "auth": {},
            "_meta": {"sidecar": said, "steering": _STEERING},
        },
        "authMethods": [],
        # Where clients look for it today.
        "_meta": {"steering": _STEERING},
    }


def _draft_session(info: AgentInfo) -> dict[str, Any]:
    """Return what a session can; the methods every session has are not named."""
    servers = ("stdio", "http") if info.reaches_mcp else ()
    return {
        "prompt": {"image": {}, "embeddedContext": {}},
        "mcp": {name: {} for name in servers},
        "delete": {},
        "fork": {},
        "additionalDirectories": {},
    }


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}
