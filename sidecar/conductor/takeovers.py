"""Sessions that go on in another daemon, where several daemons share one store."""

from __future__ import annotations

import asyncio

from sidecar._internal.errors import LeaseLostError, log_fault
from sidecar.conductor.errors import SessionNotFound
from sidecar.conductor.events import Notice
from sidecar.conductor.hub import Hub


class Takeovers:
    """Closes the sessions of *hub* that other daemons have taken over, and idle ones that they ask for."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._closing: set[asyncio.Task[None]] = set()

    def lose(self, sid: str, holder: str) -> None:
        """Close *sid*, which *holder* has taken over: its turn ends, and nothing more is written."""
        text = (
            f"{holder} has taken this session over. This daemon stopped writing it; a turn that was not "
            "stored by then is not in it. Load the session again once it is idle there."
        )
        self._close(sid, holder, Notice("error", "Session", text))

    def hand_over(self, sid: str, wanted_by: str) -> bool:
        """Close *sid* for another daemon if it is idle, and return whether it is."""
        session = next((each for each in self._hub.sessions if each.sid == sid), None)
        if session is None or session.is_busy:
            return False
        text = f"This session goes on in {wanted_by}. Load it again to take it back once it is idle there."
        self._close(sid, wanted_by, Notice("info", "Session", text))
        return True

    def _close(self, sid: str, holder: str, notice: Notice) -> None:
        task = asyncio.ensure_future(self._notify_and_close(sid, holder, notice))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _notify_and_close(self, sid: str, holder: str, notice: Notice) -> None:
        try:
            notices = self._hub.session(sid).record.notices
            notices.add(notice)
            notices.emit_pending()
            self._hub.lost[sid] = holder
            await self._hub.close(sid)
        except (SessionNotFound, LeaseLostError):
            return  # it was closed meanwhile
        except Exception as error:
            log_fault("close a session that was taken over", error)
