"""An LSP client after its handshake: everything that it offers and is shown.

Made only after ``initialize`` is answered, because it loads everything that a session needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from sidecar.server.documents import ClientWatcher, OpenDocuments
from sidecar.server.editor_views import ContextLenses, SessionDocuments, StaleDiagnostics
from sidecar.server.edits import edit_applier
from sidecar.server.profile import Handshake
from sidecar.server.progress import ProgressBoard
from sidecar.server.sink import LspSink
from sidecar.server.views import RefreshRequester, SessionViews, Spawn
from sidecar.service.contract import Answer, Backend, ConnectionPort
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
