"""A client's link that writes down what passes through it. It changes nothing of what passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.log import EventLog
from sidecar.protocol.codec import event_to_wire, to_wire
from sidecar.service.contract import ClientSink, ProgressSink
from sidecar.service.tracing import Tracer

__all__ = ["TracedSink"]


class TracedSink:
    """A :class:`~sidecar.service.contract.ClientSink` over another one."""

    def __init__(self, link: ClientSink, tracer: Tracer, client_id: str) -> None:
        self._link = link
        self._tracer = tracer
        self._client_id = client_id
        self._following: dict[str, Callable[[], None]] = {}

    @property
    def face(self) -> str:
        """``lsp``, ``acp1`` or ``acp2``."""
        return self._link.face

    @property
    def client_name(self) -> str:
        """What the client calls itself."""
        return self._link.client_name

    def load(self) -> tuple[int, int]:
        """Return the requests being answered and the bytes on their way out."""
        return self._link.load()

    def follow(self, log: EventLog, after_seq: int) -> None:
        """Project the events of *log*, and note each when it happens."""
        self._link.follow(log, after_seq)
        self._forget(log.sid)
        self._following[log.sid] = log.follow(self._on_event)

    def unfollow(self, sid: str) -> None:
        """Stop projecting the events of *sid*."""
        self._link.unfollow(sid)
        self._forget(sid)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send one notification."""
        self._tracer.note(self._client_id, "out", {"method": method}, params)
        self._link.notify(method, params)

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Put the question to the user."""
        what = {"method": "sidecar/permission/request", "id": request.permission_id}
        self._tracer.note(self._client_id, "out", what, to_wire(request))
        answer = await self._link.request_permission(request)
        self._tracer.note(self._client_id, "in", {**what, "answer": True}, to_wire(answer))
        return answer

    def progress(self, token: str | int | None) -> ProgressSink:
        """Return the progress of *token*; it shows again what the events tell, and is not noted."""
        return self._link.progress(token)

    def send_part(self, token: str | int, value: dict[str, Any], *, is_last: bool) -> bool:
        """Send part of a result; it says again what the events tell, and is not noted."""
        return self._link.send_part(token, value, is_last=is_last)

    def close(self) -> None:
        """Follow nothing any more."""
        for sid in tuple(self._following):
            self._forget(sid)

    def _forget(self, sid: str) -> None:
        stop = self._following.pop(sid, None)
        if stop is not None:
            stop()

    def _on_event(self, log: EventLog) -> None:
        if self._tracer.is_on:
            for event in log.after(log.seq - 1, 1):
                what = {"method": "sidecar/event", "kind": event.kind, "seq": event.seq}
                self._tracer.note(self._client_id, "out", what, event_to_wire(event))
