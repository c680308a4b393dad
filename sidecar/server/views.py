"""What an editor may show of the sessions its client follows, beside their events: marks, lenses, documents.

Each view has a file of its own. Only what the client's capabilities have exists at all, and only what it
looks at is ever computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from sidecar.conductor.contract import Compaction
from sidecar.conductor.events import Event, Faulted, HeadChanged, Rehydrated, Settled
from sidecar.conductor.log import EventLog

__all__ = ["SessionView", "SessionViews", "is_change"]

_CHANGES: Final = (Settled, Faulted, Rehydrated, HeadChanged)


class SessionView(Protocol):
    """Something that is shown of sessions. Nothing here blocks or raises."""

    def saw(self, event: Event) -> None:
        """Take note of one event of a followed session."""
        ...

    def left(self, sid: str) -> None:
        """Show nothing more of session *sid*."""
        ...


@dataclass(slots=True)
class _Followed:
    log: EventLog
    stop: Callable[[], None]
    cursor: int = 0


class SessionViews:
    """The views of one client, and the sessions they look at."""

    def __init__(self) -> None:
        self._views: list[SessionView] = []
        self._followed: dict[str, _Followed] = {}

    @property
    def sids(self) -> tuple[str, ...]:
        """The sessions that are followed."""
        return tuple(self._followed)

    def add(self, view: SessionView) -> None:
        """Let *view* see what happens from now on."""
        self._views.append(view)

    def seq(self, sid: str) -> int | None:
        """Return the number of a session's newest event, None when it is not followed."""
        followed = self._followed.get(sid)
        return None if followed is None else followed.log.seq

    def follow(self, log: EventLog) -> None:
        """Let the views see every event that *log* still has, and those to come."""
        followed = self._followed.get(log.sid)
        if self._views and (followed is None or followed.log is not log):
            self.unfollow(log.sid)
            self._followed[log.sid] = _Followed(log, log.follow(self._wake))
            self._wake(log)

    def unfollow(self, sid: str) -> None:
        """Let the views forget session *sid*."""
        followed = self._followed.pop(sid, None)
        if followed is not None:
            followed.stop()
            for view in self._views:
                view.left(sid)

    def close(self) -> None:
        """Stop following; nobody is there to be shown anything."""
        for followed in self._followed.values():
            followed.stop()
        self._followed.clear()

    def _wake(self, log: EventLog) -> None:
        followed = self._followed[log.sid]
        while events := log.after(followed.cursor):
            followed.cursor = events[-1].seq
            for event in events:
                for view in self._views:
                    view.saw(event)


def is_change(event: Event) -> bool:
    """Whether the conversation is another one after *event*, so that what is shown of it may be too."""
    data = event.data
    return isinstance(data, _CHANGES) or (isinstance(data, Compaction) and data.status != "in_progress")
