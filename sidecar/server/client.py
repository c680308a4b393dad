"""What there is of a client once it has introduced itself, and how it leaves.

Made only after ``initialize`` is answered: it loads what a session is made of.
"""

from __future__ import annotations

import inspect
from typing import Any

from lsprotocol import types

from sidecar.server.attention import RefreshRequester, Spawn
from sidecar.server.documents import Documents
from sidecar.server.edits import edit_applier
from sidecar.server.lenses import ContextLenses
from sidecar.server.marks import StaleDiagnostics
from sidecar.server.profile import ClientProfile, Handshake
from sidecar.server.progress import ProgressBoard
from sidecar.server.sink import LspSink
from sidecar.server.views import SessionViews
from sidecar.server.virtual import SessionDocuments
from sidecar.server.watching import ClientWatcher
from sidecar.service.contract import Answer, Backend, ConnectionPort
from sidecar.transport.peer import Peer

__all__ = ["LspClient"]


class LspClient:
    """One client. *spawn* runs its requests of the editor."""

    def __init__(self, peer: Peer, backend: Backend, handshake: Handshake, spawn: Spawn) -> None:
        profile, encoding = handshake.profile, handshake.encoding
        editor = backend.workspace.editor(edit_applier(peer, profile, encoding))
        self.documents = Documents(backend.workspace, editor, encoding, self._warn)
        self.progress = ProgressBoard(peer, may_create=profile.may_be_given_progress)
        self.watcher = ClientWatcher(peer, profile, backend.workspace)
        self._views = SessionViews()
        self.link = LspSink(peer, profile, self.progress, self._views)
        self._peer = peer
        self._service = backend.service
        self._spawn = spawn
        self._port: ConnectionPort | None = None
        refresh = self._attention("workspace/codeLens/refresh") if profile.refreshes_lenses else None
        self._lenses = ContextLenses(self._views, self._ask, refresh)
        content = self._attention("workspace/textDocumentContent/refresh")
        self._conversations = SessionDocuments(self._ask, content)
        self._show(profile)

    def port(self) -> ConnectionPort:
        """Return the client's place in the service, which it takes when it first needs one.

        Not before the client has said that it is ready, or asked for something: until then it wants to be
        told nothing.
        """
        if self._port is None:
            self._port = self._service.connect(self.link)
        return self._port

    async def lenses_of(self, uri: str) -> list[types.CodeLens]:
        """Return the code lenses of the document *uri*."""
        return await self._lenses.of(uri)

    async def text_of(self, uri: str) -> str:
        """Return the text of a conversation opened as the document *uri*. Raises InvalidInput."""
        return await self._conversations.text(uri)

    def leave(self) -> None:
        """Take back what the client had lent."""
        self.documents.close_all()
        if self._port is not None:
            self._port.close()
        self._views.close()
        self.progress.close()
        self.watcher.close()

    def _show(self, profile: ClientProfile) -> None:
        """Let see what happens what the client can show, and nothing else."""
        if profile.shows_diagnostics:
            self._views.add(StaleDiagnostics(self.link.notify))
        if profile.shows_lenses:
            self._views.add(self._lenses)
        if profile.shows_documents:
            self._views.add(self._conversations)

    def _attention(self, method: str) -> RefreshRequester:
        return RefreshRequester(self._peer, method, self._spawn)

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        outcome = self.port().call(method, params)
        answer: Answer = await outcome if inspect.isawaitable(outcome) else outcome
        return answer.value

    def _warn(self, message: str) -> None:
        self._peer.notify("window/logMessage", {"type": types.MessageType.Warning.value, "message": message})
