"""Hooks and tool servers as settings spell them: TOML tables of our own, and the ``.mcp.json`` of others.

Values of servers may name variables of the environment, ``${NAME}`` or ``${NAME:-default}``, so that no
secret has to stand in a file. They are filled in when the servers are found, and the result is written
nowhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sidecar.capabilities.mcp.contract import HttpServer, McpServer, StdioServer
from sidecar.extensions.contract import ExtensionSource, Hook
from sidecar.llmgateway.extension_entries import HookEntry, ServerEntry

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_MOST_SERVERS: Final = 50


def make_hook(entry: HookEntry, source: ExtensionSource) -> Hook:
    """Return the hook of *entry*, which *source* has set."""
    return Hook(
        event=entry.on,
        command=entry.command,
        tools=tuple(entry.tools),
        timeout_s=entry.timeout_s,
        source=source,
    )


def make_server(name: str, entry: ServerEntry, variables: Mapping[str, str]) -> McpServer:
    """Return the server *name* of *entry*, with *variables* filled in.

    Raises ValueError for a variable that is not set, or a URL that is not one of the web.
    """

    def fill(text: str) -> str:
        return fill_in_variables(text, variables)

    if entry.command is not None:
        env = tuple((key, fill(value)) for key, value in entry.env.items())
        return StdioServer(name, fill(entry.command), tuple(map(fill, entry.args)), env)
    url = fill(entry.url or "")
    if not url.startswith(("http://", "https://")):
        raise ValueError("its url must begin with http:// or https://")
    headers = tuple((key, fill(value)) for key, value in entry.headers.items())
    return HttpServer(name, url, headers, is_sse=entry.type == "sse")


def fill_in_variables(text: str, variables: Mapping[str, str]) -> str:
    """Return *text* with its variables filled in, once. Raises ValueError for one that is not set.

    >>> fill_in_variables("Bearer ${KEY}, ${MODE:-safe}", {"KEY": "x"})
    'Bearer x, safe'
    """

    def value(found: re.Match[str]) -> str:
        set_value = variables.get(found[1]) or found[2]
        if set_value is None:
            raise ValueError(f"the variable {found[1]} is not set")
        return set_value

    return _VARIABLE.sub(value, text)


def parse_mcp_json(text: str) -> dict[str, ServerEntry]:
    """Return the servers of a ``.mcp.json``. Raises ValueError with the mistake."""
    try:
        found: Any = json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deep") from None
    if not isinstance(found, dict) or not isinstance(found.get("mcpServers"), dict):
        raise ValueError("it has no object mcpServers")
    if len(found["mcpServers"]) > _MOST_SERVERS:
        raise ValueError(f"it has more than {_MOST_SERVERS} servers")
    return msgspec.convert(found["mcpServers"], dict[str, ServerEntry])
