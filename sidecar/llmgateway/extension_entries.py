"""Hooks and tool servers as settings spell them; :mod:`sidecar.extensions` makes objects of them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

HookEvent: TypeAlias = Literal["beforeTool", "afterTool", "prompt", "compaction", "stop"]
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
