"""``initialize`` of the Agent Client Protocol: what a client says of itself, and what it is told.

Loads nothing of a session: the answer goes out before anything heavy does. What a client declares in a shape
nobody knows counts as not declared, as the protocol's schema asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sidecar._internal.errors import InvalidInput
from sidecar.protocol.handshake import PROTOCOL, ClientWishes, client_wishes
from sidecar.transport.peer import Limits

__all__ = ["ACP_VERSION", "AcpProfile", "AgentInfo", "profile_of", "welcome"]

ACP_VERSION: Final = 1
"""The newest version spoken here, and the answer to a client that asks for any other."""

_STEERING: Final = {"supported": True}
_SESSION_METHODS: Final = ("list", "resume", "close", "delete", "fork", "additionalDirectories")


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """What the daemon says of itself; *faces* are all it has, *socket* is where more clients may attach.

    *reaches_mcp*: it can use servers of the Model Context Protocol that run elsewhere.
    """

    name: str
    title: str
    version: str
    build: str
    faces: tuple[str, ...]
    socket: str | None = None
    reaches_mcp: bool = False


@dataclass(frozen=True, slots=True)
class AcpProfile:
    """One client's capabilities.

    *wishes* is None for a client that knows the Agent Client Protocol alone; one of ours declares itself in
    ``clientCapabilities._meta.sidecar``. *options* is ``_meta.sidecar`` of the request, for the daemon.
    """

    name: str
    takes_notices: bool
    takes_compactions: bool
    reads_files: bool
    writes_files: bool
    wishes: ClientWishes | None
    options: Mapping[str, Any]


def profile_of(params: Any) -> AcpProfile:
    """Return what the params of ``initialize`` say of the client. Raises InvalidInput without a version.

    >>> profile_of({"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True}}}).reads_files
    True
    """
    if not isinstance(params, Mapping) or type(params.get("protocolVersion")) is not int:
        hint = f"this agent speaks version {ACP_VERSION}"
        raise InvalidInput("params.protocolVersion must be an integer", hint=hint)
    declared = _object(params, "clientCapabilities")
    session, files = _object(declared, "session"), _object(declared, "fs")
    name = _object(params, "clientInfo").get("name")
    return AcpProfile(
        name=name if isinstance(name, str) else "",
        takes_notices=isinstance(session.get("notices"), Mapping),
        takes_compactions=isinstance(session.get("compaction"), Mapping),
        reads_files=files.get("readTextFile") is True,
        writes_files=files.get("writeTextFile") is True,
        wishes=client_wishes(_object(declared, "_meta").get("sidecar")),
        options=_object(_object(params, "_meta"), "sidecar"),
    )


def welcome(info: AgentInfo, limits: Limits) -> dict[str, Any]:
    """Return the answer to ``initialize``, the same whatever version was asked for.

    Of what the other face declares it leaves out engines and methods, which are not loaded yet: a new session
    names the engines among its options, and ``_sidecar/schema`` tells the methods.
    """
    return {
        "protocolVersion": ACP_VERSION,
        "agentInfo": {"name": info.name, "title": info.title, "version": info.version},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": info.reaches_mcp, "sse": info.reaches_mcp},
            "sessionCapabilities": {name: {} for name in _SESSION_METHODS},
            "auth": {},
            "_meta": {"sidecar": _sidecar(info, limits), "steering": _STEERING},
        },
        "authMethods": [],
        # Where clients look for it today.
        "_meta": {"steering": _STEERING},
    }


def _sidecar(info: AgentInfo, limits: Limits) -> dict[str, Any]:
    said: dict[str, Any] = {
        "protocol": PROTOCOL,
        "server": {"name": info.name, "version": info.version, "build": info.build},
        "faces": list(info.faces),
        "limits": {"maxMessageBytes": limits.max_body_bytes, "maxInFlight": limits.max_in_flight},
    }
    return said if info.socket is None else said | {"socket": info.socket}


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}
