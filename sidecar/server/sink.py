"""The sink of an LSP client: events, notifications, permission questions and progress on their way to it.

A client with ``experimental.sidecar`` is sent every event that it wants. Any other client gets progress and
messages, and none of our own notifications. A projection translates and leaves out; it never invents
anything.

It is loaded only after ``initialize`` is answered, together with everything else that a session needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Final

from lsprotocol.types import MessageType

from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.events import Faulted, Message, Notice, Retry
from sidecar.conductor.log import EventLog
from sidecar.protocol.codec import event_to_wire, to_wire
from sidecar.protocol.jsonrpc import encode_notification
from sidecar.server.documents import ClientWatcher, OpenDocuments
from sidecar.server.editor_views import ContextLenses, SessionDocuments, StaleDiagnostics
from sidecar.server.edits import edit_applier
from sidecar.server.profile import ClientProfile, Handshake
from sidecar.server.progress import ProgressBoard
from sidecar.server.views import RefreshRequester, SessionViews, Spawn
from sidecar.service.contract import Answer, Backend, ConnectionPort, ProgressSink
from sidecar.service.permission import ask_permission, id_of_selection
from sidecar.transport.feed import FeedItem, Gap, Projection
from sidecar.transport.peer import Peer


class LspClient:
    """One client; *spawn* runs tasks for it.

    Attributes:
        documents: its open buffers.
        progress: its work-done progress.
        watcher: its file watcher.
        lenses: its code lenses.
        conversations: the conversations that it may open as documents.
    """

    def __init__(self, peer: Peer, backend: Backend, handshake: Handshake, spawn: Spawn) -> None:
        profile, encoding = handshake.profile, handshake.encoding
        editor = backend.workspace.editor(edit_applier(peer, profile, encoding))
        self.documents = OpenDocuments(backend.workspace, editor, encoding, peer)
        self.progress = ProgressBoard(peer, may_create=profile.may_be_given_progress)
        self.watcher = ClientWatcher(peer, profile, backend.workspace)
        self._views = SessionViews()
        self._sink = LspSink(peer, profile, self.progress, self._views)
        self._service = backend.service
        self._port: ConnectionPort | None = None
        refresh = RefreshRequester(peer, "workspace/codeLens/refresh", spawn)
        self.lenses = ContextLenses(self._views, self._request, refresh if profile.refreshes_lenses else None)
        content = RefreshRequester(peer, "workspace/textDocumentContent/refresh", spawn)
        self.conversations = SessionDocuments(self._request, content)
        if profile.shows_diagnostics:
            self._views.add(StaleDiagnostics(self._sink.notify))
        if profile.shows_lenses:
            self._views.add(self.lenses)
        if profile.shows_documents:
            self._views.add(self.conversations)

    def connect(self) -> ConnectionPort:
        """Return the client's connection to the service, and make it the first time.

        Called when the client is ready or requests something: before that it must be sent nothing.
        """
        if self._port is None:
            self._port = self._service.connect(self._sink)
        return self._port

    def call(self, method: str, params: Any) -> Answer | Awaitable[Answer]:
        """Answer one request to the service. Raises SidecarError, now or when awaited."""
        return self.connect().call(method, params)

    def announce_end(self, reason: str, in_ms: int) -> None:
        """Notify the client that the process will end."""
        self._sink.notify("sidecar/closing", {"reason": reason, "inMs": in_ms})

    def close(self) -> None:
        """Return everything that the client has lent, and leave the service."""
        self.documents.close_all()
        if self._port is not None:
            self._port.close()
        self._views.close()
        self.progress.close()
        self.watcher.close()

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        outcome = self.call(method, params)
        answer: Answer = await outcome if inspect.isawaitable(outcome) else outcome
        return answer.value


_PLAIN_KINDS: Final = frozenset((Faulted.kind, Message.kind, Notice.kind, Retry.kind))
_SEVERITIES: Final = {"error": MessageType.Error, "warning": MessageType.Warning, "info": MessageType.Info}


class LspSink:
    """A :class:`~sidecar.service.contract.ClientSink` over *peer*."""

    face = "lsp"

    def __init__(
        self, peer: Peer, profile: ClientProfile, progress: ProgressBoard, views: SessionViews
    ) -> None:
        self.client_name = profile.name
        self._peer = peer
        self._outbox = peer.outbox
        self._views = views
        self._profile = profile
        self._progress = progress
        self._projection = Projection(_PLAIN_KINDS.__contains__, message_bodies)
        if (features := profile.features) is not None:
            self._projection = Projection(features.wants_kind, event_bodies, features.coalesce_s)

    def load(self) -> tuple[int, int]:
        """Return the number of open requests and the number of bytes that wait to be sent."""
        return self._peer.requests_open, self._outbox.unsent_bytes

    def follow(self, log: EventLog, after_seq: int) -> None:
        """Send the events of *log* after *after_seq*, from now on; a second call only moves forward."""
        self._outbox.follow(log, after_seq, self._projection)
        self._views.follow(log)

    def unfollow(self, sid: str) -> None:
        """Stop sending the events of *sid*."""
        self._outbox.unfollow(sid)
        self._views.unfollow(sid)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send one notification, in order with everything else, if the client knows it and wants it."""
        features = self._profile.features
        if features is None:
            is_wanted = not method.startswith("sidecar/")
        elif method == "sidecar/event":
            is_wanted = features.wants_kind(params["kind"])
        else:
            is_wanted = method not in features.opt_out
        if is_wanted:
            self._outbox.put_state(encode_notification(method, params))

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the user, by our own request or with the editor's buttons; ``cancelled`` without either."""
        features = self._profile.features
        if features is not None and features.asks_permission:
            method = "sidecar/permission/request"
            return await ask_permission(self._peer, method, to_wire(request), request, id_of_selection)
        if not self._profile.may_be_asked:
            return PermissionAnswer("cancelled")
        lines = (request.title, request.description, request.subject.detail)
        params = {
            "type": MessageType.Warning.value,
            "message": "\n".join(line for line in dict.fromkeys(lines) if line),
            "actions": [{"title": option.name} for option in request.options],
        }

        def chosen_id(reply: Any) -> str | None:
            title = reply.get("title") if isinstance(reply, Mapping) else None
            return next((option.option_id for option in request.options if option.name == title), None)

        return await ask_permission(self._peer, "window/showMessageRequest", params, request, chosen_id)

    def progress(self, token: str | int | None) -> ProgressSink | None:
        """Return the progress of *token*, or with None one of a new token; None to show no progress."""
        return self._progress.open(token)

    def send_part(self, token: str | int, value: dict[str, Any], *, is_last: bool) -> bool:
        """Send part of a result, and return whether there was room; there always is for the last part."""
        if self._outbox.is_full and not is_last:
            return False
        self._outbox.put(encode_notification("$/progress", {"token": token, "value": value}))
        return True


def event_bodies(item: FeedItem) -> Iterable[bytes]:
    """Return the notification of an event, or of a gap in the events."""
    if isinstance(item, Gap):
        gap = {"sid": item.sid, "from": item.first, "to": item.last, "reason": item.reason}
        return (encode_notification("sidecar/gap", gap),)
    return (encode_notification("sidecar/event", event_to_wire(item)),)


def message_bodies(item: FeedItem) -> Iterable[bytes]:
    """Yield the notifications for a plain client: answers for its log, and problems for its user."""
    if isinstance(item, Gap):
        return
    match item.data:
        case Message(content=content):
            text = "\n\n".join(block["text"] for block in content if block.get("type") == "text")
            if text:
                yield _message("window/logMessage", MessageType.Info, text)
        case Notice(severity=severity, title=title, description=description):
            method = "window/logMessage" if severity == "info" else "window/showMessage"
            text = f"{title}: {description}" if description else title
            yield _message(method, _SEVERITIES[severity], text)
        case Retry(attempt=attempt, max=most, delay_ms=delay_ms, error=error):
            delay = f"trying again in {delay_ms / 1000:g} s"
            text = f"The model did not answer; {delay}: {error} ({attempt} of {most})"
            yield _message("window/logMessage", MessageType.Warning, text)
        case Faulted(message=text):
            yield _message("window/showMessage", MessageType.Error, text)


def _message(method: str, severity: MessageType, text: str) -> bytes:
    return encode_notification(method, {"type": severity.value, "message": text})
