"""Sessions that another daemon has taken over, where several daemons share one store."""

from __future__ import annotations

import asyncio

from sidecar._internal.errors import LeaseLostError, log_fault
from sidecar.conductor.errors import SessionNotFound
from sidecar.conductor.events import Notice
from sidecar.conductor.hub import Hub


class Takeovers:
    """Closes each session of *hub* that another daemon took over: its turn ends, nothing more is written."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._closing: set[asyncio.Task[None]] = set()

    def lose(self, sid: str, holder: str) -> None:
        """Tell the clients of *sid* that *holder* has it now, and close it."""
        task = asyncio.ensure_future(self._close(sid, holder))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, sid: str, holder: str) -> None:
        try:
            notices = self._hub.session(sid).notices
            notices.add(
                Notice(
                    "error",
                    "Session",
                    f"{holder} has taken this session over. This daemon stopped writing it; what was not "
                    "stored by then is not in it. Load the session again once it is free.",
                )
            )
            notices.emit_pending()
            self._hub.lost[sid] = holder
            await self._hub.close(sid)
        except (SessionNotFound, LeaseLostError):
            return  # it was closed meanwhile
        except Exception as error:
            log_fault("close a session that was taken over", error)
