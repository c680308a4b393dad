"""What there is of a client once it has introduced itself, and how it leaves."""

from __future__ import annotations

import inspect
from typing import Any

from sidecar.server.attention import Attention, Spawn
from sidecar.server.lenses import ContextLenses
from sidecar.server.link import LspLink
from sidecar.server.lsp import LspServer
from sidecar.server.marks import StaleMarks
from sidecar.server.profile import ClientProfile
from sidecar.server.progress import ProgressBoard
from sidecar.server.views import Views
from sidecar.server.virtual import SessionDocuments
from sidecar.server.watching import ClientWatcher
from sidecar.service.contract import Answer, ConnectionPort, ServicePort
from sidecar.transport.peer import Peer
from sidecar.workspace.contract import WorkspacePort

__all__ = ["LspClient"]


class LspClient:
    """One client."""

    def __init__(
        self, peer: Peer, profile: ClientProfile, service: ServicePort, workspace: WorkspacePort
    ) -> None:
        self.progress = ProgressBoard(peer, may_create=profile.may_be_given_progress)
        self._views = Views()
        self.link = LspLink(peer, profile, self.progress, self._views)
        self.watcher = ClientWatcher(peer, profile, workspace)
        self._peer = peer
        self._profile = profile
        self._service = service
        self._port: ConnectionPort | None = None

    def port(self) -> ConnectionPort:
        """Return the client's place in the service, which it takes when it first needs one.

        Not before ``initialize`` is answered: a service may load itself only then.
        """
        if self._port is None:
            self._port = self._service.connect(self.link)
        return self._port

    def offer_views(self, server: LspServer, spawn: Spawn) -> None:
        """Let *server*, before it is initialized, offer what the client can show, and nothing else."""
        profile = self._profile
        if profile.shows_diagnostics:
            self._views.add(StaleMarks(self.link.notify))
        if profile.shows_lenses:
            refresh = Attention(self._peer, "workspace/codeLens/refresh", spawn)
            lenses = ContextLenses(self._views, self._ask, refresh if profile.refreshes_lenses else None)
            self._views.add(lenses)
            server.show_lenses(lenses)
        if profile.shows_documents:
            refresh = Attention(self._peer, "workspace/textDocumentContent/refresh", spawn)
            documents = SessionDocuments(self._ask, refresh)
            self._views.add(documents)
            server.show_documents(documents)

    def leave(self) -> None:
        """Take back what the client had lent."""
        if self._port is not None:
            self._port.close()
        self._views.close()
        self.progress.close()
        self.watcher.close()

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        outcome = self.port().call(method, params)
        answer: Answer = await outcome if inspect.isawaitable(outcome) else outcome
        return answer.value
