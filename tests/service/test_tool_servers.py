"""Tool servers as clients name them: in ACP's own shape, checked, and never shown in a trace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.mcp import HttpServer, McpServer, StdioServer
from sidecar.protocol.codec import from_wire
from sidecar.protocol.messages import SessionNewParams
from sidecar.service.handlers.session import tool_servers
from sidecar.service.tracing import redact

STDIO = {
    "name": "git",
    "command": "/bin/git-mcp",
    "args": ["--key", "s3cret"],
    "env": [{"name": "TOKEN", "value": "s3cret"}],
}
HTTP = {
    "type": "http",
    "name": "web",
    "url": "https://host.org/s3cret",
    "headers": [{"name": "Authorization", "value": "s3cret"}],
}


def named(server: dict[str, Any]) -> McpServer:
    (found,) = tool_servers(from_wire(SessionNewParams, {"cwd": "/x", "mcpServers": [server]}).mcp_servers)
    return found


@pytest.mark.parametrize(
    ("server", "found"),
    [
        pytest.param(
            STDIO,
            StdioServer("git", "/bin/git-mcp", ("--key", "s3cret"), (("TOKEN", "s3cret"),)),
            id="a program, which needs no type",
        ),
        pytest.param(
            {**STDIO, "type": "stdio", "args": [], "env": []}, StdioServer("git", "/bin/git-mcp"), id="bare"
        ),
        pytest.param(
            HTTP, HttpServer("web", "https://host.org/s3cret", (("Authorization", "s3cret"),)), id="over HTTP"
        ),
        pytest.param(
            {"type": "sse", "name": "web", "url": "http://host.org/sse"},
            HttpServer("web", "http://host.org/sse", is_sse=True),
            id="the older way",
        ),
    ],
)
def test_a_server_in_the_shape_of_acp(server: dict[str, Any], found: McpServer) -> None:
    assert named(server) == found


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        pytest.param({"name": "a"}, "the server 'a' of type 'stdio' needs 'command'", id="no program"),
        pytest.param({"name": "a", "command": ""}, "needs 'command'", id="an empty one"),
        pytest.param(
            {"name": "a", "type": "http"}, "the server 'a' of type 'http' needs 'url'", id="no address"
        ),
        pytest.param({"name": "a", "type": "sse", "url": "ftp://x"}, "needs 'url'", id="another one"),
        pytest.param(
            {"name": "a", "type": "acp"}, 'found "acp" @ params.mcpServers[0].type', id="another type"
        ),
        pytest.param({"command": "a"}, '"name" is missing @ params.mcpServers[0].name', id="no name"),
    ],
)
def test_a_server_that_cannot_be_reached_is_refused(server: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        named(server)
    assert problem in refused.value.message


def test_a_trace_and_an_error_show_no_secret() -> None:
    params = {"cwd": "/x", "mcpServers": [STDIO, HTTP]}
    assert "s3cret" not in json.dumps(redact(params))
    assert "s3cret" not in repr(from_wire(SessionNewParams, params))
