"""What comes in unasked: events into a feed per session, notifications into one feed, requests to handlers.

It decides nothing but the answers of a client that has nobody to ask: no permission, no edit, no choice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from sidecar_client.errors import ConnectionLost, SidecarRequestError
from sidecar_client.events import (
    ClientEvent,
    Notification,
    event_of,
    gap_of,
    notification_gap,
    unread_gap,
)
from sidecar_client.feed import Feed, Stream

__all__ = ["Inbox", "RequestHandler"]

RequestHandler: TypeAlias = Callable[[Mapping[str, Any]], Any | Awaitable[Any]]
"""Returns the result for the params of one request of the daemon, both JSON."""

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
        self._feeds: dict[str, Feed[ClientEvent]] = {}
        self._notifications: Feed[Notification] = Feed(notification_gap)
        self._end: tuple[ConnectionLost | None] | None = None

    def events(self, sid: str, after_seq: int | None) -> Stream[ClientEvent]:
        """Return a reader of the events of *sid* after *after_seq*; with None of those still to come."""
        feed = self._feed(sid)
        return feed.read(feed.last if after_seq is None else after_seq)

    def last_seq(self, sid: str) -> int:
        """Return the number of the newest event that came, 0 when none did."""
        return self._feed(sid).last

    def notifications(self) -> Stream[Notification]:
        """Return a reader of the notifications still to come."""
        return self._notifications.read(self._notifications.last)

    def forget(self, sid: str) -> None:
        """Let go of the events of *sid*; its readers come to their end."""
        if feed := self._feeds.pop(sid, None):
            feed.end()

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
        if method == "sidecar/event":
            self._push(event_of(params), size)
        elif method == "sidecar/gap":
            self._push(gap_of(params), size)
        else:
            self._notifications.push(self._notifications.last + 1, Notification(method, params), size)

    def end(self, error: ConnectionLost | None) -> None:
        """Bring every reader to its end, now and later."""
        self._end = (error,)
        self._notifications.end(error)
        for feed in self._feeds.values():
            feed.end(error)

    def _push(self, event: ClientEvent, size: int) -> None:
        self._feed(event.sid).push(event.seq, event, size)

    def _feed(self, sid: str) -> Feed[ClientEvent]:
        if sid not in self._feeds:
            self._feeds[sid] = Feed(unread_gap(sid))
            if self._end is not None:
                self._feeds[sid].end(*self._end)
        return self._feeds[sid]
