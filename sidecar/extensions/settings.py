"""Hooks and tool servers as settings spell them: TOML tables of our own, and the ``.mcp.json`` of others.

Values of servers may name variables of the environment, ``${NAME}`` or ``${NAME:-default}``, so that no
secret has to stand in a file. They are filled in when the servers are found, and the result is written
nowhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from sidecar.capabilities.mcp.contract import HttpServer, McpServer, StdioServer
from sidecar.extensions.contract import ExtensionSource, Hook, HookEvent

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_MOST_SERVERS: Final = 50
_MAX_TIMEOUT_S: Final = 600.0


class HookEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``[[hooks]]`` table."""

    on: HookEvent
    command: str
    tools: list[str] = []
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.command.strip():
            raise ValueError("hooks: command is empty")
        if not 0 < self.timeout_s <= _MAX_TIMEOUT_S:
            raise ValueError(f"hooks: timeout_s must be above 0 and at most {_MAX_TIMEOUT_S:g}")
        if self.tools and self.on not in ("beforeTool", "afterTool"):
            raise ValueError(f"hooks: tools is only for beforeTool and afterTool, not for {self.on}")

    def as_hook(self, source: ExtensionSource) -> Hook:
        """Return the hook, which *source* has set."""
        return Hook(
            event=self.on,
            command=self.command,
            tools=tuple(self.tools),
            timeout_s=self.timeout_s,
            source=source,
        )


class ServerEntry(msgspec.Struct, frozen=True):
    """One table of ``[mcp_servers]``, and one object of ``mcpServers`` in ``.mcp.json``.

    Unknown members are ignored: other agents have more of them.
    """

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    type: Literal["stdio", "http", "sse", "streamable-http"] | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    disabled: bool = False

    def __post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ValueError("a tool server has either a command or a url")

    def as_server(self, name: str, variables: Mapping[str, str]) -> McpServer:
        """Return the server *name* with *variables* filled in. Raises ValueError for one that is not set."""

        def fill(text: str) -> str:
            return fill_in_variables(text, variables)

        if self.command is not None:
            env = tuple((key, fill(value)) for key, value in self.env.items())
            return StdioServer(name, fill(self.command), tuple(map(fill, self.args)), env)
        url = fill(self.url or "")
        if not url.startswith(("http://", "https://")):
            raise ValueError("its url must begin with http:// or https://")
        headers = tuple((key, fill(value)) for key, value in self.headers.items())
        return HttpServer(name, url, headers, is_sse=self.type == "sse")


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
