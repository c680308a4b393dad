"""Who a session talks to: the clients attached to it, as the hub sees them. Protocols only."""

from __future__ import annotations

from typing import Protocol

from sidecar.conductor.contract import PermissionAnswer, PermissionRequest

__all__ = ["ClientPort"]


class ClientPort(Protocol):
    """One connected client. A face implements it; nothing here blocks or raises."""

    @property
    def client_id(self) -> str:
        """A name of the connection, unique in this process."""
        ...

    @property
    def name(self) -> str:
        """What the client calls itself, such as ``Visual Studio Code``."""
        ...

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Put the question to the user.

        Contract: answers ``cancelled`` when the client is gone or does not understand; the hub alone keeps
        the deadline and cancels the call when it has passed.
        """
        ...

    def permission_resolved(self, sid: str, permission_id: str, outcome: str, by: str) -> None:
        """Tell the client that a question was answered, or ran out, and by whom."""
        ...

    def sessions_changed(self) -> None:
        """Tell the client that the list of sessions changed."""
        ...
