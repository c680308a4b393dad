"""Clients: which are connected, which sessions they follow, and the terminals that they lend."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sidecar._internal.values import Value
from sidecar.capabilities.contract import RunInTerminal
from sidecar.conductor.editors import Editors
from sidecar.conductor.ports import ClientPort
from sidecar.workspace.path_index import PathIndexes


class _Attachment(Value):
    client: ClientPort
    controls: bool


class Audience:
    """The connected clients. A client is attached to a session once, as a listener or as a controller.

    Attributes:
        editors: the editors that clients have reported.
        path_indexes: the paths of folders, for completion.
    """

    def __init__(self) -> None:
        self._clients: dict[str, ClientPort] = {}
        self.path_indexes = PathIndexes()
        self._attached: dict[str, dict[str, _Attachment]] = {}
        self.editors = Editors(self._attached)

    @property
    def clients(self) -> tuple[ClientPort, ...]:
        """Every connected client."""
        return tuple(self._clients.values())

    def join(self, client: ClientPort) -> None:
        """Add a client that has connected."""
        self._clients[client.client_id] = client

    def leave(self, client: ClientPort) -> None:
        """Remove a client, and detach it from every session."""
        self._clients.pop(client.client_id, None)
        self.editors.forget(client.client_id)
        for attached in self._attached.values():
            attached.pop(client.client_id, None)

    def attach(self, client: ClientPort, sid: str, *, controls: bool) -> None:
        """Attach *client* to session *sid*; one that *controls* it may also answer its questions."""
        self._attached.setdefault(sid, {})[client.client_id] = _Attachment(client, controls)

    def detach(self, client: ClientPort, sid: str) -> None:
        """Detach *client* from session *sid*."""
        self._attached.get(sid, {}).pop(client.client_id, None)

    def dismiss(self, sid: str) -> None:
        """Detach every client from session *sid*."""
        self._attached.pop(sid, None)

    def controllers(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that may answer a session's questions."""
        return tuple(each.client for each in self._attached.get(sid, {}).values() if each.controls)

    def listeners(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that follow a session, controllers included."""
        return tuple(each.client for each in self._attached.get(sid, {}).values())


class Terminals:
    """The terminals that clients lend to sessions; a session uses the one that was lent last."""

    def __init__(self) -> None:
        self._lent: dict[str, list[RunInTerminal]] = {}

    def lend(self, sid: str, run: RunInTerminal) -> Callable[[], None]:
        """Let session *sid* run commands with *run*, until the returned function is called."""
        self._lent.setdefault(sid, []).append(run)

        def take_back() -> None:
            lent = self._lent.get(sid, [])
            if run in lent:
                lent.remove(run)
            if not lent:
                self._lent.pop(sid, None)

        return take_back

    def find(self, sid: str) -> RunInTerminal | None:
        """Return the terminal of session *sid*, None when no client lends one."""
        lent = self._lent.get(sid)
        return lent[-1] if lent else None
