"""``initialize`` of the Agent Client Protocol: the capabilities of a client, and the answer of the agent.

Loads nothing of a session, because the answer is sent before anything heavy is loaded. As the protocol's
schema asks, a capability in an unknown shape counts as not declared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value
from sidecar.protocol.handshake import ClientFeatures, ServerInfo, advertise, parse_client_features
from sidecar.protocol.jsonrpc import member
from sidecar.transport.peer import Limits

ACP_VERSION: Final = 1
"""The version spoken here, and the answer to a client that requests any other."""

ACP_DRAFT: Final = 2
"""The version that is still a draft; where it is switched on it is the newest one spoken."""

_STEERING: Final = {"supported": True}
_SESSION_METHODS: Final = (
    *("list", "resume", "close", "delete", "fork"),
    *("additionalDirectories", "systemPrompt"),
)


class AgentInfo(Value):
    """The description of the agent that clients receive.

    Attributes:
        title: its name for people.
        server: the description of the daemon; the draft is spoken if ``acp2`` is one of its faces.
        reaches_mcp: whether it can use servers of the Model Context Protocol that run elsewhere.
    """

    title: str
    server: ServerInfo
    reaches_mcp: bool = False


class AcpProfile(Value, kw_only=True):
    """The capabilities of one client, and the *version* of the protocol to speak with it.

    *features* is None for a client that knows the Agent Client Protocol alone; one of ours declares them in
    ``clientCapabilities._meta.sidecar``. *options* is ``_meta.sidecar`` of the request, for the daemon.
    """

    version: int
    name: str
    takes_notices: bool
    takes_compactions: bool
    takes_plans: bool
    takes_subagents: bool
    reads_files: bool
    writes_files: bool
    runs_commands: bool
    shows_forms: bool
    shows_urls: bool
    features: ClientFeatures | None
    options: Mapping[str, Any]


def profile_of(params: Any, faces: Collection[str] = ()) -> AcpProfile:
    """Return the profile that the params of ``initialize`` declare. Raises InvalidInput without a version.

    The draft is chosen only if ``acp2`` is one of the daemon's *faces*, and for a client that speaks it or a
    later version.

    >>> params = {"protocolVersion": 2, "clientCapabilities": {"fs": {"readTextFile": True}}}
    >>> profile_of(params).reads_files, profile_of(params, ["acp1", "acp2"]).version
    (True, 2)
    """
    if not isinstance(params, Mapping) or type(params.get("protocolVersion")) is not int:
        hint = f"this agent speaks version {ACP_VERSION}"
        raise InvalidInput("params.protocolVersion must be an integer", hint=hint)
    is_draft = "acp2" in faces and params["protocolVersion"] >= ACP_DRAFT
    name = member(params, "info" if is_draft else "clientInfo", "name")
    options = member(params, "_meta", "sidecar")

    def capability(*names: str) -> Any:
        return member(params, "capabilities" if is_draft else "clientCapabilities", *names)

    return AcpProfile(
        version=ACP_DRAFT if is_draft else ACP_VERSION,
        name=name if isinstance(name, str) else "",
        takes_notices=isinstance(capability("session", "notices"), Mapping),
        takes_compactions=isinstance(capability("session", "compaction"), Mapping),
        takes_plans=isinstance(capability("plan"), Mapping),
        takes_subagents=is_draft or isinstance(capability("subagents"), Mapping),
        reads_files=not is_draft and capability("fs", "readTextFile") is True,
        writes_files=not is_draft and capability("fs", "writeTextFile") is True,
        runs_commands=not is_draft and capability("terminal") is True,
        shows_forms=isinstance(capability("elicitation", "form"), Mapping),
        shows_urls=isinstance(capability("elicitation", "url"), Mapping),
        features=parse_client_features(capability("_meta", "sidecar")),
        options=options if isinstance(options, Mapping) else {},
    )


def welcome(info: AgentInfo, limits: Limits, version: int) -> dict[str, Any]:
    """Return the answer to ``initialize``.

    Args:
        info: the description of the agent.
        limits: the limits of the connection, which clients are told.
        version: the version of the protocol that the answer is in.
    """
    server = info.server
    named = {"name": server.name, "title": info.title, "version": server.version}
    advertised = advertise(
        server, max_message_bytes=limits.max_body_bytes, max_in_flight=limits.max_in_flight
    )
    if version == ACP_DRAFT:
        session: dict[str, dict[str, Any]] = {
            "prompt": {"image": {}, "embeddedContext": {}},
            "mcp": {"stdio": {}, "http": {}} if info.reaches_mcp else {},
            "delete": {},
            "fork": {},
            "additionalDirectories": {},
        }
        capabilities = {"session": session, "_meta": {"sidecar": advertised}}
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
            "_meta": {"sidecar": advertised, "steering": _STEERING},
        },
        "authMethods": [],
        # Some clients look for it here.
        "_meta": {"steering": _STEERING},
    }
