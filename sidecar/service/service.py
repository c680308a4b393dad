"""Answers the requests of every connection, on both faces: params in, one hub call, result out.

A handler translates and never decides. What it returns is sent before any event that the result introduces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.hub import Hub
from sidecar.conductor.session import Session
from sidecar.protocol.codec import from_wire, to_wire
from sidecar.protocol.errors import MethodNotFound
from sidecar.protocol.messages import ClientInfo
from sidecar.protocol.methods import METHODS
from sidecar.service.contract import Answer, FaceLink
from sidecar.service.handlers import HANDLERS
from sidecar.service.vitals import Vitals

__all__ = ["Connection", "Service"]


class Service:
    """The service of one daemon. *new_id* names connections."""

    def __init__(self, hub: Hub, vitals: Vitals, new_id: Callable[[], str]) -> None:
        self.hub = hub
        self.vitals = vitals
        self._new_id = new_id
        self._connections: dict[str, Connection] = {}

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The clients that are connected."""
        return tuple(self._connections.values())

    def connect(self, link: FaceLink) -> Connection:
        """Add one client."""
        connection = Connection(self, link, self._new_id())
        self._connections[connection.client_id] = connection
        self.hub.audience.join(connection)
        return connection

    def forget(self, connection: Connection) -> None:
        """Remove one client."""
        self._connections.pop(connection.client_id, None)
        self.hub.audience.leave(connection)

    async def aclose(self) -> None:
        """Cancel turns, settle, store, end children."""
        await self.hub.aclose()
        await self.vitals.aclose()


class Connection:
    """One connected client: what it calls, which sessions it follows, and how the hub reaches it."""

    def __init__(self, service: Service, link: FaceLink, client_id: str) -> None:
        self._service = service
        self.link = link
        self._client_id = client_id
        self._gone = asyncio.Event()

    @property
    def client_id(self) -> str:
        """A name of the connection, unique in this process."""
        return self._client_id

    @property
    def name(self) -> str:
        """What the client calls itself."""
        return self.link.client_name

    @property
    def hub(self) -> Hub:
        """The sessions."""
        return self._service.hub

    @property
    def service(self) -> Service:
        """The service this connection belongs to."""
        return self._service

    def describe(self) -> ClientInfo:
        """Return the client as ``sidecar/status`` shows it."""
        return ClientInfo(self.client_id, self.name, self.link.face)

    def call(self, method: str, params: Any) -> Answer | Awaitable[Answer]:
        """Answer one request; see :class:`~sidecar.service.contract.ConnectionPort`."""
        row, handler = METHODS.get(method), HANDLERS.get(method)
        if row is None or handler is None:
            raise MethodNotFound(method)
        outcome = handler(self, from_wire(row.params, {} if params is None else params))
        return _finish_later(outcome) if isinstance(outcome, Awaitable) else _finish(outcome)

    def close(self) -> None:
        """The client is gone."""
        self._gone.set()
        self._service.forget(self)

    def follow(self, session: Session, after_seq: int) -> None:
        """Send the session's events after *after_seq*, and its questions, to this client."""
        self.hub.audience.attach(self, session.sid, controls=True)
        self.link.follow(session.log, after_seq)

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Put a question to the user; a client that leaves meanwhile has not answered."""
        asking = asyncio.ensure_future(self.link.request_permission(request))
        leaving = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else PermissionAnswer("cancelled")
        finally:
            asking.cancel()
            leaving.cancel()
            await asyncio.gather(asking, leaving, return_exceptions=True)

    def permission_resolved(self, sid: str, permission_id: str, outcome: str, by: str) -> None:
        """Tell the client that a question is answered."""
        params = {"sid": sid, "permissionId": permission_id, "outcome": outcome, "by": by}
        self.link.notify("sidecar/permission/resolved", params)

    def sessions_changed(self) -> None:
        """Tell the client that the list of sessions changed."""
        self.link.notify("sidecar/sessions/changed", {})


def _finish(outcome: Any) -> Answer:
    if isinstance(outcome, Answer):
        return Answer(to_wire(outcome.value), outcome.then)
    return Answer(to_wire(outcome))


async def _finish_later(outcome: Awaitable[Any]) -> Answer:
    return _finish(await outcome)
