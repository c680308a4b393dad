"""Clients of this daemon at the sessions of others, and clients of others at the sessions of this one.

Where daemons share a store, a session may be open in another one. A client that attaches to such a session
gets a link to the daemon that has it: the requests of the client about the session go through it, and events
and questions come back. On the other side the link is one more client. A link carries the messages of the
wire, so both daemons must be of the same version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar.conductor.content import parse_command
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.errors import SessionNotFound
from sidecar.conductor.events import Event
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.workbench.permission_rules import changes_permissions
from sidecar.protocol.codec import from_wire, to_wire
from sidecar.protocol.errors import MethodNotFound, RequestRefused, lsp_code
from sidecar.protocol.framing import HeaderDecoder, frame_with_header
from sidecar.protocol.handshake import SCHEMA_HASH
from sidecar.protocol.jsonrpc import Id, encode_notification
from sidecar.protocol.methods import METHODS
from sidecar.service.contract import Answer, ProgressSink
from sidecar.service.permission import ask_permission, id_of_selection
from sidecar.service.service import event_bodies
from sidecar.transport.feed import Projection
from sidecar.transport.peer import Dialect, Limits, Peer, PeerGoneError
from sidecar.transport.streams import ByteStream

if TYPE_CHECKING:
    from sidecar.service.service import Connection, Service

_DIALECT: Final = Dialect(
    HeaderDecoder, frame_with_header, lsp_code, lambda request_id: ("$/cancelRequest", {"id": request_id})
)
LOAD: Final = "sidecar/session/load"
_PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""The pauses before a client is attached again."""
_ASK: Final = "sidecar/permission/request"


class Switchboard(Protocol):
    """Opens streams to the daemons that have sessions open."""

    async def open(self, session_id: str, name: str) -> ByteStream | None:
        """Return a stream to the daemon that has *session_id* open; None when none has it."""
        ...

    async def aclose(self) -> None:
        """Close every stream."""
        ...


class HolderGoneError(RequestRefused):
    """The daemon that had the session open has gone."""

    def __init__(self, sid: str) -> None:
        hint = "load the session here, or attach again"
        message = f"the daemon that has session {sid!r} open has gone"
        super().__init__("busy", message, hint=hint, retryable=True)


class SessionLink:
    """The way of one client to one session that another daemon has open.

    Attributes:
        attached: the parameters with which the client attached; None while it has not.
        seen_seq: the number of the newest event that the client has.
    """

    def __init__(
        self, connection: Connection, sid: str, stream: ByteStream, on_end: Callable[[], None]
    ) -> None:
        self._connection = connection
        self.sid = sid
        self.attached: dict[str, Any] | None = None
        self.seen_seq = 0
        self._peer = Peer(stream, _DIALECT, self, Limits())
        self._stream = stream
        self._ending = asyncio.ensure_future(self._watch(on_end))
        self._peer.start()

    async def request(self, method: str, params: Any) -> Answer:
        """Return the answer of the other daemon. Raises SidecarError, HolderGoneError among them."""
        try:
            reply = await self._peer.request("relay", {"method": method, "params": params})
        except PeerGoneError as error:
            raise HolderGoneError(self.sid) from error
        if "error" in reply:
            raise RequestRefused(**reply["error"])
        if method == "sidecar/attach":
            if self.attached is None:  # events may have come already
                first = params.get("fromSeq")
                self.seen_seq = max(self.seen_seq, reply["result"]["seq"] if first is None else first)
            self.attached = params
        return Answer(reply["result"])

    def close(self) -> None:
        """Leave the other daemon."""
        self._ending.cancel()
        self._peer.end()
        self._stream.close()

    def handle_request(self, method: str, params: Any, request_id: Id) -> Awaitable[Answer]:
        """Ask the client a question of the session."""
        if method != _ASK:
            raise MethodNotFound(method)
        return self._ask(from_wire(PermissionRequest, params))

    def handle_notification(self, method: str, params: Any) -> None:
        """Pass a notification on."""
        if method in ("sidecar/event", "sidecar/gap"):
            self.seen_seq = params["seq" if method == "sidecar/event" else "to"]
        self._connection.sink.notify(method, params)

    def on_answered(self, method: str, request_id: Id, error_kind: str | None) -> None:
        """Do nothing."""

    async def _ask(self, request: PermissionRequest) -> Answer:
        answer = await self._connection.request_permission(request)
        return Answer({"outcome": answer.outcome, "optionId": answer.option_id})

    async def _watch(self, on_end: Callable[[], None]) -> None:
        await self._peer.wait_ended()
        on_end()
        self._stream.close()
        self._connection.sessions_changed()


class Relays:
    """The links of this daemon's clients, and the clients that come by the links of other daemons."""

    def __init__(self, service: Service, switchboard: Switchboard) -> None:
        self._service = service
        self._switchboard = switchboard
        self._links: dict[tuple[str, str], SessionLink] = {}
        self._resuming: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._guests: set[GuestClient] = set()

    async def load(self, connection: Connection, link: SessionLink, params: Any) -> Answer:
        """Return the answer of *link* to a load; once its other end has gone, load the session here."""
        try:
            return await link.request(LOAD, params)
        except HolderGoneError:
            self.unlink(connection, link.sid)
            outcome = connection.call(LOAD, params)
            return await outcome if isinstance(outcome, Awaitable) else outcome

    def find(self, connection: Connection, sid: str) -> SessionLink | None:
        """Return the link of a client to session *sid*, None when it has none."""
        return self._links.get((connection.client_id, sid))

    async def link(self, connection: Connection, sid: str) -> SessionLink | None:
        """Link a client to the daemon that has *sid* open; None when none has. Raises SidecarError."""
        stream = await self._switchboard.open(sid, connection.name)
        if stream is None:
            return None
        key = (connection.client_id, sid)

        def on_end() -> None:
            if self._links.get(key) is link:
                del self._links[key]
                if link.attached is not None:
                    self._resuming[key] = asyncio.ensure_future(self.resume(connection, link))

        link = self._links[key] = SessionLink(connection, sid, stream, on_end)
        return link

    async def resume(self, connection: Connection, ended: SessionLink) -> None:
        """Attach a client again behind the newest event that it has, and tell it of a gap.

        The way to the other daemon broke off. After a minute without one this gives up.
        """
        key, params = (connection.client_id, ended.sid), {**(ended.attached or {}), "fromSeq": ended.seen_seq}
        for pause_s in _PAUSES_S:
            await asyncio.sleep(pause_s)
            if key in self._links:
                return  # the client was faster
            try:
                if await self.link(connection, ended.sid) is None:
                    continue
                answer = await self._links[key].request("sidecar/attach", params)
            except SidecarError:
                if key in self._links:
                    self._links.pop(key).close()
                continue
            if (gap := answer.value.get("gap")) is not None:
                connection.sink.notify("sidecar/gap", {"sid": ended.sid, **gap, "reason": "notKept"})
            return

    def unlink(self, connection: Connection, sid: str | None = None) -> None:
        """Close the link of a client to *sid*, or all of its links for None."""

        def is_meant(key: tuple[str, str]) -> bool:
            return key[0] == connection.client_id and sid in (None, key[1])

        for key in filter(is_meant, [*self._links]):
            self._links.pop(key).close()
        for key in filter(is_meant, [*self._resuming]):
            self._resuming.pop(key).cancel()

    async def aclose(self) -> None:
        """Close every link."""
        for task in self._resuming.values():
            task.cancel()
        for link in self._links.values():
            link.close()
        await self._switchboard.aclose()

    def welcome(self, stream: ByteStream, name: str, wire: str) -> None:
        """Serve a client of another daemon, called *name*, which speaks *wire*."""
        guest = GuestClient(self._service, stream, name, speaks_ours=wire == SCHEMA_HASH)
        self._guests.add(guest)
        guest.on_end(lambda: self._guests.discard(guest))


class GuestClient:
    """A client of another daemon; a front end and the sink of its own connection."""

    face = "relay"

    def __init__(self, service: Service, stream: ByteStream, name: str, *, speaks_ours: bool) -> None:
        self.client_name = name
        self._speaks_ours = speaks_ours
        self._peer = Peer(stream, _DIALECT, self, Limits())
        self._connection = service.connect(self)
        self._projection = Projection(None, event_bodies)
        self._stream = stream
        self._peer.start()

    def on_end(self, forget: Callable[[], None]) -> None:
        """Leave the service when the link ends, then call *forget*."""

        async def leave() -> None:
            await self._peer.wait_ended()
            self._connection.close()
            self._stream.close()
            forget()

        self._leaving = asyncio.ensure_future(leave())

    def handle_request(self, method: str, params: Any, request_id: Id) -> Awaitable[Answer]:
        """Answer a request that came through the link; its error is part of the answer."""
        return self._answer(params["method"], params.get("params"))

    def handle_notification(self, method: str, params: Any) -> None:
        """Do nothing: a link has requests alone."""

    def on_answered(self, method: str, request_id: Id, error_kind: str | None) -> None:
        """Do nothing."""

    def load(self) -> tuple[int, int]:
        """Return the number of open requests and the number of bytes that wait to be sent."""
        return self._peer.requests_open, self._peer.outbox.unsent_bytes

    def follow(self, log: EventLog, after_seq: int) -> None:
        """Send the events of *log* after *after_seq*."""
        self._peer.outbox.follow(log, after_seq, self._projection)

    def unfollow(self, sid: str) -> None:
        """Stop sending the events of *sid*."""
        self._peer.outbox.unfollow(sid)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send one notification."""
        self._peer.outbox.put_state(encode_notification(method, params))

    def replay(self, events: Iterator[Event]) -> None:
        """Send the past of a session."""
        self._peer.outbox.put_past(events, event_bodies)

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user at the other end."""
        return await ask_permission(self._peer, _ASK, to_wire(request), request, id_of_selection)

    def progress(self, token: str | int | None) -> ProgressSink | None:
        """Return None: progress is not sent through a link."""
        return None

    def send_part(self, token: str | int, value: dict[str, Any], *, is_last: bool) -> bool:
        """Return that there was room; parts of results are not sent through a link."""
        return True

    def check(self, method: str, params: Any) -> None:
        """Raise SidecarError for a request that no link may bring.

        A link is about sessions that are open here. On this machine alone, permissions are given, tool
        servers are named, folders are added, and conversations are written to files.
        """
        row = METHODS.get(method)
        if row is None or row.scope == "daemon":
            raise MethodNotFound(method)
        wanted = from_wire(row.params, params)
        infos = (session.info for session in self._connection.hub.sessions)
        if (info := next((info for info in infos if info.sid == wanted.sid), None)) is None:
            raise SessionNotFound(wanted.sid)
        command = parse_command(getattr(wanted, "input", ()))
        folders = {getattr(wanted, "cwd", None) or info.cwd, *(getattr(wanted, "roots", None) or ())}
        if (
            any(getattr(wanted, name, None) for name in ("allow", "set", "mcp_servers", "path"))
            or not folders <= {info.cwd, *info.roots}
            or getattr(wanted, "config_id", None) == "permissions"
            or (command is not None and changes_permissions(command))
        ):
            raise InvalidInput("what runs unasked is decided on the machine that has the session open")

    async def _answer(self, method: str, params: Any) -> Answer:
        try:
            if not self._speaks_ours:
                hint = "install the same version of sidecar on both machines"
                message = "the daemon that has the session open is of another version"
                raise RequestRefused("busy", message, hint=hint)
            self.check(method, params)
            outcome = self._connection.call(method, params)
            answer = await outcome if isinstance(outcome, Awaitable) else outcome
        except SidecarError as error:
            names = ("kind", "message", "hint", "retryable")
            return Answer({"error": {name: getattr(error, name) for name in names}})
        return Answer({"result": answer.value}, answer.then)
