"""What comes in unasked: events into a feed per session, notifications into one feed, requests to handlers.

It decides nothing but the answers of a client that has nobody to ask: no permission, no edit, no choice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from sidecar_client.errors import ConnectionLost, SidecarRequestError
from sidecar_client.events import EventFeed, EventStream, Notification, event_of, gap_of, lose_notification
from sidecar_client.feed import Feed, Stream

__all__ = ["Inbox", "RequestHandler"]

RequestHandler: TypeAlias = Callable[[Mapping[str, Any]], Any | Awaitable[Any]]
"""Returns the result for the params of one request of the daemon, both JSON."""

_EVENTS: Final = {"sidecar/event": event_of, "sidecar/gap": gap_of}
_PLAIN_ANSWERS: Final[dict[str, Any]] = {
    "client/registerCapability": None,
    "client/unregisterCapability": None,
    "window/showDocument": {"success": False},
    "window/showMessageRequest": None,
    "window/workDoneProgress/create": None,
    "workspace/applyEdit": {"applied": False, "failureReason": "this client applies no edits"},
}


class Inbox:
    """The feeds and the handlers of one client."""

    def __init__(self, handlers: Mapping[str, RequestHandler]) -> None:
        self._handlers = dict(handlers)
        self._feeds: dict[str, EventFeed] = {}
        self._notifications = Feed(lose_notification)
        self._end: tuple[ConnectionLost | None] | None = None

    def events(self, sid: str, after_seq: int | None) -> EventStream:
        """Return a reader of the events of *sid* after *after_seq*; with None of those still to come."""
        return self._feed(sid).read(after_seq)

    def notifications(self) -> Stream[Notification]:
        """Return a reader of the notifications still to come."""
        return Stream(self._notifications, self._notifications.end)

    def forget(self, sid: str) -> None:
        """Let go of the events of *sid*; its readers come to their end."""
        if feed := self._feeds.pop(sid, None):
            feed.close()

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """Answer a request of the daemon."""
        if handler := self._handlers.get(method):
            result = handler(params)
            return await result if isawaitable(result) else result
        if method not in _PLAIN_ANSWERS:
            raise SidecarRequestError(-32601, f"this client has no {method!r}", {"kind": "methodNotFound"})
        return _PLAIN_ANSWERS[method]

    def notice(self, method: str, params: Mapping[str, Any], size: int) -> None:
        """Put a notification of *size* bytes where it belongs."""
        if method in _EVENTS:
            event = _EVENTS[method](params)
            self._feed(event.sid).push(event, size)
        else:
            self._notifications.push(Notification(method, params), size)

    def end(self, error: ConnectionLost | None) -> None:
        """Bring every reader to its end, now and later."""
        self._end = (error,)
        self._notifications.close(error)
        for feed in self._feeds.values():
            feed.close(error)

    def _feed(self, sid: str) -> EventFeed:
        if sid not in self._feeds:
            self._feeds[sid] = EventFeed()
            if self._end is not None:
                self._feeds[sid].close(*self._end)
        return self._feeds[sid]
