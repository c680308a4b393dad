"""The clients of the daemon: who is connected, who follows which session, and who may answer for it.

Knows clients by their port alone; it sends nothing by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.conductor.ports import ClientPort

__all__ = ["Audience"]


@dataclass(frozen=True, slots=True)
class _Seat:
    client: ClientPort
    controls: bool


class Audience:
    """Who listens. A client has one seat at a session, and may change it."""

    def __init__(self) -> None:
        self._clients: dict[str, ClientPort] = {}
        self._seats: dict[str, dict[str, _Seat]] = {}

    @property
    def clients(self) -> tuple[ClientPort, ...]:
        """Every connected client."""
        return tuple(self._clients.values())

    def join(self, client: ClientPort) -> None:
        """Add a client."""
        self._clients[client.client_id] = client

    def leave(self, client: ClientPort) -> None:
        """Remove a client, from its sessions too."""
        self._clients.pop(client.client_id, None)
        for seats in self._seats.values():
            seats.pop(client.client_id, None)

    def attach(self, client: ClientPort, sid: str, *, controls: bool) -> None:
        """Let *client* hear of session *sid*, and answer its questions if it *controls* it."""
        self._seats.setdefault(sid, {})[client.client_id] = _Seat(client, controls)

    def detach(self, client: ClientPort, sid: str) -> None:
        """Take *client* off session *sid*."""
        self._seats.get(sid, {}).pop(client.client_id, None)

    def dismiss(self, sid: str) -> None:
        """Take everybody off session *sid*."""
        self._seats.pop(sid, None)

    def controllers(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that may answer a session's questions."""
        return tuple(seat.client for seat in self._seats.get(sid, {}).values() if seat.controls)

    def listeners(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that follow a session, controllers included."""
        return tuple(seat.client for seat in self._seats.get(sid, {}).values())
