"""The files of a client that offers ``fs/*``: reads see its unsaved text, and writes go through it.

A client that leaves a read unanswered for too long is not asked again, so that reads do not hang on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from sidecar.acp.handshake import AcpProfile
from sidecar.transport.peer import Peer, PeerGoneError, PeerRefused
from sidecar.workspace.contract import ClientFileSource, Dispose, WorkspacePort

_log = logging.getLogger("sidecar.acp")

_READ_S: Final = 2.0
_WRITE_S: Final = 30.0
"""Longer than a read: an editor may format what it saves, or ask its user."""


class ClientFiles:
    """The files of one client in the folders of its sessions; a read may take *read_s* seconds."""

    def __init__(
        self, peer: Peer, profile: AcpProfile, workspace: WorkspacePort, *, read_s: float = _READ_S
    ) -> None:
        self._peer = peer
        self._profile = profile
        self._workspace = workspace
        self._read_s = read_s
        self._is_unresponsive = False
        self._offers: dict[str, list[Dispose]] = {}

    def offer(self, sid: str, folders: Iterable[str]) -> None:
        """Let the workspace read and write the files in the *folders* of a session through this client."""
        if not (self._profile.reads_files or self._profile.writes_files):
            return
        self.withdraw(sid)
        source = ClientFileSource(
            read=partial(self.read, sid) if self._profile.reads_files else None,
            write=partial(self.write, sid) if self._profile.writes_files else None,
        )
        self._offers[sid] = [self._workspace.add_client_files(Path(folder), source) for folder in folders]

    def withdraw(self, sid: str) -> None:
        """End the offers for a session."""
        for dispose in self._offers.pop(sid, ()):
            dispose()

    def close(self) -> None:
        """End every offer: the client is gone."""
        for sid in tuple(self._offers):
            self.withdraw(sid)

    async def read(self, sid: str, path: Path) -> str | None:
        """Return the client's text of a file; None when it has none, refuses, or does not answer."""
        if self._is_unresponsive:
            return None
        params = {"sessionId": sid, "path": str(path)}
        try:
            async with asyncio.timeout(self._read_s):
                reply = await self._peer.request("fs/read_text_file", params)
        except TimeoutError:
            _log.warning("the client did not answer fs/read_text_file and is not asked again")
            self._is_unresponsive = True
            return None
        except (PeerRefused, PeerGoneError):
            return None
        content = reply.get("content") if isinstance(reply, Mapping) else None
        return content if isinstance(content, str) else None

    async def write(self, sid: str, path: Path, text: str) -> bool:
        """Write a file through the client, and return whether it accepted that."""
        params = {"sessionId": sid, "path": str(path), "content": text}
        try:
            async with asyncio.timeout(_WRITE_S):
                await self._peer.request("fs/write_text_file", params)
        except (TimeoutError, PeerRefused, PeerGoneError):
            return False
        return True
