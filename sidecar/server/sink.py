"""The sink of an LSP client: events, notifications, permission questions and progress on their way to it.

A client with ``experimental.sidecar`` is sent every event that it wants. Any other client gets progress and
messages, and none of our own notifications. A projection translates and leaves out; it never invents
anything.

It is loaded only after ``initialize`` is answered, together with everything else that a session needs.

Work-done progress is shown with the client's token, or with one of ours that the client is asked to accept.
Reports that come too fast, or while the client does not read, are dropped; begin and end never are.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias

from sidecar._internal.async_cancel import keep_until_done
from sidecar._internal.errors import log_fault
from sidecar.conductor.contract import (
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
)
from sidecar.conductor.events import Event, Faulted, Message, Notice, Retry, describe_retry
from sidecar.conductor.record.log import EventLog
from sidecar.protocol.codec import to_wire
from sidecar.protocol.handshake import ClientFeatures
from sidecar.protocol.jsonrpc import encode_notification, member
from sidecar.server.documents import ClientWatcher, OpenDocuments, edit_applier
from sidecar.server.handshake import ClientProfile
from sidecar.server.views import (
    ContextLenses,
    RefreshRequester,
    SessionDocuments,
    SessionViews,
    Spawn,
    StaleDiagnostics,
)
from sidecar.service.contract import Answer, Backend, ProgressSink
from sidecar.service.frontend import ask_form, ask_permission, id_of_selection, read_form_answer
from sidecar.service.service import Connection, event_bodies
from sidecar.text.forms import buttons_of, describe_form
from sidecar.transport.outbox import FeedItem, Gap, Projection
from sidecar.transport.peer import Peer, PeerGoneError, PeerRefused

Token: TypeAlias = str | int

REPORT_EVERY_S = 0.1


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
            keep_until_done(asyncio.ensure_future(self.create(progress)), self._creating)

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

    def report(self, message: str, percentage: int | None = None, *, at_once: bool = False) -> None:
        """Show a step, at most ten times a second unless it is shown *at_once*."""
        now = asyncio.get_running_loop().time()
        is_open = self._begun is not None and self.is_announced and self._end is None
        if is_open and (at_once or now - self._reported_at >= REPORT_EVERY_S):
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


class LspClient:
    """One client; *spawn* runs tasks for it.

    Attributes:
        sink: the way to it.
        documents: its open buffers.
        progress: its work-done progress.
        watcher: its file watcher.
        lenses: its code lenses.
        conversations: the conversations that it may open as documents.
    """

    def __init__(self, peer: Peer, backend: Backend, profile: ClientProfile, spawn: Spawn) -> None:
        encoding = profile.encoding
        editor = backend.workspace.editor(edit_applier(peer, profile))
        self._encoding = encoding
        self._peer = peer
        self._features = profile.features or ClientFeatures()
        self.documents = OpenDocuments(backend.workspace, editor, encoding, peer)
        self.progress = ProgressBoard(peer, may_create=profile.may_be_given_progress)
        self.watcher = ClientWatcher(peer, profile, backend.workspace)
        self._views = SessionViews()
        self.sink = LspSink(peer, profile, self.progress, self._views)
        self._service = backend.service
        self._port: Connection | None = None
        refresh = RefreshRequester(peer, "workspace/codeLens/refresh", spawn)
        self.lenses = ContextLenses(self._views, self._request, refresh if profile.refreshes_lenses else None)
        content = RefreshRequester(peer, "workspace/textDocumentContent/refresh", spawn)
        self.conversations = SessionDocuments(self._request, content)
        if profile.shows_diagnostics:
            self._views.add(StaleDiagnostics(self.sink.notify))
        if profile.shows_lenses:
            self._views.add(self.lenses)
        if profile.shows_documents:
            self._views.add(self.conversations)

    def connect(self) -> Connection:
        """Return the client's connection to the service, and make it the first time.

        Called when the client is ready or requests something: before that it must be sent nothing.
        """
        if self._port is None:
            self._port = self._service.connect(self.sink)
            if self._features.answers_diagnostics:
                self._port.lend_diagnostics(self.pull_diagnostics)
            if self._features.answers_queries:
                ask = partial(self._peer.request, "sidecar/editor/query")
                self._port.lend_queries(self._features.answers_queries, ask, self._encoding)
        return self._port

    async def pull_diagnostics(self, uri: str) -> Any:
        """Return the diagnostics of a file as the client knows them, None where it does not answer."""
        try:
            answer = await self._peer.request("textDocument/diagnostic", {"textDocument": {"uri": uri}})
        except (PeerRefused, PeerGoneError):
            return None
        return member(answer, "items")

    def call(self, method: str, params: Any) -> Answer | Awaitable[Answer]:
        """Answer one request to the service. Raises SidecarError, now or when awaited."""
        return (self._port or self.connect()).call(method, params)

    def report_editor(self, params: Any) -> None:
        """Take in the state of the editor. Raises InvalidInput."""
        self.connect().report_editor(params, self._encoding)

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
        return answer.data


_PLAIN_KINDS: Final = frozenset((Faulted.kind, Message.kind, Notice.kind, Retry.kind))
_SEVERITIES: Final = {"error": 1, "warning": 2, "info": 3}


class LspSink:
    """A :class:`~sidecar.service.contract.ClientSink` over *peer*."""

    face = "lsp"
    follows_children = False

    def __init__(
        self, peer: Peer, profile: ClientProfile, progress: ProgressBoard, views: SessionViews
    ) -> None:
        self.client_name = profile.name
        self._peer = peer
        self._outbox = peer.outbox
        self._views = views
        self._profile = profile
        # Of a token, or with None of a new one; None to show no progress.
        self.progress = progress.open
        self._projection = Projection(_PLAIN_KINDS.__contains__, message_bodies)
        if (features := profile.features) is not None:
            wants = features.wants_kind if features.opt_out or features.kinds is not None else None
            self._projection = Projection(wants, event_bodies, features.coalesce_s)

    def load(self) -> tuple[int, int]:
        """Return the number of open requests and the number of bytes that wait to be sent."""
        return self._peer.requests_open, self._outbox.unsent_bytes

    def follow(self, log: EventLog, after_seq: int, parent: str | None = None) -> None:
        """Send the events of *log* after *after_seq*, from now on; a second call only moves forward."""
        self._outbox.follow(log, after_seq, self._projection, parent)
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
            self._outbox.put_state(encode_notification(method, params), params.get("sid"))

    def replay(self, sid: str, events: Iterator[Event]) -> None:
        """Send the events of a past that the client wants, each when there is room for it."""
        features = self._profile.features
        if features is not None:
            self._outbox.put_past(
                sid, events, lambda event: event_bodies(event) if features.wants_kind(event.kind) else ()
            )

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
            "type": _SEVERITIES["warning"],
            "message": "\n".join(line for line in dict.fromkeys(lines) if line),
            "actions": [{"title": option.name} for option in request.options],
        }

        def chosen_id(reply: Any) -> str | None:
            title = member(reply, "title")
            return next((option.option_id for option in request.options if option.name == title), None)

        return await ask_permission(self._peer, "window/showMessageRequest", params, request, chosen_id)

    async def elicit(self, form: Elicitation) -> ElicitationAnswer | None:
        """Show a form, by our own request, or with the editor's buttons where it is one choice."""
        features = self._profile.features
        if features is not None and (features.shows_urls if form.url else features.shows_forms):
            return await ask_form(self._peer, "sidecar/elicit", to_wire(form), read_form_answer)
        buttons = buttons_of(form.schema)
        if not buttons or not self._profile.may_be_asked:
            return None
        params = {
            "type": _SEVERITIES["info"],
            "message": describe_form(form.message, {}, form.url),
            "actions": [{"title": button.label} for button in buttons],
        }

        def read(reply: Any) -> ElicitationAnswer | None:
            if reply is None:
                return ElicitationAnswer("cancel")
            title = member(reply, "title")
            chosen = next((button.content for button in buttons if button.label == title), None)
            return None if chosen is None else ElicitationAnswer("accept", chosen)

        return await ask_form(self._peer, "window/showMessageRequest", params, read)

    def send_part(self, token: str | int, value: dict[str, Any], *, is_last: bool) -> bool:
        """Send part of a result, and return whether there was room; there always is for the last part."""
        if self._outbox.is_full and not is_last:
            return False
        self._outbox.put(encode_notification("$/progress", {"token": token, "value": value}))
        return True


def message_bodies(item: FeedItem) -> Iterable[bytes]:
    """Yield the notifications for a plain client: answers for its log, and problems for its user."""
    if isinstance(item, Gap):
        return
    match item.data:
        case Message(content=content):
            text = "\n\n".join(block["text"] for block in content if block.get("type") == "text")
            if text:
                yield _message("window/logMessage", "info", text)
        case Notice(severity=severity, title=title, description=description):
            method = "window/logMessage" if severity == "info" else "window/showMessage"
            text = f"{title}: {description}" if description else title
            yield _message(method, severity, text)
        case Retry(attempt=attempt, max=most, error=error) as retry:
            text = describe_retry(retry.delay_ms, retry.withdrawn)
            text = f"{text[0].upper()}{text[1:]}: {error} ({attempt} of {most})"
            yield _message("window/logMessage", "warning", text)
        case Faulted(message=text):
            yield _message("window/showMessage", "error", text)


def _message(method: str, severity: str, text: str) -> bytes:
    return encode_notification(method, {"type": _SEVERITIES[severity], "message": text})
