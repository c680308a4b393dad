"""Ask the editor to watch the disk for us: one watcher a machine, with the user's excludes.

Registers what covers the client's folders, again when they change. What lies elsewhere, and everything of a
client that cannot or refuses, the workspace watches itself.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.server.profile import ClientProfile
from sidecar.transport.peer import Peer, PeerGone, PeerRefused
from sidecar.workspace.contract import Dispose, WorkspacePort
from sidecar.workspace.paths import uri_to_path

__all__ = ["ClientWatcher"]

_METHOD: Final = "workspace/didChangeWatchedFiles"
_EVERYTHING: Final = "**/*"


class ClientWatcher:
    """The registration of one client, at most one at a time."""

    def __init__(self, peer: Peer, profile: ClientProfile, workspace: WorkspacePort) -> None:
        self._peer = peer
        self._profile = profile
        self._workspace = workspace
        self._numbers = itertools.count(1)
        self._registered: str | None = None
        self._give_back: Dispose = _nothing
        self._one_at_a_time = asyncio.Lock()

    async def cover(self, folder_uris: Sequence[str]) -> None:
        """Let the client watch *folder_uris* and nothing else."""
        if self._profile.registers_watchers:
            async with self._one_at_a_time:
                await self._cover(folder_uris)

    def close(self) -> None:
        """The client is gone and watches no more."""
        self._registered = None
        self._give_back()

    async def _cover(self, folder_uris: Sequence[str]) -> None:
        old, self._registered = self._registered, None
        if folder_uris:
            self._registered = await self._register(folder_uris)
        give_back, self._give_back = self._give_back, _nothing
        if self._registered is not None:
            self._give_back = self._workspace.watched_by_client(_paths(folder_uris))
        give_back()
        if old is not None:
            await self._unregister(old)

    async def _register(self, folder_uris: Sequence[str]) -> str | None:
        name = f"sidecar-watch-{next(self._numbers)}"
        watchers = [{"globPattern": pattern} for pattern in self._patterns(folder_uris)]
        wanted = {"id": name, "method": _METHOD, "registerOptions": {"watchers": watchers}}
        try:
            await self._peer.request("client/registerCapability", {"registrations": [wanted]})
        except (PeerRefused, PeerGone):
            return None
        return name

    async def _unregister(self, name: str) -> None:
        try:
            # The misspelt key is the protocol's own.
            gone = {"unregisterations": [{"id": name, "method": _METHOD}]}
            await self._peer.request("client/unregisterCapability", gone)
        except (PeerRefused, PeerGone):
            return  # then it tells us twice, which does no harm

    def _patterns(self, folder_uris: Sequence[str]) -> list[Any]:
        if self._profile.watches_relative:
            return [{"baseUri": uri, "pattern": _EVERYTHING} for uri in folder_uris]
        return [_EVERYTHING]


def _paths(uris: Sequence[str]) -> tuple[Path, ...]:
    return tuple(path for uri in uris if (path := uri_to_path(uri)) is not None)


def _nothing() -> None:
    return None
