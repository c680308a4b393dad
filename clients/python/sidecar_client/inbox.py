"""Messages that the daemon sends unasked: events, notifications, and requests with their handlers.

A request without a handler gets a cautious answer: no permission, no edit, no choice.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, Final, TypeAlias, TypeVar

from sidecar.protocol.codec import from_wire, to_wire
from sidecar.protocol.messages import (
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
)
from sidecar_client.errors import ConnectionLost, SidecarRequestError
from sidecar_client.events import (
    BoundedLog,
    EventStream,
    LogReader,
    Notification,
    SessionEventLog,
    count_lost_notification,
    event_of,
    gap_of,
)

_log = logging.getLogger("sidecar_client")

Q = TypeVar("Q")
A = TypeVar("A")

RequestHandler: TypeAlias = Callable[[Mapping[str, Any]], Any | Awaitable[Any]]
"""Returns the result for the params of one request of the daemon, both JSON."""

PermissionHandler: TypeAlias = Callable[[PermissionRequest], PermissionAnswer | Awaitable[PermissionAnswer]]
"""Answers one question. Raising counts as a rejection; so does an answer after ``expires_at``."""

ElicitHandler: TypeAlias = Callable[[Elicitation], ElicitationAnswer | Awaitable[ElicitationAnswer]]
"""Answers one form. Raising dismisses it."""

_EVENTS: Final = {"sidecar/event": event_of, "sidecar/gap": gap_of}
_DEFAULT_ANSWERS: Final[dict[str, Any]] = {
    "client/registerCapability": None,
    "client/unregisterCapability": None,
    "window/showDocument": {"success": False},
    "window/showMessageRequest": None,
    "window/workDoneProgress/create": None,
    "workspace/applyEdit": {"applied": False, "failureReason": "this client does not apply edits"},
}


class Inbox:
    """The logs and the handlers of one client."""

    def __init__(self, handlers: Mapping[str, RequestHandler]) -> None:
        self._handlers = dict(handlers)
        self._logs: dict[str, SessionEventLog] = {}
        self._notifications = BoundedLog(count_lost_notification)
        self._end: tuple[ConnectionLost | None] | None = None

    def events(self, sid: str, after_seq: int | None) -> EventStream:
        """Return a reader of the events of *sid* after *after_seq*; with None of future ones."""
        return self._log_of(sid).read(after_seq)

    def notifications(self) -> LogReader[Notification]:
        """Return a reader of future notifications."""
        return LogReader(self._notifications, self._notifications.end)

    def forget(self, sid: str) -> None:
        """Drop the events of *sid*; its readers end."""
        if log := self._logs.pop(sid, None):
            log.close()

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """Answer a request of the daemon."""
        if handler := self._handlers.get(method):
            result = handler(params)
            return await result if isawaitable(result) else result
        if method not in _DEFAULT_ANSWERS:
            raise SidecarRequestError(
                -32601, f"this client does not handle {method!r}", {"kind": "methodNotFound"}
            )
        return _DEFAULT_ANSWERS[method]

    def receive(self, method: str, params: Mapping[str, Any], size: int) -> None:
        """Add a notification to its log.

        Args:
            method: the name of the notification.
            params: its params, JSON.
            size: its size in bytes.
        """
        if method in _EVENTS:
            event = _EVENTS[method](params)
            self._log_of(event.sid).push(event, size)
        else:
            self._notifications.push(Notification(method, params), size)

    def end(self, error: ConnectionLost | None) -> None:
        """End every reader, now and later."""
        self._end = (error,)
        self._notifications.close(error)
        for log in self._logs.values():
            log.close(error)

    def _log_of(self, sid: str) -> SessionEventLog:
        if sid not in self._logs:
            self._logs[sid] = SessionEventLog()
            if self._end is not None:
                self._logs[sid].close(*self._end)
        return self._logs[sid]


def choose_option(request: PermissionRequest, kind: str) -> PermissionAnswer:
    """Return the answer of *kind*, such as ``allow_once``, to *request*."""
    option = next((option.option_id for option in request.options if option.kind == kind), None)
    return PermissionAnswer("selected", option) if option else PermissionAnswer("cancelled")


def allow(request: PermissionRequest) -> PermissionAnswer:
    """Allow this once. As a handler it allows everything."""
    return choose_option(request, "allow_once")


def reject(request: PermissionRequest) -> PermissionAnswer:
    """Refuse this once. As a handler it refuses everything."""
    return choose_option(request, "reject_once")


def answer_permissions(handler: PermissionHandler) -> RequestHandler:
    """Return *handler* as a handler of ``sidecar/permission/request``; if it fails, the answer is no."""
    return _answerer(PermissionRequest, handler, reject, "permission handler failed; rejected")


def answer_forms(handler: ElicitHandler) -> RequestHandler:
    """Return *handler* as a handler of ``sidecar/elicit``; if it fails, the form is dismissed."""
    return _answerer(
        Elicitation, handler, lambda _: ElicitationAnswer("cancel"), "handler of forms failed; dismissed"
    )


def _answerer(
    kind: type[Q], handler: Callable[[Q], A | Awaitable[A]], give_up: Callable[[Q], A], problem: str
) -> RequestHandler:
    async def answer(params: Mapping[str, Any]) -> Any:
        question = from_wire(kind, params)
        try:
            decision = handler(question)
            return to_wire(await decision if isawaitable(decision) else decision)
        except Exception:
            _log.exception("the %s", problem)
            return to_wire(give_up(question))

    return answer
