"""A service without sessions, for tests of the front ends above it.

Each method of :data:`BEHAVIOURS` does one thing that a face must cope with: answer now or later, wait until
it is released or cancelled, fail, ask, report, and fill an event log.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, TypeAlias, cast

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import RunInTerminal
from sidecar.conductor.contract import (
    Elicitation,
    PermissionOption,
    PermissionRequest,
    PermissionSubject,
)
from sidecar.conductor.events import TextDelta, ToolProgress
from sidecar.conductor.record.log import EventLog
from sidecar.protocol.codec import to_wire
from sidecar.protocol.errors import MethodNotFound
from sidecar.service.contract import Answer, Backend, ClientSink
from sidecar.service.service import Service
from sidecar.workspace.workspace import Workspace

__all__ = ["FakeConnection", "FakeService"]


class FakeService:
    """Answers what :data:`BEHAVIOURS` and *answers* name, and records its calls."""

    def __init__(self) -> None:
        self.connections: list[FakeConnection] = []
        self.calls: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {}
        self.logs: dict[str, EventLog] = {}
        self.released = asyncio.Event()
        self.begun = asyncio.Event()
        self.cancelled: list[str] = []
        self.n_closed = 0
        self._numbers = itertools.count(1)

    @property
    def is_working(self) -> bool:
        """Whether a model is at work, which no open request waits for at the end of input."""
        return True

    def connect(self, sink: ClientSink) -> FakeConnection:
        """Add one client."""
        self.connections.append(FakeConnection(self, sink))
        return self.connections[-1]

    async def aclose(self) -> None:
        """Release the requests that wait."""
        self.n_closed += 1
        self.released.set()

    def behind(self, workspace: Workspace) -> Backend:
        """Return the backend of this and *workspace*: front ends call no more of a service than is here."""
        return Backend(cast(Service, self), workspace)

    def new_log(self) -> EventLog:
        """Return the log of a new session."""
        sid = f"fake-{next(self._numbers)}"
        self.logs[sid] = EventLog(sid, lambda: 0)
        return self.logs[sid]


class FakeConnection:
    """One client of the fake."""

    client_id = "fake"

    def __init__(self, service: FakeService, sink: ClientSink) -> None:
        self.service = service
        self.sink = sink
        self.is_closed = False
        self.terminals: dict[str, RunInTerminal] = {}

    def call(self, method: str, params: Any) -> Answer | Awaitable[Answer]:
        """Answer one request."""
        self.service.calls.append((method, params))
        if method in self.service.answers:
            return _later(self.service.answers[method])
        behaviour = BEHAVIOURS.get(method)
        if behaviour is None:
            raise MethodNotFound(method)
        return behaviour(self, params)

    def lend_terminal(self, sid: str, run: RunInTerminal) -> Callable[[], None]:
        """Remember the terminal of a session."""
        self.terminals[sid] = run

        def take_back() -> None:
            self.terminals.pop(sid, None)

        return take_back

    def lend_diagnostics(self, pull: Callable[[str], Awaitable[Any]]) -> None:
        """Record that the client answers for diagnostics."""
        self.service.calls.append(("lend_diagnostics", None))

    def lend_queries(
        self, kinds: Collection[str], ask: Callable[[Any], Awaitable[Any]], encoding: str
    ) -> None:
        """Record that the client answers questions."""
        self.service.calls.append(("lend_queries", (sorted(kinds), encoding)))

    def report_editor(self, params: Any, encoding: str) -> None:
        """Record a report of the editor."""
        self.service.calls.append(("sidecar/editor/context", params))

    def close(self) -> None:
        """The client is gone."""
        self.is_closed = True


Behaviour: TypeAlias = Callable[[FakeConnection, Any], Answer | Awaitable[Answer]]


async def _later(value: Any) -> Answer:
    return Answer(value)


def _status(connection: FakeConnection, params: Any) -> Answer:
    requests, out_bytes = connection.sink.load()
    queues = {"in": requests, "outBytes": out_bytes}
    return Answer({"pid": os.getpid(), "clients": len(connection.service.connections), "queues": queues})


def _new(connection: FakeConnection, params: Any) -> Answer:
    """Start a session; its first events come behind the answer."""
    log = connection.service.new_log()
    log.append(TextDelta("m", "hello"))
    return Answer({"sid": log.sid, "seq": 0}, lambda: connection.sink.follow(log, 0))


def _events(connection: FakeConnection, params: Any) -> Answer:
    """Append *count* events of *size* characters to session *sid*."""
    log = connection.service.logs[params["sid"]]
    text = "x" * params.get("size", 1)
    for _ in range(params["count"]):
        log.append(ToolProgress("t", text))
    return Answer({"seq": log.seq})


def _echo(connection: FakeConnection, params: Any) -> Answer:
    return Answer(params)


async def _wait(connection: FakeConnection, params: Any) -> Answer:
    connection.service.begun.set()
    try:
        await connection.service.released.wait()
    except asyncio.CancelledError:
        connection.service.cancelled.append("fake/wait")
        raise
    return Answer(params)


def _refuse(connection: FakeConnection, params: Any) -> Answer:
    raise InvalidInput("params.sid is missing", hint="name a session")


def _crash(connection: FakeConnection, params: Any) -> Answer:
    raise ValueError(str(params))


async def _crash_later(connection: FakeConnection, params: Any) -> Answer:
    raise ValueError(str(params))


async def _ask(connection: FakeConnection, params: Any) -> Answer:
    """Ask for permission and answer with the reply of the user."""
    return Answer(to_wire(await connection.sink.request_permission(QUESTION)))


def _progress(connection: FakeConnection, params: Any) -> Answer:
    """Show a progress from its begin to its end; with ``keep`` it ends when it is cancelled."""
    sink = connection.sink.progress(params.get("workDoneToken"))
    if sink is None:
        return Answer(None)
    sink.begin("Working", cancellable=True)
    sink.on_cancel(lambda: sink.end("cancelled"))
    sink.report("half", 50)
    sink.report("more", 60)
    if not params.get("keep"):
        sink.end("end_turn")
    return Answer(None)


def _notify(connection: FakeConnection, params: Any) -> Answer:
    connection.sink.notify(params["method"], params["params"])
    return Answer(None)


QUESTION: Final = PermissionRequest(
    sid="fake-1",
    turn_id="t1",
    permission_id="p1",
    title="Run a command?",
    subject=PermissionSubject("command", "c1", "bash", "rm -r build"),
    options=(
        PermissionOption("yes", "Allow", "allow_once"),
        PermissionOption("no", "Reject", "reject_once"),
    ),
    expires_at=0,
)
"""What ``sidecar/fake/ask`` asks."""

BEHAVIOURS: Final[dict[str, Behaviour]] = {
    "sidecar/status": _status,
    "sidecar/session/new": _new,
    "sidecar/turn/run": _progress,
    "sidecar/context/usage": _echo,
    "sidecar/fake/events": _events,
    "sidecar/fake/echo": _echo,
    "sidecar/fake/wait": _wait,
    "sidecar/fake/refuse": _refuse,
    "sidecar/fake/crash": _crash,
    "sidecar/fake/crashLater": _crash_later,
    "sidecar/fake/ask": _ask,
    "sidecar/fake/notify": _notify,
}
"""What each method does."""

FORM: Final = Elicitation(
    sid="fake-1",
    turn_id="t1",
    elicitation_id="e1",
    asker="agent",
    message="Which database?",
    schema={"type": "object", "properties": {"q1": {"type": "string", "enum": ["Postgres", "SQLite"]}}},
    expires_at=0,
    tool_call_id="c1",
)
SIGN_IN: Final = Elicitation(
    sid="fake-1",
    turn_id="t1",
    elicitation_id="e1",
    asker="db",
    message="Sign in",
    schema={"type": "object", "properties": {}},
    expires_at=0,
    url="https://example.org/sign-in",
)
"""Questions to a user, of the agent and of a tool server."""
