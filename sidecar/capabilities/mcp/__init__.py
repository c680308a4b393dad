"""Tool servers that a client names: their tools beside ours, for as long as the session lives.

The ``mcp`` package implements the Model Context Protocol. It is loaded when a session first names a server,
and by no module here that only describes one.
"""

from sidecar.capabilities.mcp.contract import HttpServer, McpServer, ServerHost, StdioServer
from sidecar.capabilities.mcp.servers import SessionToolServers

__all__ = ["HttpServer", "McpServer", "ServerHost", "SessionToolServers", "StdioServer"]
