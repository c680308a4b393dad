"""What a tool server is, what it is given and what it shows. No behaviour
but to say what of it may be stored.

Environment, headers and arguments may hold secrets: they are never logged, shown or stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias
from urllib.parse import urlsplit

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import SidecarError
from sidecar.capabilities.contract import Tool

__all__ = [
    "CallResult",
    "HttpServer",
    "Link",
    "ListedTool",
    "McpServer",
    "OnProgress",
    "OpenLink",
    "ServerFailed",
    "ServerHost",
    "StdioServer",
    "ToolServers",
]


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that is started as a process; *env* is added to ours without its secrets."""

    name: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def without_secrets(self) -> dict[str, str]:
        """Return what may be stored of it."""
        return {"name": self.name, "type": "stdio", "command": self.command}


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server that runs elsewhere; *is_sse* for the older of the two ways to speak to it."""

    name: str
    url: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    is_sse: bool = False

    def without_secrets(self) -> dict[str, str]:
        """Return what may be stored of it: of the address where it leads, since the rest may be a key."""
        place = urlsplit(self.url)
        origin = f"{place.scheme}://{place.netloc.rpartition('@')[2]}"
        return {"name": self.name, "type": "sse" if self.is_sse else "http", "url": origin}


McpServer: TypeAlias = StdioServer | HttpServer
"""A tool server, as a client names it."""


class ServerFailed(SidecarError):
    """A server could not be started, has ended, or refused; the message says why in its own words."""

    kind: ClassVar[str] = "toolServerFailed"


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its server lists it. *schema* is an object's JSON schema; hints are hints, not promises."""

    name: str
    title: str
    description: str
    schema: dict[str, Any]
    is_read_only: bool = False
    is_open_world: bool = False


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call came to, as text of any length."""

    text: str
    is_error: bool = False


class OnProgress(Protocol):
    """Hears of a call how far it is. Contract: never raises."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Hear that *progress* of *total* is done, and what there is to say."""
        ...


class Link(Protocol):
    """An open connection to a server."""

    async def tools(self) -> tuple[ListedTool, ...]:
        """Return the server's tools. Raises ServerFailed."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress) -> CallResult:
        """Call a tool; cancelling this tells the server. Raises ServerFailed."""
        ...

    async def changed(self) -> bool:
        """Return once the tools are no longer what they were: True to list them anew, False at the end."""
        ...

    async def why_ended(self) -> str:
        """Return why the connection is at its end, in a few words."""
        ...


@dataclass(frozen=True, slots=True)
class ServerHost:
    """What the servers of one session stand on.

    *offer* takes all their tools whenever these change; *tell* shows the user a warning, by its title and
    its text; *child_started* hears of every process (pid, what) and returns what to call when it is gone.
    """

    cwd: Path
    offer: Callable[[Sequence[Tool]], None]
    tell: Callable[[str, str], None]
    child_started: Callable[[int, str], Callable[[], None]]


OpenLink: TypeAlias = Callable[[McpServer, ServerHost], AbstractAsyncContextManager[Link]]
"""Opens a connection, and closes it with all that belongs to it. Raises ServerFailed, OSError and others."""


class ToolServers(Protocol):
    """The tool servers of one session."""

    def use(self, servers: Sequence[McpServer]) -> None:
        """Let *servers* be the ones from now on; who runs and is named again stays. Returns at once."""
        ...

    async def ready(self, cancel: CancelToken) -> None:
        """Wait until every server is ready or has failed, but no longer than a prompt can bear.

        Contract: ends at once when *cancel* fires; does not suspend when there is nobody to wait for.
        """
        ...

    async def aclose(self) -> None:
        """End every server and what it started; bounded in time."""
        ...
