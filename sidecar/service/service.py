"""Answers the requests of every connection, on both faces: params in, one hub call, result out.

A handler translates and never decides. What it returns is sent before any event that the result introduces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar.capabilities.contract import RunInTerminal
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.hub import Hub
from sidecar.conductor.session import Session
from sidecar.protocol.codec import from_wire, to_wire
from sidecar.protocol.errors import MethodNotFound
from sidecar.protocol.messages import (
    ClientInfo,
    FsChangedNotification,
    PermissionResolvedNotification,
    SessionsChangedNotification,
)
from sidecar.protocol.methods import METHODS
from sidecar.service.contract import Answer, ClientSink
from sidecar.service.handlers import HANDLERS
from sidecar.service.order import SessionOrder
from sidecar.service.stats import ProcessStats
from sidecar.service.traced import TracedSink
from sidecar.service.tracing import Direction, Tracer
from sidecar.workspace.contract import Dispose

__all__ = ["Connection", "Service"]


class Service:
    """The service of one daemon. *new_id* names connections and what they ask for.

    Attributes:
        order: the requests that must not overtake each other, of every client.
        tracer: what is written down of everything that passes.
    """

    def __init__(self, hub: Hub, stats: ProcessStats, tracer: Tracer, new_id: Callable[[], str]) -> None:
        self.hub = hub
        self.stats = stats
        self.tracer = tracer
        self.order = SessionOrder()
        self.new_id = new_id
        self._connections: dict[str, Connection] = {}

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The clients that are connected."""
        return tuple(self._connections.values())

    def connect(self, link: ClientSink) -> Connection:
        """Add one client."""
        connection = Connection(self, link, self.new_id())
        self._connections[connection.client_id] = connection
        self.hub.audience.join(connection)
        return connection

    def forget(self, connection: Connection) -> None:
        """Remove one client."""
        self._connections.pop(connection.client_id, None)
        self.hub.audience.leave(connection)

    def unfollow(self, sid: str) -> None:
        """Send nothing of session *sid*, which is over, to any client any more."""
        for connection in self.connections:
            connection.unfollow(sid)

    async def aclose(self) -> None:
        """Cancel turns, settle, store, end children."""
        await self.hub.aclose()
        await self.stats.aclose()
        await self.tracer.aclose()


class Connection:
    """One connected client: what it calls, which sessions it follows, and how the hub reaches it."""

    def __init__(self, service: Service, link: ClientSink, client_id: str) -> None:
        self._service = service
        self._client_id = client_id
        self._gone = asyncio.Event()
        self._watches: dict[str, Dispose] = {}
        self._n_calls = 0
        self.link = TracedSink(link, service.tracer, client_id)

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
        if not self._service.tracer.is_on:
            return self._call(method, params)
        self._n_calls += 1
        what = {"method": method, "id": self._n_calls}
        self._note("in", what, params)
        try:
            outcome = self._call(method, params)
        except Exception as error:
            self._note("out", {**what, "error": _kind_of(error)})
            raise
        if isinstance(outcome, Answer):
            self._note("out", {**what, "answer": True}, outcome.value)
            return outcome
        return self._traced(what, outcome)

    def close(self) -> None:
        """The client is gone."""
        self._gone.set()
        for watch_id in tuple(self._watches):
            self.unwatch(watch_id)
        self.link.close()
        self._service.forget(self)

    def follow(self, session: Session, after_seq: int, *, controls: bool = True) -> None:
        """Send the session's events after *after_seq* to this client, and its questions if it *controls*."""
        self.hub.audience.attach(self, session.sid, controls=controls)
        self.link.follow(session.log, after_seq)

    def unfollow(self, sid: str) -> None:
        """Send nothing of session *sid* any more."""
        self.hub.audience.detach(self, sid)
        self.link.unfollow(sid)

    def watch(self, session: Session, globs: Sequence[str]) -> str:
        """Tell this client of files that change, and return the name of the watch."""
        watch_id = self._service.new_id()

        def tell(uris: Sequence[str]) -> None:
            self._notify("sidecar/fs/changed", FsChangedNotification(session.sid, watch_id, tuple(uris)))

        self._watches[watch_id] = session.watch(globs, tell)
        return watch_id

    def unwatch(self, watch_id: str) -> None:
        """End a watch. Raises InvalidInput for one this client has not."""
        if watch_id not in self._watches:
            raise InvalidInput(f"no watch {watch_id!r}", hint="sidecar/fs/watch names what it begins")
        self._watches.pop(watch_id)()

    def lend_terminal(self, sid: str, run: RunInTerminal) -> Dispose:
        """Let session *sid* run its commands in this client's terminal."""
        return self.hub.terminals.lend(sid, run)

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
        told = PermissionResolvedNotification(sid, permission_id, outcome, by)
        self._notify("sidecar/permission/resolved", told)

    def sessions_changed(self) -> None:
        """Tell the client that the list of sessions changed."""
        self._notify("sidecar/sessions/changed", SessionsChangedNotification())

    def _call(self, method: str, params: Any) -> Answer | Awaitable[Answer]:
        row, handler = METHODS.get(method), HANDLERS.get(method)
        if row is None or handler is None:
            raise MethodNotFound(method)
        typed = from_wire(row.params, {} if params is None else params)

        def begin() -> Answer | Awaitable[Answer]:
            outcome = handler(self, typed)
            return _finish_later(outcome) if isinstance(outcome, Awaitable) else _finish(outcome)

        match row.scope:
            case "daemon":
                return begin()
            case "session":
                return self._service.order.run(typed.sid, begin)
            case "exclusive":
                return self._service.order.run_exclusive(typed.sid, begin)

    async def _traced(self, what: dict[str, Any], outcome: Awaitable[Answer]) -> Answer:
        try:
            answer = await outcome
        except BaseException as error:
            self._note("out", {**what, "error": _kind_of(error)})
            raise
        self._note("out", {**what, "answer": True}, answer.value)
        return answer

    def _note(self, direction: Direction, what: dict[str, Any], content: Any = None) -> None:
        self._service.tracer.note(self.client_id, direction, what, content)

    def _notify(self, method: str, params: Any) -> None:
        self.link.notify(method, to_wire(params))


def _kind_of(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    return error.kind if isinstance(error, SidecarError) else "internal"


def _finish(outcome: Any) -> Answer:
    if isinstance(outcome, Answer):
        return Answer(to_wire(outcome.value), outcome.then)
    return Answer(to_wire(outcome))


async def _finish_later(outcome: Awaitable[Any]) -> Answer:
    return _finish(await outcome)
