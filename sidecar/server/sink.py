"""One LSP connection as the service sees it: events, notifications, questions and progress to the client.

A client without ``experimental.sidecar`` gets progress and messages, and none of our own notifications.
"""

from __future__ import annotations

from typing import Any

from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.log import EventLog
from sidecar.protocol.jsonrpc import encode_notification
from sidecar.server.permission import ask_permission
from sidecar.server.profile import ClientProfile
from sidecar.server.progress import ProgressBoard
from sidecar.server.projection import plain_projection, sidecar_projection
from sidecar.server.views import SessionViews
from sidecar.service.contract import ProgressSink
from sidecar.transport.peer import Peer

__all__ = ["LspSink"]


class LspSink:
    """A :class:`~sidecar.service.contract.ClientSink` over *peer*."""

    face = "lsp"

    def __init__(
        self, peer: Peer, profile: ClientProfile, progress: ProgressBoard, views: SessionViews
    ) -> None:
        self._peer = peer
        self._views = views
        self._profile = profile
        self._progress = progress
        wishes = profile.wishes
        self._projection = plain_projection() if wishes is None else sidecar_projection(wishes)

    @property
    def client_name(self) -> str:
        """What the client calls itself."""
        return self._profile.name

    def load(self) -> tuple[int, int]:
        """Return the requests being answered and the bytes on their way out."""
        return self._peer.requests_open, self._peer.outbox.unsent_bytes

    def follow(self, log: EventLog, after_seq: int) -> None:
        """Project the events of *log* after *after_seq* to the client, from now on; again only moves on."""
        self._peer.outbox.follow(log, after_seq, self._projection)
        self._views.follow(log)

    def unfollow(self, sid: str) -> None:
        """Stop projecting the events of *sid*."""
        self._peer.outbox.unfollow(sid)
        self._views.unfollow(sid)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send one notification, in order with everything else, if the client knows it and wants it."""
        if self._wants(method, params):
            self._peer.outbox.put_state(encode_notification(method, params))

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Put the question to the user; ``cancelled`` when there is nobody to ask."""
        return await ask_permission(self._peer, self._profile, request)

    def progress(self, token: str | int | None) -> ProgressSink:
        """Return the progress of *token*; with None one that asks the client for a token, or does nothing."""
        return self._progress.open(token)

    def send_part(self, token: str | int, value: dict[str, Any], *, is_last: bool) -> bool:
        """Send part of the result that *token* stands for; False without room, but never for the last."""
        outbox = self._peer.outbox
        if outbox.is_full and not is_last:
            return False
        outbox.put(encode_notification("$/progress", {"token": token, "value": value}))
        return True

    def _wants(self, method: str, params: dict[str, Any]) -> bool:
        wishes = self._profile.wishes
        if wishes is None:
            return not method.startswith("sidecar/")
        if method == "sidecar/event":
            return wishes.wants_kind(params["kind"])
        return method not in wishes.opt_out
