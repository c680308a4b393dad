"""The ACP front end: the Agent Client Protocol, one JSON object a line, for agent panels that speak it."""

from sidecar.acp.connection import AcpConnection, AcpOptions, serve_acp
from sidecar.acp.handshake import AgentInfo

__all__ = ["AcpConnection", "AcpOptions", "AgentInfo", "serve_acp"]
