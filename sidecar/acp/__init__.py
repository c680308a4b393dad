"""The ACP face: the Agent Client Protocol over one JSON object a line, for agent panels that speak it."""

from sidecar.acp.connection import AcpConnection, AcpOptions
from sidecar.acp.handshake import AgentInfo
from sidecar.acp.serve import serve_acp

__all__ = ["AcpConnection", "AcpOptions", "AgentInfo", "serve_acp"]
