"""What there is of a client once it has introduced itself, and how it leaves."""

from __future__ import annotations

from sidecar.server.link import LspLink
from sidecar.server.progress import ProgressBoard
from sidecar.server.watching import ClientWatcher
from sidecar.service.contract import ConnectionPort, ServicePort

__all__ = ["LspClient"]


class LspClient:
    """One client."""

    def __init__(
        self, service: ServicePort, link: LspLink, progress: ProgressBoard, watcher: ClientWatcher
    ) -> None:
        self.link = link
        self.progress = progress
        self.watcher = watcher
        self._service = service
        self._port: ConnectionPort | None = None

    def port(self) -> ConnectionPort:
        """Return the client's place in the service, which it takes when it first needs one.

        Not before ``initialize`` is answered: a service may load itself only then.
        """
        if self._port is None:
            self._port = self._service.connect(self.link)
        return self._port

    def leave(self) -> None:
        """Take back what the client had lent."""
        if self._port is not None:
            self._port.close()
        self.progress.close()
        self.watcher.close()
