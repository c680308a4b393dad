"""Tool servers as other rooms see them: values and ports. No behaviour but the choice of storable fields.

Environment, headers and arguments may hold secrets: they are never logged, shown or stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

from sidecar._internal.errors import SidecarError
from sidecar._internal.values import Value, hide_in_repr
from sidecar.capabilities.contract import AskForm, Tool


class StdioServer(Value):
    """A server that is started as a process; *env* is added to ours without its secrets."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()

    __repr__ = hide_in_repr("args", "env")

    def without_secrets(self) -> dict[str, str]:
        """Return the fields that may be stored."""
        return {"name": self.name, "type": "stdio", "command": self.command}


class HttpServer(Value):
    """A server that runs elsewhere; *is_sse* for the older of the two transports."""

    name: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    is_sse: bool = False

    __repr__ = hide_in_repr("url", "headers")

    def without_secrets(self) -> dict[str, str]:
        """Return the fields that may be stored; of the address its origin, since the rest may be a key."""
        place = urlsplit(self.url)
        origin = f"{place.scheme}://{place.netloc.rpartition('@')[2]}"
        return {"name": self.name, "type": "sse" if self.is_sse else "http", "url": origin}


McpServer: TypeAlias = StdioServer | HttpServer
"""A tool server, as a client names it."""


class ServerFailed(SidecarError):
    """A server could not be started, has ended, or refused; the message has the reason in its own words."""

    kind: ClassVar[str] = "toolServerFailed"


class ListedTool(Value):
    """A tool as its server lists it. *schema* is an object's JSON schema; hints are hints, not promises."""

    name: str
    title: str
    description: str
    schema: dict[str, Any]
    is_read_only: bool = False
    is_open_world: bool = False


class CallResult(Value):
    """The result of a call, as text of any length; *images* as base64."""

    text: str
    is_error: bool = False
    images: tuple[str, ...] = ()


class OnProgress(Protocol):
    """Receives the progress of a call. Contract: never raises."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take the report that *progress* of *total* is done, with a *message* of the server."""
        ...


class ServerLink(Protocol):
    """An open connection to a server."""

    async def tools(self) -> tuple[ListedTool, ...]:
        """Return the server's tools. Raises ServerFailed."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress) -> CallResult:
        """Call a tool; cancelling this cancels the call in the server. Raises ServerFailed."""
        ...

    async def wait_for_change(self) -> bool:
        """Return once the tools have changed: True to list them anew, False when the connection has ended."""
        ...

    async def why_ended(self) -> str:
        """Return why the connection has ended, in a few words."""
        ...


class ServerHost(Value):
    """The surroundings of the servers of one session.

    Attributes:
        offer: takes all their tools whenever these change.
        warn: shows the user a warning, by its title and its text.
        child_started: called with the id and name of each started process; returns a function to call when
            the process is gone.
        ask_form: puts a form of a server to the user, None where nobody can be asked.
    """

    cwd: Path
    offer: Callable[[Sequence[Tool]], None]
    warn: Callable[[str, str], None]
    child_started: Callable[[int, str], Callable[[], None]]
    ask_form: AskForm | None = None


class ServerState(Value):
    """The state of one server, its number of tools, and why it does not run."""

    name: str
    state: Literal["starting", "running", "restarting", "failed"]
    n_tools: int = 0
    problem: str | None = None


OpenLink: TypeAlias = Callable[[McpServer, ServerHost], AbstractAsyncContextManager[ServerLink]]
"""Opens a connection, and closes it with its processes. Raises ServerFailed, OSError and others."""
