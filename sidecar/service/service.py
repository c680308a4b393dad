"""Answer the requests of every client, for both front ends: params in, one hub call, result out.

A handler translates and never decides. Its result is sent before any event that the result introduces.

Requests about one session are kept in order. A client sends ``session/load`` and, without waiting for the
answer, a prompt for that session; until the load is done there is no session that could order them. A request
is either ordinary and runs at once, unless an exclusive one of its session is running, or exclusive, and then
it also waits for the exclusive one before it. So at most one exclusive request of a session runs, and nothing
that came after it begins before it is over, whether it succeeded, failed or was cancelled. Only the newest
exclusive request of a session is kept, because each waits for the one before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from sidecar._internal.async_cancel import apply_to_outcome
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import EditorAnswer, EditorQuery, RunInTerminal
from sidecar.conductor.clients import EditorReport, EditorState
from sidecar.conductor.contract import (
    Author,
    EditorPosition,
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
    SessionSummary,
)
from sidecar.conductor.errors import ControlRequiredError
from sidecar.conductor.hub import Hub
from sidecar.conductor.session import Session
from sidecar.protocol.codec import event_to_wire, from_wire, to_wire
from sidecar.protocol.errors import MethodNotFound
from sidecar.protocol.jsonrpc import encode_notification
from sidecar.protocol.messages import (
    EditorQueryParams,
    EditorQueryResult,
    ElicitResolvedNotification,
    FsChangedNotification,
    PermissionResolvedNotification,
    SessionsChangedNotification,
)
from sidecar.protocol.methods import METHODS
from sidecar.service.contract import Answer, ClientSink
from sidecar.service.handlers import HANDLERS
from sidecar.service.handlers.workbench import read_report
from sidecar.service.stats import ProcessStats
from sidecar.service.tracing import TracedSink, Tracer
from sidecar.transport.outbox import FeedItem, Gap
from sidecar.workspace.contract import Dispose, PositionEncoding
from sidecar.workspace.line_index import count_units

Begin: TypeAlias = Callable[[], Answer | Awaitable[Answer]]
"""Begins to answer one request."""


class SessionOrder:
    """The newest exclusive request of each session, while it waits or runs."""

    def __init__(self) -> None:
        self._exclusive: dict[str, asyncio.Future[Answer]] = {}

    def run(self, sid: str, begin: Begin) -> Answer | Awaitable[Answer]:
        """Run a request now, or after the exclusive one that came before it."""
        before = self._exclusive.get(sid)
        return begin() if before is None else _run_after(before, begin)

    def run_exclusive(self, sid: str, begin: Begin) -> Awaitable[Answer]:
        """Run an exclusive request after those before it; later requests of *sid* wait for its answer."""
        task = asyncio.ensure_future(_run_after(self._exclusive.get(sid), begin))
        self._exclusive[sid] = task

        def release(done: asyncio.Future[Answer]) -> None:
            if not done.cancelled():
                # A client may cancel its request before the answer is awaited; an error is no fault then.
                done.exception()
            if self._exclusive.get(sid) is task:
                del self._exclusive[sid]

        task.add_done_callback(release)
        return task


async def _run_after(before: asyncio.Future[Answer] | None, begin: Begin) -> Answer:
    if before is not None:
        await asyncio.wait((before,))
    outcome = begin()
    return await outcome if isawaitable(outcome) else outcome


_MAX_WATCHES: Final = 256
_BEHIND_BYTES: Final = 1024 * 1024
"""The most that waits to be sent to a client which is still sent the details of a state."""


class Service:
    """The service of one daemon. It names connections and watches with *new_id*.

    Attributes:
        order: keeps the requests of all clients about one session in order.
        tracer: records the messages of all clients.
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

    def connect(self, sink: ClientSink) -> Connection:
        """Add one client."""
        connection = Connection(self, sink, self.new_id())
        self._connections[connection.client_id] = connection
        self.hub.audience.join(connection)
        return connection

    def forget(self, connection: Connection) -> None:
        """Remove one client."""
        self._connections.pop(connection.client_id, None)
        self.hub.audience.leave(connection)

    def unfollow(self, sid: str) -> None:
        """Stop sending the events of session *sid*, which has ended, to every client."""
        for connection in self.connections:
            connection.unfollow(sid)

    @property
    def is_working(self) -> bool:
        """Whether a turn or a compaction is under way in any session."""
        return any(session.is_running for session in self.hub.sessions)

    async def aclose(self) -> None:
        """Cancel turns, settle, store, end children. Idempotent; the caller limits how long it waits."""
        await self.hub.aclose()
        await self.stats.aclose()
        await self.tracer.aclose()


class Connection:
    """One connected client: its calls, its watches, and the messages of the hub to it.

    Attributes:
        service: the service it belongs to.
        hub: the sessions.
        sink: sends to the client.
        client_id: a name of the connection, unique in this process.
        name: the name that the client gives itself.
        author: both, as they stand beside the client's prompts.
    """

    def __init__(self, service: Service, sink: ClientSink, client_id: str) -> None:
        self.service = service
        self.hub = service.hub
        self.sink = TracedSink(sink, service.tracer, client_id)
        self.client_id = client_id
        self.name = sink.client_name
        self.author = Author(client_id, self.name)
        self._has_left = asyncio.Event()
        self._watches: dict[str, Dispose] = {}

    def call(self, method: str, params: Any) -> Answer | Awaitable[Answer]:
        """Answer one request; *params* is the JSON value as it came, None when absent.

        Raises SidecarError, now or when awaited: ``methodNotFound`` and ``invalidParams`` included.
        Cancelling the awaitable cancels the request and nothing else.
        """
        if not self.service.tracer.is_on:
            return self._answer(method, params)
        return self.sink.trace_call(method, params, lambda: self._answer(method, params))

    @property
    def editor(self) -> EditorState:
        """The state of the client's editor."""
        return self.hub.audience.editors.state_of(self.client_id)

    def report_editor(self, params: Any, encoding: PositionEncoding) -> None:
        """Take in ``sidecar/editor/context``; *encoding* is the unit of characters of the client's positions.

        Raises InvalidInput for a report of another shape.
        """
        self.hub.audience.editors.report(self.client_id, read_report(params, encoding))

    def lend_diagnostics(self, pull: Callable[[str], Awaitable[Any]]) -> None:
        """Let sessions ask the client for diagnostics: *pull* takes a URI and returns JSON, None for none."""

        async def report(uri: str) -> EditorReport | None:
            items = await pull(uri)
            if items is None:
                return None
            try:
                return read_report({"diagnostics": [{"uri": uri, "diagnostics": items}]}, "utf-16")
            except InvalidInput:
                return None

        self.hub.audience.editors.report(self.client_id, EditorReport(diagnostics={})).pull = report

    def lend_queries(
        self, kinds: Collection[str], ask: Callable[[Any], Awaitable[Any]], encoding: PositionEncoding
    ) -> None:
        """Let sessions ask the language servers of the client.

        Args:
            kinds: the kinds of questions that it answers.
            ask: takes the params of ``sidecar/editor/query`` and returns its result, both JSON. Raises
                SidecarError when the client refuses or is gone.
            encoding: the unit of characters of the client's positions.
        """

        async def answer(query: EditorQuery) -> EditorAnswer:
            position = (
                None
                if query.line is None
                else EditorPosition(query.line, count_units(query.before, encoding))
            )
            params = EditorQueryParams(
                kind=query.kind, uri=query.path.as_uri(), position=position, text=query.text
            )
            found = from_wire(EditorQueryResult, await ask(to_wire(params)))
            return EditorAnswer(found.answer, found.position_encoding or encoding, found.problem or "")

        editor = self.hub.audience.editors.report(self.client_id, EditorReport(encoding=encoding))
        editor.kinds, editor.query = frozenset(kinds), answer

    def close(self) -> None:
        """Remove the client: its open permission questions count as rejected, its subscriptions end."""
        self._has_left.set()
        for watch_id in tuple(self._watches):
            self.unwatch(watch_id)
        self.sink.close()
        self.service.forget(self)

    def check_control(self, sid: str) -> None:
        """Raise ControlRequiredError when session *sid* is in memory and this client does not control it."""
        is_loaded = any(session.sid == sid for session in self.hub.sessions)
        if is_loaded and self not in self.hub.audience.controllers(sid):
            raise ControlRequiredError(sid)

    def take_control(self, session: Session) -> None:
        """Let this client act on a session that it opened, before the answer says that it is open."""
        self.hub.audience.attach(self, session.sid, controls=True)

    def follow(self, session: Session, after_seq: int, *, controls: bool = True) -> None:
        """Send the session's events after *after_seq* to this client, and its questions if it *controls*."""
        self.hub.audience.attach(self, session.sid, controls=controls)
        call = self.hub.audience.parent_calls.get(session.sid)
        self.sink.follow(session.record.log, after_seq, None if call is None else call.sid)
        if controls:
            self.hub.ask_newcomer(self, session)

    def introduce(self, session: Session) -> None:
        """Send this client alone the commands and the usage of a session that others follow already."""
        for event in session.introduction():
            self.sink.notify("sidecar/event", event_to_wire(event))

    def follow_child(self, sid: str) -> None:
        """Send the events of a new sub-agent, if the client takes the events of all of them."""
        if self.sink.follows_children:
            self.follow(self.hub.session(sid), 0, controls=False)

    def unfollow(self, sid: str) -> None:
        """Stop sending the events of session *sid*."""
        self.hub.audience.detach(self, sid)
        self.sink.unfollow(sid)

    def watch(self, session: Session, globs: Sequence[str]) -> str:
        """Notify this client of files that change, and return the name of the watch.

        Raises InvalidInput for too many watches.
        """
        if len(self._watches) >= _MAX_WATCHES:
            hint = "end some with sidecar/fs/unwatch, or name several patterns in one watch"
            raise InvalidInput(f"this client has {len(self._watches)} watches already", hint=hint)
        watch_id = self.service.new_id()

        def notify(uris: Sequence[str]) -> None:
            self._notify("sidecar/fs/changed", FsChangedNotification(session.sid, watch_id, tuple(uris)))

        self._watches[watch_id] = session.workbench.files.watch(globs, notify)
        return watch_id

    def unwatch(self, watch_id: str) -> None:
        """End a watch. Raises InvalidInput when this client has no watch of that name."""
        if watch_id not in self._watches:
            raise InvalidInput(f"no watch {watch_id!r}", hint="sidecar/fs/watch returns the name of a watch")
        self._watches.pop(watch_id)()

    def lend_terminal(self, sid: str, run: RunInTerminal) -> Dispose:
        """Let session *sid* run its commands in this client's terminal; call the result to end that."""
        return self.hub.terminals.lend(sid, run)

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user; the answer is ``cancelled`` when the client leaves meanwhile."""
        asking = asyncio.ensure_future(self.sink.request_permission(request))
        leaving = asyncio.ensure_future(self._has_left.wait())
        try:
            await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else PermissionAnswer("cancelled")
        finally:
            asking.cancel()
            leaving.cancel()
            await asyncio.gather(asking, leaving, return_exceptions=True)

    def permission_resolved(self, sid: str, permission_id: str, outcome: str, by: str) -> None:
        """Notify the client that a question is answered."""
        resolved = PermissionResolvedNotification(sid, permission_id, outcome, by)
        self._notify("sidecar/permission/resolved", resolved)

    async def elicit(self, form: Elicitation) -> ElicitationAnswer | None:
        """Show a form to the user; see :meth:`~sidecar.conductor.clients.ClientPort.elicit`."""
        return await self.sink.elicit(form)

    def elicit_resolved(self, sid: str, elicitation_id: str, action: str, by: str) -> None:
        """Notify the client that a form is over."""
        resolved = ElicitResolvedNotification(sid, elicitation_id, action, by)
        self._notify("sidecar/elicitResolved", resolved)

    def sessions_changed(self, changed: Sequence[SessionSummary], removed: Sequence[str]) -> None:
        """Notify the client of changes of the list of sessions; without details while it reads too slowly."""
        is_behind = self.sink.load()[1] > _BEHIND_BYTES
        notification = SessionsChangedNotification(*(() if is_behind else (tuple(changed), tuple(removed))))
        self._notify("sidecar/sessions/changed", notification)

    def _answer(self, method: str, params: Any) -> Answer | Awaitable[Answer]:
        row, handler = METHODS.get(method), HANDLERS.get(method)
        if row is None or handler is None:
            raise MethodNotFound(method)
        typed = from_wire(row.params, {} if params is None else params)

        def begin() -> Answer | Awaitable[Answer]:
            if row.access == "control":
                self.check_control(typed.sid)
            return apply_to_outcome(handler(self, typed), _encode)

        match row.scope:
            case "daemon":
                return begin()
            case "session":
                return self.service.order.run(typed.sid, begin)
            case "exclusive":
                return self.service.order.run_exclusive(typed.sid, begin)

    def _notify(self, method: str, params: Any) -> None:
        self.sink.notify(method, to_wire(params))


def event_bodies(item: FeedItem) -> Iterable[bytes]:
    """Return the notification of an event, or of a gap in the events."""
    if isinstance(item, Gap):
        gap = {"sid": item.sid, "from": item.first, "to": item.last, "reason": item.reason}
        return (encode_notification("sidecar/gap", gap),)
    return (encode_notification("sidecar/event", event_to_wire(item)),)


def _encode(outcome: Any) -> Answer:
    """Return the result of a handler, or its Answer, with a JSON-ready value."""
    if isinstance(outcome, Answer):
        return Answer(to_wire(outcome.value), outcome.then)
    return Answer(to_wire(outcome))
