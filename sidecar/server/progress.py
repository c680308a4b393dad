"""Work-done progress: with the client's token, or with one that the client is asked for.

Reports that come too fast, or while the client does not read, are dropped; begin and end never are.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from sidecar._internal.errors import log_fault
from sidecar.protocol.jsonrpc import encode_notification
from sidecar.service.contract import ProgressSink
from sidecar.transport.peer import Peer, PeerGone, PeerRefused

__all__ = ["ProgressBoard"]

Token: TypeAlias = str | int

_REPORT_EVERY_S: Final = 0.1


class ProgressBoard:
    """Every progress of one connection. *may_create*: the client lets us make tokens."""

    def __init__(self, peer: Peer, *, may_create: bool) -> None:
        self._peer = peer
        self._may_create = may_create
        self._numbers = itertools.count(1)
        self._open: dict[Token, _Progress] = {}
        self._creating: set[asyncio.Task[None]] = set()

    def open(self, token: Token | None) -> ProgressSink:
        """Return the progress of the client's *token*; with None one of our own, mute if we may make none."""
        if token is not None:
            return _Progress(self, token, is_told=True)
        return _Progress(self, f"sidecar-{next(self._numbers)}", is_told=False)

    def cancel(self, token: Any) -> None:
        """Take the user's Cancel; an unknown or ended progress has nothing to cancel."""
        progress = self._open.get(token) if isinstance(token, str | int) else None
        if progress is not None:
            progress.cancel()

    def close(self) -> None:
        """Wait for no token any more."""
        for task in self._creating:
            task.cancel()
        self._open.clear()

    def begin(self, progress: _Progress) -> None:
        """Make *progress* known; where the token is ours, ask for it first."""
        if progress.is_told:
            self._open[progress.token] = progress
        elif self._may_create:
            self._open[progress.token] = progress
            task = asyncio.ensure_future(self._create(progress))
            self._creating.add(task)
            task.add_done_callback(self._creating.discard)

    def send(self, token: Token, value: dict[str, Any]) -> None:
        """Send one step of a progress."""
        body = encode_notification("$/progress", {"token": token, "value": value})
        if value["kind"] == "report":
            self._peer.outbox.put_if_room(body)
        else:
            self._peer.outbox.put(body)

    def forget(self, token: Token) -> None:
        """Drop a progress that ended."""
        self._open.pop(token, None)

    async def _create(self, progress: _Progress) -> None:
        try:
            await self._peer.request("window/workDoneProgress/create", {"token": progress.token})
        except (PeerRefused, PeerGone):
            self.forget(progress.token)
        else:
            progress.tell()


class _Progress:
    """One progress; *is_told* once the client knows its token."""

    def __init__(self, board: ProgressBoard, token: Token, *, is_told: bool) -> None:
        self.token = token
        self.is_told = is_told
        self._board = board
        self._begun: dict[str, Any] | None = None
        self._end: str | None = None
        self._cancelled: list[Callable[[], object]] = []
        self._reported_at = float("-inf")

    def begin(self, title: str, *, cancellable: bool) -> None:
        """Open the progress."""
        if self._begun is None:
            self._begun = {"kind": "begin", "title": title, "cancellable": cancellable}
            self._board.begin(self)
            if self.is_told:
                self._board.send(self.token, self._begun)

    def on_cancel(self, cancel: Callable[[], object]) -> None:
        """Call *cancel* when the user presses Cancel."""
        self._cancelled.append(cancel)

    def report(self, message: str, percentage: int | None = None) -> None:
        """Say how it goes, ten times a second at most."""
        now = asyncio.get_running_loop().time()
        if self._begun and self.is_told and self._end is None and now - self._reported_at >= _REPORT_EVERY_S:
            self._reported_at = now
            pct = {} if percentage is None else {"percentage": percentage}
            self._board.send(self.token, {"kind": "report", "message": message, **pct})

    def end(self, message: str) -> None:
        """Close the progress; later calls do nothing."""
        if self._begun is None or self._end is not None:
            return
        self._end = message
        if self.is_told:
            self._send_end(message)

    def tell(self) -> None:
        """Send what happened while the client was asked for the token."""
        self.is_told = True
        if self._begun is not None:
            self._board.send(self.token, self._begun)
        if self._end is not None:
            self._send_end(self._end)

    def cancel(self) -> None:
        """Tell whoever does the work that the user does not want it."""
        for cancelled in self._cancelled:
            try:
                cancelled()
            except Exception as error:
                log_fault("cancelling by progress", error)

    def _send_end(self, message: str) -> None:
        self._board.send(self.token, {"kind": "end", "message": message})
        self._board.forget(self.token)
