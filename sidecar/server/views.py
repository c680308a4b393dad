"""Follow sessions for the views of an editor: diagnostics, code lenses and documents that show them.

A view exists only when the client declared the capability for it, and computes only when the client looks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias

from sidecar._internal.values import Value
from sidecar.conductor.contract import Compaction
from sidecar.conductor.events import Event, Faulted, HeadChanged, Rehydrated, Settled
from sidecar.conductor.record.log import EventLog
from sidecar.service.streaming import follow_events
from sidecar.transport.peer import Peer, PeerGoneError, PeerRefused

_CHANGES: Final = (Settled, Faulted, Rehydrated, HeadChanged)

Spawn: TypeAlias = Callable[[Awaitable[None], str], object]
"""Runs work as a task of the connection; the text names the work when it fails."""


class SessionView(Protocol):
    """A view of the sessions that a client follows. Nothing here blocks or raises."""

    def on_event(self, event: Event) -> None:
        """Handle one event of a followed session."""
        ...

    def on_unfollow(self, sid: str) -> None:
        """Stop showing session *sid*."""
        ...


class _Followed(Value):
    log: EventLog
    stop: Callable[[], None]


class SessionViews:
    """The views of one client, and the sessions that they show."""

    def __init__(self) -> None:
        self._views: list[SessionView] = []
        self._followed: dict[str, _Followed] = {}

    @property
    def sids(self) -> tuple[str, ...]:
        """The sessions that are followed."""
        return tuple(self._followed)

    def add(self, view: SessionView) -> None:
        """Add a view; it is given the events from now on."""
        self._views.append(view)

    def seq(self, sid: str) -> int | None:
        """Return the number of a session's newest event, None when it is not followed."""
        followed = self._followed.get(sid)
        return None if followed is None else followed.log.seq

    def follow(self, log: EventLog) -> None:
        """Give the views every event that *log* still has, and those to come."""

        def deliver(event: Event) -> bool:
            for view in self._views:
                view.on_event(event)
            return False

        followed = self._followed.get(log.sid)
        if self._views and (followed is None or followed.log is not log):
            self.unfollow(log.sid)
            self._followed[log.sid] = _Followed(log, follow_events(log, 0, deliver))

    def unfollow(self, sid: str) -> None:
        """Let the views forget session *sid*."""
        followed = self._followed.pop(sid, None)
        if followed is not None:
            followed.stop()
            for view in self._views:
                view.on_unfollow(sid)

    def close(self) -> None:
        """Stop following; the views are left as they are, because the client is gone."""
        for followed in self._followed.values():
            followed.stop()
        self._followed.clear()


class RefreshRequester:
    """Asks a client to refresh views of one kind, once for each view that it has looked at since.

    However often a view changes, the client is asked once until it has looked again; a view that it has not
    looked at is not mentioned.
    """

    def __init__(self, peer: Peer, method: str, spawn: Spawn) -> None:
        self._peer = peer
        self._method = method
        self._spawn = spawn
        self._looked_at: set[str] = set()

    def mark_looked_at(self, uri: str) -> None:
        """Record that the client has just been shown *uri*."""
        self._looked_at.add(uri)

    def refresh(self, uri: str) -> None:
        """Ask the client to refresh *uri*, if it has looked at it."""
        if uri in self._looked_at:
            self._looked_at.discard(uri)
            self._spawn(self._request({"uri": uri}), self._method)

    def refresh_all(self) -> None:
        """Ask the client to refresh everything, with one request that names nothing."""
        if self._looked_at:
            self._looked_at.clear()
            self._spawn(self._request(None), self._method)

    async def _request(self, params: Any) -> None:
        try:
            await self._peer.request(self._method, params)
        except (PeerRefused, PeerGoneError):
            return  # the client refreshes when it likes


def is_change(event: Event) -> bool:
    """Return whether the conversation is another one after *event*, so that views of it are outdated."""
    data = event.data
    return isinstance(data, _CHANGES) or (isinstance(data, Compaction) and data.status != "in_progress")
