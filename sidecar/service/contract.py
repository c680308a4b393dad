"""The seam between a front end and the service: the client as the service sees it, and shared values.

A front end turns bytes into calls and events into bytes. It never decides the meaning of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from sidecar._internal.values import Value

if TYPE_CHECKING:  # a front end answers its handshake before anything of a session is loaded
    from sidecar.conductor.contract import (
        Elicitation,
        ElicitationAnswer,
        PermissionAnswer,
        PermissionRequest,
    )
    from sidecar.conductor.events import Event
    from sidecar.conductor.record.log import EventLog
    from sidecar.service.service import Connection, Service
    from sidecar.workspace.workspace import Workspace


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


class Backend(Value):
    """The service and the workspace that answer the clients of a front end."""

    service: Service
    workspace: Workspace


OpenBackend: TypeAlias = Callable[[Mapping[str, Any]], Backend]
"""Opens the backend, with the options for the daemon that a client's ``initialize`` has brought.

*Contract: may take as long as loading everything does, so that front ends call it after they have answered
the client; raises InvalidInput to refuse the options, another SidecarError when it cannot open the backend.*
"""
