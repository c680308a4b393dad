"""Work-done progress: with the client's token, or with one of ours that the client is asked to accept.

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
from sidecar.transport.peer import Peer, PeerGoneError, PeerRefused

Token: TypeAlias = str | int

_REPORT_EVERY_S: Final = 0.1


class ProgressBoard:
    """Every progress of one connection; with *may_create* the client accepts tokens of ours."""

    def __init__(self, peer: Peer, *, may_create: bool) -> None:
        self._peer = peer
        self._outbox = peer.outbox
        self._may_create = may_create
        self._numbers = itertools.count(1)
        self._open: dict[Token, _Progress] = {}
        self._creating: set[asyncio.Task[None]] = set()

    def open(self, token: Token | None) -> ProgressSink | None:
        """Return the progress of the client's *token*; with None one of ours, if we may create one."""
        if token is not None:
            return _Progress(self, token, is_announced=True)
        if self._may_create:
            return _Progress(self, f"sidecar-{next(self._numbers)}", is_announced=False)
        return None

    def cancel(self, token: Any) -> None:
        """Handle the user's Cancel; a progress that is unknown or has ended is ignored."""
        progress = self._open.get(token) if isinstance(token, str | int) else None
        if progress is not None:
            progress.cancel()

    def close(self) -> None:
        """Stop waiting for tokens."""
        for task in self._creating:
            task.cancel()
        self._open.clear()

    def begin(self, progress: _Progress) -> None:
        """Add *progress*; where the token is ours, ask the client to accept it first."""
        self._open[progress.token] = progress
        if not progress.is_announced:
            task = asyncio.ensure_future(self.create(progress))
            self._creating.add(task)
            task.add_done_callback(self._creating.discard)

    def send(self, token: Token, value: dict[str, Any]) -> None:
        """Send one step of a progress."""
        body = encode_notification("$/progress", {"token": token, "value": value})
        if value["kind"] == "report":
            self._outbox.put_if_room(body)
        else:
            self._outbox.put(body)

    def forget(self, token: Token) -> None:
        """Remove a progress that has ended."""
        self._open.pop(token, None)

    async def create(self, progress: _Progress) -> None:
        """Ask the client to accept the token of *progress*, and forget the progress when it refuses."""
        try:
            await self._peer.request("window/workDoneProgress/create", {"token": progress.token})
        except (PeerRefused, PeerGoneError):
            self.forget(progress.token)
        else:
            progress.announce()


class _Progress:
    """One progress; *is_announced* says whether the client knows its token."""

    def __init__(self, board: ProgressBoard, token: Token, *, is_announced: bool) -> None:
        self.token = token
        self.is_announced = is_announced
        self._board = board
        self._begun: dict[str, Any] | None = None
        self._end: str | None = None
        self._on_cancel: list[Callable[[], object]] = []
        self._reported_at = float("-inf")

    def begin(self, title: str, *, cancellable: bool) -> None:
        """Open the progress."""
        if self._begun is None:
            self._begun = {"kind": "begin", "title": title, "cancellable": cancellable}
            self._board.begin(self)
            if self.is_announced:
                self._board.send(self.token, self._begun)

    def on_cancel(self, cancel: Callable[[], object]) -> None:
        """Call *cancel* when the user presses Cancel."""
        self._on_cancel.append(cancel)

    def report(self, message: str, percentage: int | None = None) -> None:
        """Show a step, at most ten times a second."""
        now = asyncio.get_running_loop().time()
        is_open = self._begun is not None and self.is_announced and self._end is None
        if is_open and now - self._reported_at >= _REPORT_EVERY_S:
            self._reported_at = now
            pct = {} if percentage is None else {"percentage": percentage}
            self._board.send(self.token, {"kind": "report", "message": message, **pct})

    def end(self, message: str) -> None:
        """Close the progress; later calls do nothing."""
        if self._begun is not None and self._end is None:
            self._end = message
            self._send_end()

    def announce(self) -> None:
        """Send the steps that happened while the client was asked to accept the token."""
        self.is_announced = True
        if self._begun is not None:
            self._board.send(self.token, self._begun)
        self._send_end()

    def cancel(self) -> None:
        """Call the functions that cancel the work."""
        for cancel in self._on_cancel:
            try:
                cancel()
            except Exception as error:
                log_fault("cancelling by progress", error)

    def _send_end(self) -> None:
        if self.is_announced and self._end is not None:
            self._board.send(self.token, {"kind": "end", "message": self._end})
            self._board.forget(self.token)
