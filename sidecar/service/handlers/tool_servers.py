"""Tool servers as a client names them, to what the capabilities know of them."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.mcp.contract import HttpServer, McpServer, StdioServer
from sidecar.protocol.messages import McpServerConfig, NamedValue

__all__ = ["tool_servers"]


def tool_servers(configs: Iterable[McpServerConfig]) -> tuple[McpServer, ...]:
    """Return the servers named. Raises InvalidInput for one that says not how it is reached.

    >>> tool_servers([McpServerConfig("git", command="git-mcp")])
    (StdioServer(name='git', command='git-mcp'),)
    """
    return tuple(map(_tool_server, configs))


def _tool_server(config: McpServerConfig) -> McpServer:
    if config.type == "stdio":
        if not config.command:
            raise _lacks(config, "command")
        return StdioServer(config.name, config.command, config.args, _pairs(config.env))
    if not (config.url or "").startswith(("http://", "https://")):
        raise _lacks(config, "url")
    return HttpServer(config.name, config.url or "", _pairs(config.headers), is_sse=config.type == "sse")


def _lacks(config: McpServerConfig, field: str) -> InvalidInput:
    hint = "an absolute path, or a program in the path" if field == "command" else "one that begins with http"
    return InvalidInput(f"the server {config.name!r} of type {config.type!r} needs {field!r}", hint=hint)


def _pairs(values: Iterable[NamedValue]) -> tuple[tuple[str, str], ...]:
    return tuple((each.name, each.value) for each in values)
