"""The seam between a front end and the service: the protocols of both sides, and nothing else.

A front end turns bytes into calls and events into bytes. It never decides the meaning of a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from sidecar._internal.values import Value

if TYPE_CHECKING:  # a front end answers its handshake before anything of a session is loaded
    from sidecar.capabilities.contract import RunInTerminal
    from sidecar.conductor.contract import (
        Elicitation,
        ElicitationAnswer,
        PermissionAnswer,
        PermissionRequest,
    )
    from sidecar.conductor.events import Event
    from sidecar.conductor.record.log import EventLog
    from sidecar.service.service import Connection
    from sidecar.workspace.contract import PositionEncoding, WorkspacePort


class Answer(Value):
    """A result, JSON-ready or already JSON, and a function to call once its bytes are queued.

    *then* starts the events of a session that the result introduces, so that no event overtakes it.
    """

    value: Any
    then: Callable[[], None] | None = None

    @property
    def data(self) -> Any:
        """The result as JSON-ready data, also where *value* is JSON already."""
        return msgspec.json.decode(self.value) if isinstance(self.value, msgspec.Raw) else self.value


Handler: TypeAlias = "Callable[[Connection, Any], Any]"
"""Answers one method: takes the connection and the typed params; returns a result or an Answer, now or later.

*Contract: takes effect before it returns, or before its first await; raises SidecarError.*
"""


class ProgressSink(Protocol):
    """The work-done progress of one request."""

    def begin(self, title: str, *, cancellable: bool) -> None:
        """Open the progress."""
        ...

    def on_cancel(self, cancel: Callable[[], object]) -> None:
        """Call *cancel* when the user presses Cancel."""
        ...

    def report(self, message: str, percentage: int | None = None, *, at_once: bool = False) -> None:
        """Show a step; unless it is shown *at_once*, it may be dropped when reports come too fast."""
        ...

    def end(self, message: str) -> None:
        """Close the progress; later calls do nothing."""
        ...


class ClientSink(Protocol):
    """The way to one client of a front end. Nothing here blocks or raises."""

    @property
    def face(self) -> str:
        """The protocol of the client: ``lsp``, ``acp1`` or ``acp2``."""
        ...

    @property
    def client_name(self) -> str:
        """The name that the client gives itself."""
        ...

    @property
    def follows_children(self) -> bool:
        """Whether the client takes the events of the sub-agents of a session that it follows."""
        ...

    def load(self) -> tuple[int, int]:
        """Return the number of open requests and the number of bytes that wait to be sent."""
        ...

    def follow(self, log: EventLog, after_seq: int, parent: str | None = None) -> None:
        """Send the events of *log* after *after_seq*, from now on; a second call only moves forward.

        None of a sub-agent goes before the event of its *parent* that introduces it.
        """
        ...

    def unfollow(self, sid: str) -> None:
        """Stop sending the events of *sid*."""
        ...

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send one notification, in order with everything else but the past of another session."""
        ...

    def replay(self, sid: str, events: Iterator[Event]) -> None:
        """Send the past of session *sid*; each event is made when it is sent.

        It is in order with everything that is sent about the session. Other messages may overtake it.
        """
        ...

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user; the answer is ``cancelled`` when nobody can be asked."""
        ...

    async def elicit(self, form: Elicitation) -> ElicitationAnswer | None:
        """Show a form to the user; see :meth:`~sidecar.conductor.clients.ClientPort.elicit`."""
        ...

    def progress(self, token: str | int | None) -> ProgressSink | None:
        """Return the progress of *token*, or with None one of a new token; None to show no progress."""
        ...

    def send_part(self, token: str | int, value: dict[str, Any], *, is_last: bool) -> bool:
        """Send part of the result that *token* stands for, and return whether there was room.

        There always is room for the last part. Where the protocol has no partial results, none is sent.
        """
        ...


class ConnectionPort(Protocol):
    """One connection of the service, as its front end sees it."""

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

    def report_editor(self, params: Any, encoding: PositionEncoding) -> None:
        """Take in ``sidecar/editor/context``; *encoding* is the unit of characters of the client's positions.

        Raises SidecarError ``invalidParams`` for a report of another shape.
        """
        ...

    def lend_diagnostics(self, pull: Callable[[str], Awaitable[Any]]) -> None:
        """Let sessions ask the client for diagnostics: *pull* takes a URI and returns JSON, None for none."""
        ...

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
        ...

    def lend_terminal(self, sid: str, run: RunInTerminal) -> Callable[[], None]:
        """Let session *sid* run its commands in the client's terminal; call the result to end that."""
        ...

    def close(self) -> None:
        """Remove the client: its open permission questions count as rejected, its subscriptions end."""
        ...


class ServicePort(Protocol):
    """The service behind every front end."""

    @property
    def is_working(self) -> bool:
        """Whether a turn or a compaction is under way."""
        ...

    def connect(self, sink: ClientSink) -> ConnectionPort:
        """Add one client."""
        ...

    async def aclose(self) -> None:
        """Cancel turns, settle, store, end children. Idempotent; the caller limits how long it waits."""
        ...


class Backend(Value):
    """The service and the workspace that answer the clients of a front end."""

    service: ServicePort
    workspace: WorkspacePort


OpenBackend: TypeAlias = Callable[[Mapping[str, Any]], Backend]
"""Opens the backend, with the options for the daemon that a client's ``initialize`` has brought.

*Contract: may take as long as loading everything does, so that front ends call it after they have answered
the client; raises InvalidInput to refuse the options, another SidecarError when it cannot open the backend.*
"""
