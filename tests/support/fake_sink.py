"""A sink without a client, for tests of the service: messages are kept in lists, answers are given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from sidecar.conductor.contract import (
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
)
from sidecar.conductor.events import Event
from sidecar.conductor.record.log import EventLog
from sidecar.protocol.codec import event_to_wire

__all__ = ["FakeProgress", "FakeSink"]


class FakeSink:
    """A :class:`~sidecar.service.contract.ClientSink` that remembers.

    Attributes:
        events: the events of every followed session, in the order they came.
        notices: the notifications, as method and params.
        progresses: the progress shown, by token.
        answer: the answer of the user to every question.
        forms: the forms that it was asked to show.
        form_answer: the answer of the user to every form; ``away`` for none, None for a client without forms.
    """

    def __init__(self, name: str = "editor", face: str = "lsp") -> None:
        self.client_name = name
        self.face = face
        self.follows_children = False
        self.events: list[Event] = []
        self.notices: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[PermissionRequest] = []
        self.progresses: list[FakeProgress] = []
        self.parts: list[tuple[str | int, dict[str, Any]]] = []
        self.answer = PermissionAnswer("cancelled")
        self.forms: list[Elicitation] = []
        self.form_answer: ElicitationAnswer | Literal["away"] | None = None
        self._following: dict[str, Callable[[], None]] = {}
        self._cursors: dict[str, int] = {}
        self._arrived = asyncio.Event()

    def load(self) -> tuple[int, int]:
        """Return the requests being answered and the bytes on their way out."""
        return 1, 0

    def follow(self, log: EventLog, after_seq: int, parent: str | None = None) -> None:
        """Take the events of *log* after *after_seq*; again only moves on."""
        self._cursors[log.sid] = max(after_seq, self._cursors.get(log.sid, 0))
        if log.sid not in self._following:
            self._following[log.sid] = log.follow(self._take)
        self._take(log)

    def unfollow(self, sid: str) -> None:
        """Take no events of *sid* any more."""
        self._cursors.pop(sid, None)
        self._following.pop(sid, lambda: None)()

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Take one notification."""
        self.notices.append((method, params))

    def replay(self, sid: str, events: Iterator[Event]) -> None:
        """Take a past at once, as notifications."""
        for event in events:
            self.notify("sidecar/event", event_to_wire(event))

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Answer a question."""
        self.asked.append(request)
        return self.answer

    async def elicit(self, form: Elicitation) -> ElicitationAnswer | None:
        """Answer a form with *form_answer*."""
        self.forms.append(form)
        if self.form_answer == "away":
            await asyncio.Event().wait()
        return None if isinstance(self.form_answer, str) else self.form_answer

    def progress(self, token: str | int | None) -> FakeProgress:
        """Return the progress of *token*."""
        self.progresses.append(FakeProgress(token))
        return self.progresses[-1]

    def send_part(self, token: str | int, value: dict[str, Any], *, is_last: bool) -> bool:
        """Take part of a result."""
        self.parts.append((token, value))
        return True

    async def until(self, kind: str, n: int = 1) -> Event:
        """Return the *n*-th event of *kind*, once it is there."""
        while True:
            found = [event for event in self.events if event.kind == kind]
            if len(found) >= n:
                return found[n - 1]
            self._arrived.clear()
            await self._arrived.wait()

    def notifications(self, method: str) -> list[dict[str, Any]]:
        """Return the params of every notification *method*."""
        return [params for name, params in self.notices if name == method]

    def _take(self, log: EventLog) -> None:
        for event in log.after(self._cursors[log.sid], limit=100_000):
            self._cursors[log.sid] = event.seq
            self.events.append(event)
            self._arrived.set()


@dataclass
class FakeProgress:
    """A progress that remembers; *ended* is how it ended."""

    token: str | int | None
    title: str | None = None
    reports: list[tuple[str, int | None]] = field(default_factory=list)
    ended: str | None = None
    cancel: Callable[[], object] = lambda: None

    def begin(self, title: str, *, cancellable: bool) -> None:
        """Open the progress."""
        self.title = title

    def on_cancel(self, cancel: Callable[[], object]) -> None:
        """Record the function that Cancel calls."""
        self.cancel = cancel

    def report(self, message: str, percentage: int | None = None, *, at_once: bool = False) -> None:
        """Say how it goes."""
        self.reports.append((message, percentage))

    def end(self, message: str) -> None:
        """Close the progress."""
        if self.ended is None:
            self.ended = message
