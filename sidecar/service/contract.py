"""The seam between a face and the service: what a face offers, and what it gets for it. Protocols only.

A face turns bytes into calls and events into bytes. It never decides what a call means.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:  # a face answers its handshake before anything of a session is loaded
    from sidecar.capabilities.contract import RunInTerminal
    from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
    from sidecar.conductor.log import EventLog
    from sidecar.workspace.contract import WorkspacePort

__all__ = ["Answer", "Backend", "ClientSink", "ConnectionPort", "OpenBackend", "ProgressSink", "ServicePort"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A result, JSON-ready, and what to do once its bytes are queued.

    *then* begins the events of a session that the result introduces, so that none overtakes it.
    """

    value: Any
    then: Callable[[], None] | None = None


class ProgressSink(Protocol):
    """Work-done progress of one request that brought a token, or for which the face made one."""

    def begin(self, title: str, *, cancellable: bool) -> None:
        """Open the progress."""
        ...

    def on_cancel(self, cancelled: Callable[[], None]) -> None:
        """Call *cancelled* when the user presses Cancel."""
        ...

    def report(self, message: str, percentage: int | None = None) -> None:
        """Say how it goes; may be dropped when reports come too fast."""
        ...

    def end(self, message: str) -> None:
        """Close the progress; later calls do nothing."""
        ...


class ClientSink(Protocol):
    """One connection of a face, as the service sees it. Nothing here blocks or raises."""

    @property
    def face(self) -> str:
        """``lsp``, ``acp1`` or ``acp2``."""
        ...

    @property
    def client_name(self) -> str:
        """What the client calls itself."""
        ...

    def load(self) -> tuple[int, int]:
        """Return the requests being answered and the bytes on their way out."""
        ...

    def follow(self, log: EventLog, after_seq: int) -> None:
        """Project the events of *log* after *after_seq* to the client, from now on; again only moves on."""
        ...

    def unfollow(self, sid: str) -> None:
        """Stop projecting the events of *sid*."""
        ...

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send one notification, in order with everything else."""
        ...

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Put the question to the user; ``cancelled`` when there is nobody to ask."""
        ...

    def progress(self, token: str | int | None) -> ProgressSink:
        """Return the progress of *token*; with None one that asks the client for a token, or does nothing."""
        ...

    def send_part(self, token: str | int, value: dict[str, Any], *, is_last: bool) -> bool:
        """Send part of the result that *token* stands for; False without room, but never for the last.

        A client that has no word for parts of results is sent none.
        """
        ...


class ConnectionPort(Protocol):
    """One connection, as its face sees it."""

    @property
    def client_id(self) -> str:
        """A name of the connection, unique in this process."""
        ...

    def call(self, method: str, params: Any) -> Answer | Awaitable[Answer]:
        """Answer one request; *params* is the JSON value as it came, None when absent.

        Raises SidecarError, now or when awaited: ``methodNotFound`` and ``invalidParams`` included.
        Cancelling the awaitable cancels the request and nothing else.
        """
        ...

    def lend_terminal(self, sid: str, run: RunInTerminal) -> Callable[[], None]:
        """Let session *sid* run its commands in the client's terminal; call what this returns to end that."""
        ...

    def close(self) -> None:
        """The client is gone: its open permission questions count as rejected, its subscriptions end."""
        ...


class ServicePort(Protocol):
    """The service behind every face."""

    def connect(self, link: ClientSink) -> ConnectionPort:
        """Add one client."""
        ...

    async def aclose(self) -> None:
        """Cancel turns, settle, store, end children. Idempotent; the face bounds how long it waits."""
        ...


@dataclass(frozen=True, slots=True)
class Backend:
    """What answers the clients of a face."""

    service: ServicePort
    workspace: WorkspacePort


OpenBackend: TypeAlias = Callable[[Mapping[str, Any]], Backend]
"""Loads or hands over what answers a client, with the options of its ``initialize`` for the daemon.

*Contract: may take as long as loading everything does, so that faces call it once the client has its answer;
raises InvalidInput to refuse the options, any other SidecarError when there is nothing to answer with.*
"""
