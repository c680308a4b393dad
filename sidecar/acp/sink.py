"""One ACP connection as the service sees it: events become updates, questions requests to the client.

A client that knows the Agent Client Protocol alone gets none of our own notifications. Progress is what the
updates show already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sidecar.acp.handshake import AcpProfile
from sidecar.acp.permission import ask_permission, may_go_on
from sidecar.acp.shapes import Update, WireEvent
from sidecar.acp.version import ProtocolVersion, UpdateMapper
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.log import EventLog
from sidecar.protocol.codec import event_to_wire
from sidecar.protocol.jsonrpc import encode_notification
from sidecar.service.contract import ProgressSink
from sidecar.transport.feed import FeedItem, Gap, Projection
from sidecar.transport.peer import Peer

__all__ = ["AcpSink"]

_EVENT: Final = "sidecar/event"


@dataclass(frozen=True, slots=True)
class _Followed:
    log: EventLog
    teller: UpdateMapper


class AcpSink:
    """A :class:`~sidecar.service.contract.ClientSink` over *peer*.

    Attributes:
        client_id: what the service calls the connection, once it is connected.
    """

    def __init__(self, peer: Peer, profile: AcpProfile, edition: ProtocolVersion) -> None:
        self._peer = peer
        self._profile = profile
        self._edition = edition
        self.client_id: str | None = None
        self._followed: dict[str, _Followed] = {}
        self._past = edition.teller(profile, None)

    @property
    def face(self) -> str:
        """Which edition of the protocol is spoken."""
        return self._edition.face

    @property
    def client_name(self) -> str:
        """What the client calls itself."""
        return self._profile.name

    def load(self) -> tuple[int, int]:
        """Return the requests being answered and the bytes on their way out."""
        return self._peer.requests_open, self._peer.outbox.unsent_bytes

    def log(self, sid: str) -> EventLog | None:
        """Return the log of a session that the client follows, None for any other."""
        followed = self._followed.get(sid)
        return None if followed is None else followed.log

    def follow(self, log: EventLog, after_seq: int) -> None:
        """Project the events of *log* after *after_seq* to the client, from now on; again only moves on."""
        followed = self._followed.get(log.sid)
        if followed is None or followed.log is not log:
            followed = self._followed[log.sid] = _Followed(
                log, self._edition.teller(self._profile, self.client_id)
            )
        teller = followed.teller
        projection = Projection(teller.kinds.__contains__, partial(self._encode, teller))
        self._peer.outbox.follow(log, after_seq, projection)

    def unfollow(self, sid: str) -> None:
        """Stop projecting the events of *sid*."""
        self._followed.pop(sid, None)
        self._peer.outbox.unfollow(sid)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send one notification, in order with everything else, if the client knows it and wants it.

        An event that comes this way is one of a past that is told again.
        """
        if method == _EVENT:
            self._tell(params["sid"], self._past.updates(params))
        elif self._knows(method):
            self._peer.outbox.put_state(encode_notification(f"_{method}", params))

    def update(self, sid: str, update: Update) -> None:
        """Send one update of a session."""
        self._peer.outbox.put(_encode_update(sid, update))

    def runs_in(self, sid: str, call_id: str, terminal_id: str) -> None:
        """Show that a call of session *sid* runs in a terminal of the client's."""
        followed = self._followed.get(sid)
        if followed is not None:
            self._tell(sid, followed.teller.runs_in(call_id, terminal_id))

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Put the question to the user; ``cancelled`` when there is nobody to ask."""
        followed = self._followed.get(request.sid)
        teller = self._past if followed is None else followed.teller
        self._tell(request.sid, teller.asked())
        may = False
        try:
            answer = await ask_permission(self._peer, self._edition.question(request), request)
            may = may_go_on(answer, request)
            return answer
        finally:
            self._tell(request.sid, teller.answered(request, may=may))

    def progress(self, token: str | int | None) -> ProgressSink:
        """Return a progress that shows nothing."""
        return NullProgress()

    def send_part(self, token: str | int, value: dict[str, Any], *, is_last: bool) -> bool:
        """Send nothing: the protocol has no word for parts of results."""
        return True

    def _tell(self, sid: str, updates: Iterable[Update]) -> None:
        for update in updates:
            self.update(sid, update)

    def _encode(self, teller: UpdateMapper, item: FeedItem) -> Iterable[bytes]:
        if not isinstance(item, Gap):
            event: WireEvent = event_to_wire(item)
            return [_encode_update(item.sid, update) for update in teller.updates(event)]
        if not self._knows("sidecar/gap"):
            return ()
        gap = {"sid": item.sid, "from": item.first, "to": item.last, "reason": item.reason}
        return (encode_notification("_sidecar/gap", gap),)

    def _knows(self, method: str) -> bool:
        """Whether the client speaks our protocol too, and wants notifications of *method*."""
        return self._profile.wishes is not None and method not in self._profile.wishes.opt_out


def _encode_update(sid: str, update: Update) -> bytes:
    return encode_notification("session/update", {"sessionId": sid, "update": update})


class NullProgress:
    """A :class:`~sidecar.service.contract.ProgressSink` nobody sees."""

    def begin(self, title: str, *, cancellable: bool) -> None:
        """Show nothing."""

    def on_cancel(self, cancel: Callable[[], object]) -> None:
        """Never cancel."""

    def report(self, message: str, percentage: int | None = None) -> None:
        """Show nothing."""

    def end(self, message: str) -> None:
        """Show nothing."""
